"""Encoders and multi-layer perceptrons."""

from pellucid.nets.encoders import feature_width, make_encoder
from pellucid.nets.mlp import mlp

__all__ = ["feature_width", "make_encoder", "mlp"]
