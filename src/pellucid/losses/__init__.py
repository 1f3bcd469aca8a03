"""Losses: pure functions from tensors to a scalar, computed in fp32 under any autocast."""

from pellucid.losses.contrastive import info_nce, nt_xent, unit_rows
from pellucid.losses.entropy import gaussian_entropy, gaussian_kl, nearest_neighbour_entropy
from pellucid.losses.gate import bernoulli_kl
from pellucid.losses.regression import cosine_regression
from pellucid.losses.spectral import largest_singular_value

__all__ = [
    "bernoulli_kl",
    "cosine_regression",
    "gaussian_entropy",
    "gaussian_kl",
    "info_nce",
    "largest_singular_value",
    "nearest_neighbour_entropy",
    "nt_xent",
    "unit_rows",
]
