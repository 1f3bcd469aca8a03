"""Losses: pure functions from tensors to a scalar, computed in fp32 under any autocast."""

from pellucid.losses.contrastive import info_nce, nt_xent, unit_rows
from pellucid.losses.gate import bernoulli_kl

__all__ = ["bernoulli_kl", "info_nce", "nt_xent", "unit_rows"]
