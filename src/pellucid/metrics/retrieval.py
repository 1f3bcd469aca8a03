"""Retrieval: are an image's nearest neighbours of its class?"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from pellucid.metrics.activity import unit_rows
from pellucid.metrics.checks import COSINES, ROWS, checked_features, checked_labels

DECIMALS = 6
"""Cosines that agree to so many decimals are a tie: fp32 products of equal rows differ by less."""


class Retrieval(NamedTuple):
    """Precision of retrieval, and what it takes to read it. Higher is better."""

    precision: dict[int, float]
    """For each number of neighbours asked for, the mean share of them in the query's class."""
    chance: float
    """The same for neighbours drawn at random."""
    dimensions: int
    """Dimensions compared."""


def retrieval_precision(
    features: Float[Tensor, "n k"],
    labels: Integer[Tensor, " n"],
    *,
    at: tuple[int, ...] = (1, 3, 5, 10),
    dimensions: Integer[Tensor, " d"] | None = None,
) -> Retrieval:
    """The share of an image's nearest images, by cosine, that have its label.

    Every image is a query among all others; it is taken out by identity, not as "the first
    hit". Cosines that agree to six decimals are ties, and a tie at the end of the list counts
    at its expected precision under a random order, so neither the order of images nor
    duplicates matter, and a zero row, with cosine 0 to every image, scores about chance.

    Args:
        features: the representation, [N, K].
        labels: the class of each image.
        at: numbers of neighbours, each at least 1 and below N.
        dimensions: those to compare (`rank_dimensions(...)[:64]`), before rows are scaled to
            unit length; None for all.

    Source: NCL (arXiv 2403.12459), section on feature selection.

    Raises:
        TypeError, ValueError: features or labels are unfit, or `at` asks for more neighbours
            than there are.
    """
    features = checked_features(features)
    labels = checked_labels(labels, features)
    others = len(features) - 1
    if not at or min(at) < 1 or max(at) > others:
        raise ValueError(f"at must lie in 1..{others}, the other images of {others + 1}; got {at}")
    if dimensions is not None:
        features = checked_features(features[:, dimensions], "chosen features")
    unit = unit_rows(features)
    hits = dict.fromkeys(at, 0.0)
    with torch.autocast(unit.device.type, enabled=False):  # half precision makes false ties
        at_a_time = max(1, COSINES // len(unit))
        for first in range(0, len(unit), at_a_time):
            queries = slice(first, first + at_a_time)
            similarity = unit[queries] @ unit.T
            itself = torch.arange(first, first + len(similarity), device=unit.device)
            similarity.scatter_(1, itself[:, None], -torch.inf)
            # One more than asked for: the query itself at least, which no cosine ties with.
            values, nearest = similarity.topk(max(at) + 1, dim=1)
            values = values.round(decimals=DECIMALS)
            right = labels[nearest] == labels[queries, None]
            for k in hits:
                tie = values[:, k - 1] == values[:, k]
                hits[k] += right[~tie, :k].sum().item()
                if tie.any():
                    same = labels[queries][tie, None] == labels
                    hits[k] += _expected_hits(similarity[tie], same, values[tie, k - 1 : k], k)
    _, sizes = torch.unique(labels, return_counts=True)
    return Retrieval(
        precision={k: found / (k * len(unit)) for k, found in hits.items()},
        chance=(sizes * (sizes - 1)).sum().item() / (len(unit) * others),
        dimensions=unit.shape[1],
    )


def rank_dimensions(train_features: Float[Tensor, "n k"]) -> Int[Tensor, " k"]:
    """Dimensions by mean |z| of rows of unit length, the strongest first; ties by position.

    Rank on the training split and score on another: ranking on the scored images is selection
    on the test set.

    Source: NCL (arXiv 2403.12459), feature selection.

    Raises:
        TypeError, ValueError: features are unfit.
    """
    features = checked_features(train_features)
    strength = torch.zeros(features.shape[1], dtype=torch.float64, device=features.device)
    for rows in torch.split(features, ROWS):
        strength += unit_rows(rows).abs().sum(dim=0, dtype=torch.float64)
    return strength.argsort(descending=True, stable=True)


def _expected_hits(
    similarity: Float[Tensor, "q n"],
    same: Bool[Tensor, "q n"],
    last: Float[Tensor, "q 1"],
    k: int,
) -> float:
    """Images of the query's class among its k nearest, ties at the last place shared out."""
    similarity = similarity.round(decimals=DECIMALS)
    nearer = similarity > last
    tied = similarity == last
    places = k - nearer.sum(dim=1)
    share = (tied & same).sum(dim=1).double() / tied.sum(dim=1)
    return ((nearer & same).sum(dim=1) + places * share).sum().item()
