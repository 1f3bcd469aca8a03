"""Semantic consistency: does a dimension fire on images of one class?"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from pellucid.metrics.activity import active_entries, class_sums, enough_support, shuffled
from pellucid.metrics.checks import ROWS, checked_features, checked_labels
from pellucid.randomness import seeded


class Consistency(NamedTuple):
    """Semantic consistency, and what it takes to read it. Higher is sharper.

    `value`, `chance`, `low` and `high` are None when no dimension could be scored
    (`dimensions` is then 0): a dead model has no consistency.
    """

    value: float | None
    """Mean over scored dimensions of the share of the dimension's largest class, 1/C..1."""
    chance: float | None
    """The same under shuffled labels; None also without shuffles."""
    low: float | None
    """Lower end of the 95 % interval over images; None also with fewer than two resamples."""
    high: float | None
    """Upper end of the interval."""
    dimensions: int
    """Dimensions scored: active on at least `min_support` images."""
    support: int
    """The fewest active images of a scored dimension; 0 when none is scored."""


class DimensionConsistency(NamedTuple):
    """Semantic consistency of each dimension by itself; NaN, and class -1, for a dead one."""

    value: Float[Tensor, " k"]
    """The class-balanced share of the dimension's largest class, 1/C..1, in fp64."""
    chance: Float[Tensor, " k"]
    """The same under shuffled labels; NaN without shuffles."""
    largest: Int[Tensor, " k"]
    """The largest class, the first of equals."""


def semantic_consistency(
    features: Float[Tensor, "n k"],
    labels: Integer[Tensor, " n"],
    *,
    min_support: int = 10,
    seed: int = 0,
    shuffles: int = 10,
    resamples: int = 100,
) -> Consistency:
    """The class-balanced share of a dimension's largest class, averaged over dimensions.

    A dimension is active on an image when |z| > 1e-5 after the row is scaled to unit length.
    Class balance: the active images of a class are divided by the number of images of that
    class, and these rates are divided by their sum over classes, so a dimension that fires at
    random scores about 1/C whatever the class sizes. C counts classes that have images.

    Rare dimensions score high by luck alone. `min_support` leaves the rarest out, and `chance`
    is what the same activity scores with labels shuffled over images (mean of `shuffles`): read
    the value beside it, it is not subtracted. `low` and `high` are the value -/+ 1.96 standard
    deviations over `resamples` draws of N images with replacement, cut to 0..1. Spread and not
    percentiles: a draw repeats images, which by itself raises the share of rare dimensions. The
    scored dimensions stay those of the whole set in every shuffle and draw.

    Source: NCL (arXiv 2403.12459) and BayesNCL (arXiv 2605.28441); their form, without support,
    balance and chance, is `as_published.semantic_consistency`.

    Raises:
        TypeError, ValueError: features or labels are unfit, or `min_support` is below 1.
    """
    features = checked_features(features)
    labels = checked_labels(labels, features)
    active = active_entries(features)
    scored = enough_support(active, min_support)
    if len(scored) == 0:
        return Consistency(None, None, None, None, dimensions=0, support=0)
    active = active[:, scored]
    value = _largest_share(active, labels).mean().item()
    by_luck = [
        _largest_share(active, other).mean().item() for other in shuffled(labels, seed, shuffles)
    ]
    low, high = None, None
    if resamples >= 2:
        draws = _draws(len(labels), seed, resamples).to(labels.device)
        redrawn = _largest_share_of_draws(active, labels, draws).nanmean(dim=1)
        redrawn = redrawn[~redrawn.isnan()]  # a draw without one active image says nothing
        if len(redrawn) >= 2:
            reach = 1.96 * redrawn.std().item()
            low, high = max(value - reach, 0.0), min(value + reach, 1.0)
    return Consistency(
        value=value,
        chance=sum(by_luck) / len(by_luck) if by_luck else None,
        low=low,
        high=high,
        dimensions=len(scored),
        support=int(active.sum(dim=0).min()),
    )


def dimension_consistency(
    features: Float[Tensor, "n k"],
    labels: Integer[Tensor, " n"],
    *,
    seed: int = 0,
    shuffles: int = 10,
) -> DimensionConsistency:
    """What `semantic_consistency` averages: every dimension by itself, whatever its support.

    Raises:
        TypeError, ValueError: features or labels are unfit.
    """
    features = checked_features(features)
    labels = checked_labels(labels, features)
    active = active_entries(features)
    counts, sizes = class_sums(active, labels)
    rates = counts / sizes[:, None]
    by_luck = [_largest_share(active, other) for other in shuffled(labels, seed, shuffles)]
    value = rates.amax(dim=0) / rates.sum(dim=0)
    classes = torch.unique(labels)[rates.argmax(dim=0)]
    return DimensionConsistency(
        value=value,
        chance=torch.stack(by_luck).mean(dim=0) if by_luck else torch.full_like(value, torch.nan),
        largest=classes.where(~value.isnan(), classes.new_tensor(-1)),
    )


def _largest_share(active: Bool[Tensor, "n k"], labels: Int[Tensor, " n"]) -> Float[Tensor, " k"]:
    """Each dimension's balanced share of its largest class; NaN for a dead one."""
    counts, sizes = class_sums(active, labels)
    rates = counts / sizes[:, None]
    return rates.amax(dim=0) / rates.sum(dim=0)


def _largest_share_of_draws(
    active: Bool[Tensor, "n k"], labels: Int[Tensor, " n"], draws: Float[Tensor, "r n"]
) -> Float[Tensor, "r k"]:
    """The same in each draw of images."""
    largest = torch.zeros(len(draws), active.shape[1], dtype=torch.float64, device=active.device)
    total = torch.zeros_like(largest)
    sizes = torch.unique(labels, return_counts=True)[1]
    for images in torch.split(labels.argsort(stable=True), sizes.tolist()):
        counts = torch.zeros_like(largest)
        for some in torch.split(images, ROWS):
            # Small whole numbers are exact in whatever products of fp32 may be rounded to; their
            # sums are too, in fp32.
            with torch.autocast(active.device.type, enabled=False):
                counts += draws[:, some] @ active[some].float()
        size = draws[:, images].sum(dim=1, dtype=torch.float64)
        rate = counts / size.clamp(min=1)[:, None]  # a draw may hold no image of the class
        largest = torch.maximum(largest, rate)
        total += rate
    return largest / total  # 0/0, NaN: no active image of the dimension was drawn


def _draws(n: int, seed: int, resamples: int) -> Float[Tensor, "r n"]:
    """How often each image is drawn, in `resamples` draws of n with replacement."""
    return torch.stack(
        [
            torch.randint(n, (n,), generator=seeded(seed, "draw of images", number)).bincount(
                minlength=n
            )
            for number in range(resamples)
        ]
    ).float()
