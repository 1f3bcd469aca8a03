"""How many directions a representation uses, and whether its dimensions repeat each other."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.metrics.activity import active_entries
from pellucid.metrics.checks import ROWS, checked_features

COLUMNS = 512
"""Columns of a product at a time; it saves work and changes no result."""


class Orthogonality(NamedTuple):
    """Overlap of dimensions, and how many were compared. Lower is more orthogonal."""

    value: float | None
    """Mean |cos| between different live columns, 0..1; None with fewer than two of them."""
    dimensions: int
    """Live dimensions: active on at least one image."""


def effective_rank(features: Float[Tensor, "n k"]) -> float | None:
    """The exponential of the entropy of the normalised singular values, 1..min(N, K).

    Features are taken as given, neither centred nor scaled, so the same non-zero row for every
    image has rank 1. None when all features are zero. Singular values come from the fp64 Gram
    matrix of the smaller side; those that its rounding could have made are zero.

    Source: Roy and Vetterli, The effective rank (EUSIPCO 2007), definition 1. The authors of
    BayesNCL report the entropy itself: `as_published.effective_rank`.

    Raises:
        TypeError, ValueError: features are unfit.
    """
    features = checked_features(features)
    largest = features.abs().max().double()
    if largest == 0:
        return None
    gram = _gram(features if features.shape[0] >= features.shape[1] else features.T, largest)
    eigenvalues: Tensor = torch.linalg.eigvalsh(gram)
    floor = eigenvalues[-1] * len(gram) * torch.finfo(gram.dtype).eps
    singular = eigenvalues.where(eigenvalues > floor, torch.zeros_like(eigenvalues)).sqrt()
    entropy: Tensor = torch.special.entr(singular / singular.sum()).sum()
    # Rounding may lead out of the range by a last digit.
    return min(max(entropy.exp().item(), 1.0), float(min(features.shape)))


def orthogonality(features: Float[Tensor, "n k"]) -> Orthogonality:
    """The mean |cos| between different columns over live dimensions.

    Features are taken as given; a dimension is live when |z| > 1e-5 on an image whose row is
    scaled to unit length. Constant columns count: two of them have |cos| 1.

    Source: NCL (arXiv 2403.12459); the form of the BayesNCL code, which divides by the number
    of pairs twice, is `as_published.orthogonality`.

    Raises:
        TypeError, ValueError: features are unfit.
    """
    features = checked_features(features)
    columns = features[:, active_entries(features).any(dim=0)]
    count = columns.shape[1]
    if count < 2:
        return Orthogonality(None, count)
    gram = _gram(columns, columns.abs().amax(dim=0).double())
    length = gram.diagonal().sqrt()
    cosines = (gram / length / length[:, None]).abs().fill_diagonal_(0)
    return Orthogonality(min(cosines.sum().item() / (count * (count - 1)), 1.0), count)


def _gram(matrix: Float[Tensor, "m s"], scale: Float[Tensor, "..."]) -> Float[Tensor, "s s"]:
    """Products of the columns over `scale` (so that none overflows), in fp64, block by block."""
    count = matrix.shape[1]
    gram = torch.zeros(count, count, dtype=torch.float64, device=matrix.device)
    for rows in torch.split(matrix, ROWS):
        scaled = rows.double() / scale
        for first in range(0, count, COLUMNS):  # the upper half: the lower one is its mirror
            strip = slice(first, first + COLUMNS)
            gram[: first + COLUMNS, strip].addmm_(scaled[:, : first + COLUMNS].T, scaled[:, strip])
    return gram.triu() + gram.triu(1).T
