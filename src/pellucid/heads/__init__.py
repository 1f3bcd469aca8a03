"""Heads: (u, h) -> z, the representation whose dimensions people read."""

from pellucid.heads.bayes_gate import BayesGate
from pellucid.heads.head import Head
from pellucid.heads.inverse_frequency import InverseFrequency
from pellucid.heads.non_negative import NonNegative
from pellucid.heads.signed import Signed
from pellucid.heads.table import HEADS
from pellucid.heads.top_k import TopK

__all__ = ["HEADS", "BayesGate", "Head", "InverseFrequency", "NonNegative", "Signed", "TopK"]
