"""Encoders, multi-layer perceptrons, momentum copies and key queues."""

from pellucid.nets.encoders import feature_width, make_encoder
from pellucid.nets.key_queue import KeyQueue
from pellucid.nets.mlp import mlp
from pellucid.nets.momentum import MomentumCopy
from pellucid.nets.shuffled_groups import ShuffledGroups

__all__ = [
    "KeyQueue",
    "MomentumCopy",
    "ShuffledGroups",
    "feature_width",
    "make_encoder",
    "mlp",
]
