"""Monosemanticity: are the images of a dimension alike, judged without labels?"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.metrics.activity import active_entries, enough_support, unit_rows
from pellucid.metrics.checks import ROWS, checked_features


class Monosemanticity(NamedTuple):
    """Monosemanticity, and what it takes to read it. Higher is sharper."""

    value: float | None
    """Mean over scored dimensions, -1..1; None when none could be scored."""
    chance: float | None
    """What every dimension scores on average when images are permuted; None with `value`."""
    dimensions: int
    """Dimensions scored: active on at least `min_support` images."""
    support: int
    """The fewest active images of a scored dimension; 0 when none is scored."""
    per_dimension: Float[Tensor, " k"]
    """Each dimension's own value in fp64; NaN where it was not scored."""


def monosemanticity(
    features: Float[Tensor, "n k"],
    reference: Float[Tensor, "n f"],
    *,
    min_support: int = 10,
) -> Monosemanticity:
    """The activation-weighted mean cosine between a dimension's images in a reference embedding.

    With a_i = |z_ik| of the row of unit length and e_i the reference row of unit length, the
    mean of cos(e_i, e_j) over pairs of different images, weighted by a_i a_j, is found in one
    pass: (|sum a_i e_i|^2 - sum a_i^2) / ((sum a_i)^2 - sum a_i^2). For signed features both
    sides of a dimension count as one concept, as in consistency and entropy: a dimension whose
    sides mean different things is rightly scored low. A zero reference row has cosine 0 with all.

    `chance` needs no draws: over all permutations of the images, the average of the weighted
    mean is the plain mean cosine between different images, for every dimension.

    Args:
        features: the representation that is judged.
        reference: what likeness is judged in: the encoder's h, or any other embedding.
        min_support: the fewest active images (|z| > 1e-5) for a dimension to be scored.

    Source: arXiv 2504.02821; the single-pass form is in arXiv 2602.12403.

    Raises:
        TypeError, ValueError: features or reference are unfit or not of the same images, or
            `min_support` is below 2, the images of one pair.
    """
    features = checked_features(features)
    reference = checked_features(reference, "reference").to(features.device)
    if len(reference) != len(features):
        raise ValueError(
            f"reference must have the {len(features)} images of features, got {len(reference)}"
        )
    if min_support < 2:
        raise ValueError(f"min_support must be at least 2, the images of a pair, got {min_support}")
    active = active_entries(features)
    scored = enough_support(active, min_support)
    per_dimension = torch.full(
        features.shape[1:], torch.nan, dtype=torch.float64, device=features.device
    )
    if len(scored) == 0:
        return Monosemanticity(None, None, 0, 0, per_dimension)

    pulled = per_dimension.new_zeros(len(scored), reference.shape[1])
    mass, squares, own = per_dimension.new_zeros(3, len(scored))
    centre, length = per_dimension.new_zeros(reference.shape[1]), 0.0
    for some, compared in zip(
        torch.split(features, ROWS), torch.split(reference, ROWS), strict=True
    ):
        a = unit_rows(some)[:, scored].abs().double()
        e = unit_rows(compared).double()
        squared = e.square().sum(dim=1)  # 1, or 0 for a zero row
        pulled += a.T @ e
        mass += a.sum(dim=0)
        squares += a.square().sum(dim=0)
        own += squared @ a.square()
        centre += e.sum(dim=0)
        length += squared.sum().item()
    found = (pulled.square().sum(dim=1) - own) / (mass.square() - squares)
    per_dimension[scored] = found.clamp(-1, 1)  # which rounding may exceed
    pairs = len(features) * (len(features) - 1)
    return Monosemanticity(
        value=per_dimension[scored].mean().item(),
        chance=min(max((centre.square().sum().item() - length) / pairs, -1.0), 1.0),
        dimensions=len(scored),
        support=int(active[:, scored].sum(dim=0).min()),
        per_dimension=per_dimension,
    )
