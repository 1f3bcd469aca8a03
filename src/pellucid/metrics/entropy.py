"""Semantic entropy: over how many classes is a dimension's activation spread?"""

import math
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from pellucid.metrics.activity import (
    active_entries,
    class_sums,
    enough_support,
    shuffled,
    unit_rows,
)
from pellucid.metrics.checks import ROWS, checked_features, checked_labels

Weighting = Literal["mass", "mean", "frequency"]


class SemanticEntropy(NamedTuple):
    """Semantic entropy, and what it takes to read it. Lower is sharper.

    The numbers are None when no dimension could be scored (`dimensions` is then 0): a dead
    model has no entropy, not the best one.
    """

    nats: float | None
    """Mean over scored dimensions, 0..ln C."""
    normalised: float | None
    """`nats` divided by ln C, 0..1; None also when there is only one class."""
    chance: float | None
    """`nats` under shuffled labels; None also without shuffles."""
    dimensions: int
    """Dimensions scored: active on at least `min_support` images."""
    support: int
    """The fewest active images of a scored dimension; 0 when none is scored."""


def semantic_entropy(
    features: Float[Tensor, "n k"],
    labels: Integer[Tensor, " n"],
    *,
    weighting: Weighting = "mass",
    min_support: int = 10,
    seed: int = 0,
    shuffles: int = 10,
) -> SemanticEntropy:
    """The entropy over classes of what a dimension does, averaged over dimensions.

    Rows are scaled to unit length first. A class weighs by the sum of |z| over its images
    (`mass`), by their mean |z|, which balances classes of different sizes (`mean`), or by the
    number of its active images, |z| > 1e-5 (`frequency`); the weights of a dimension are divided
    by their sum over classes. C counts classes that have images.

    Source: BayesNCL (arXiv 2605.28441); their form is `as_published.semantic_entropy`.

    Raises:
        TypeError, ValueError: features or labels are unfit, the weighting is not one of the
            three, or `min_support` is below 1.
    """
    features = checked_features(features)
    labels = checked_labels(labels, features)
    check_weighting(weighting)
    active = active_entries(features)
    scored = enough_support(active, min_support)
    if len(scored) == 0:
        return SemanticEntropy(None, None, None, dimensions=0, support=0)
    active = active[:, scored]
    if weighting == "frequency":
        values = active
    else:
        # Filled and not concatenated, which would hold them twice.
        kind = torch.promote_types(features.dtype, torch.float32)
        values = torch.empty(active.shape, dtype=kind, device=features.device)
        for rows, some in zip(torch.split(features, ROWS), torch.split(values, ROWS), strict=True):
            some.copy_(unit_rows(rows)[:, scored].abs())
    nats = _mean_entropy(values, labels, weighting)
    by_luck = [
        _mean_entropy(values, other, weighting) for other in shuffled(labels, seed, shuffles)
    ]
    classes = len(torch.unique(labels))
    return SemanticEntropy(
        nats=nats,
        normalised=nats / math.log(classes) if classes > 1 else None,
        chance=sum(by_luck) / len(by_luck) if by_luck else None,
        dimensions=len(scored),
        support=int(active.sum(dim=0).min()),
    )


def check_weighting(weighting: str) -> None:
    """Refuse a weighting that is not one of the three.

    Raises:
        ValueError: names the three.
    """
    if weighting not in ("mass", "mean", "frequency"):
        raise ValueError(f"weighting must be mass, mean or frequency, got {weighting!r}")


def _mean_entropy(
    values: Float[Tensor, "n k"] | Bool[Tensor, "n k"],
    labels: Int[Tensor, " n"],
    weighting: Weighting,
) -> float:
    """The mean over dimensions of the entropy over classes, in nats."""
    weights, sizes = class_sums(values, labels)
    if weighting == "mean":
        weights = weights / sizes[:, None]
    entropy: Tensor = torch.special.entr(weights / weights.sum(dim=0)).sum(dim=0)
    return min(entropy.mean().item(), math.log(len(weights)))  # which rounding may exceed
