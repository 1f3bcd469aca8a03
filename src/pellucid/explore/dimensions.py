"""What is known of each dimension, from all images: the numbers behind the list and the cards."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.metrics import (
    active_entries,
    dimension_consistency,
    monosemanticity,
    unit_rows,
)
from pellucid.metrics.checks import ROWS
from pellucid.representation.representation import Representation

ALWAYS_ON = 0.9
"""A dimension that is active on more than this share of images tells few of them apart."""
DUPLICATE = 0.95
"""Two dimensions whose columns have at least this cosine say the same."""
BINS = 24
"""Of a dimension's histogram."""
STRATA = 4
"""Intervals of strength."""


class Dimensions(NamedTuple):
    """Statistics of every dimension over all images; values are those of unit rows z/|z|."""

    support: Int[Tensor, " k"]
    """Images on which the dimension is active."""
    frequency: Float[Tensor, " k"]
    """Their share of all images."""
    mean: Float[Tensor, " k"]
    """Mean |value| where active; NaN for a dead dimension."""
    lowest: Float[Tensor, " k"]
    """The smallest active value, with its sign; NaN for a dead dimension."""
    highest: Float[Tensor, " k"]
    """The largest active value; NaN for a dead dimension."""
    histogram: Int[Tensor, "k bins"]
    """Active images in equal intervals from `lowest` (at most 0) to `highest` (at least 0)."""
    strata: Int[Tensor, "k strata"]
    """Active images by |value|, in equal intervals from 0 to the largest."""
    cosine: Float[Tensor, "k k"]
    """Of columns; 0 for dead dimensions."""
    together: Int[Tensor, "k k"]
    """Images on which both are active."""


def describe(representation: Representation) -> Dimensions:
    """The statistics that need no labels and no gate."""
    z = representation.z
    k = z.shape[1]
    support = torch.zeros(k, dtype=torch.int64)
    mass = torch.zeros(k, dtype=torch.float64)
    lowest, highest = torch.full((k,), torch.inf), torch.full((k,), -torch.inf)
    gram = torch.zeros(k, k, dtype=torch.float64)
    together = torch.zeros(k, k)  # fp32 counts exactly to 2^24 a block, and blocks are small
    for unit, active in _blocks(z):
        support += active.sum(dim=0)
        mass += unit.abs().mul(active).sum(dim=0, dtype=torch.float64)
        lowest = torch.minimum(lowest, unit.masked_fill(~active, torch.inf).amin(dim=0))
        highest = torch.maximum(highest, unit.masked_fill(~active, -torch.inf).amax(dim=0))
        gram += (unit.T @ unit).double()
        together += active.float().T @ active.float()
    bins, strata = _histograms(z, lowest, highest)
    dead = support == 0
    length = gram.diagonal().sqrt()
    cosine = gram / (length[:, None] * length).clamp(min=1e-30)
    return Dimensions(
        support=support,
        frequency=support.double() / len(z),
        mean=mass / support,
        lowest=lowest.masked_fill(dead, torch.nan),
        highest=highest.masked_fill(dead, torch.nan),
        histogram=bins,
        strata=strata,
        cosine=cosine.masked_fill(dead[:, None] | dead, 0.0),
        together=together.long(),
    )


def _blocks(z: Tensor) -> list[tuple[Tensor, Tensor]]:
    return [(unit_rows(rows), active_entries(rows)) for rows in torch.split(z, ROWS)]


def _histograms(z: Tensor, lowest: Tensor, highest: Tensor) -> tuple[Tensor, Tensor]:
    """Counts in equal intervals of the value, and of its size."""
    low, high = lowest.clamp(max=0.0), highest.clamp(min=0.0)
    width = (high - low).where(torch.isfinite(high - low) & (high > low), torch.ones_like(high))
    low = low.where(torch.isfinite(low), torch.zeros_like(low))
    largest = torch.maximum(-low, high).where(torch.isfinite(high), torch.ones_like(high))
    k = z.shape[1]
    bins = torch.zeros(k * BINS, dtype=torch.int64)
    strata = torch.zeros(k * STRATA, dtype=torch.int64)
    first = torch.arange(k)
    for unit, active in _blocks(z):
        place = ((unit - low) / width * BINS).long().clamp(0, BINS - 1) + first * BINS
        bins += place[active].bincount(minlength=k * BINS)
        place = (unit.abs() / largest * STRATA).long().clamp(0, STRATA - 1) + first * STRATA
        strata += place[active].bincount(minlength=k * STRATA)
    return bins.view(k, BINS), strata.view(k, STRATA)


class Likeness(NamedTuple):
    """Monosemanticity of each dimension: how alike its images are in h. No labels needed."""

    value: Float[Tensor, " k"]
    """NaN where a dimension has fewer than two active images."""
    chance: float | None
    """What permuted images give, the same for every dimension."""


def likeness(representation: Representation) -> Likeness | None:
    """Each dimension's monosemanticity in the encoder's features; None where h is not known."""
    if representation.h is None:
        return None
    found = monosemanticity(representation.z, representation.h, min_support=2)
    return Likeness(found.per_dimension, found.chance)


class ClassUse(NamedTuple):
    """What labels say of each dimension, over the labelled images."""

    consistency: Float[Tensor, " k"]
    chance: Float[Tensor, " k"]
    largest: Int[Tensor, " k"]
    counts: Int[Tensor, "k c"]
    """Active images of each class."""
    mass: Float[Tensor, "k c"]
    """Mean value of unit rows over all images of each class."""
    images: Int[Tensor, " c"]
    """Images of each class."""


def class_use(representation: Representation) -> ClassUse | None:
    """How classes use the dimensions; None where no image has a label."""
    labels = representation.labels
    if labels is None or not bool((labels >= 0).any()):
        return None
    known = labels >= 0
    z, labels = representation.z[known], labels[known]
    classes = max(len(representation.classes or ()), int(labels.max()) + 1)
    single = dimension_consistency(z, labels)
    counts = torch.zeros(z.shape[1], classes, dtype=torch.float64)
    mass = torch.zeros_like(counts)
    for (unit, active), some in zip(_blocks(z), torch.split(labels, ROWS), strict=True):
        of_class = torch.nn.functional.one_hot(some, classes).double()
        counts += active.double().T @ of_class
        mass += unit.double().T @ of_class
    images = labels.bincount(minlength=classes)
    return ClassUse(
        consistency=single.value,
        chance=single.chance,
        largest=single.largest,
        counts=counts.long(),
        mass=mass / images.clamp(min=1),
        images=images,
    )


class GateUse(NamedTuple):
    """What the gate does to each dimension, over all images."""

    pi: Float[Tensor, " k"]
    """Share of images with the dimension on before the gate."""
    open_rate: Float[Tensor, " k"]
    """Share of images whose gate probability is above the threshold."""
    mean: Float[Tensor, " k"]
    """Mean gate probability."""
    closed: Int[Tensor, " k"]
    """Images on which the gate took the dimension away: on before it, and closed."""
    removed: Float[Tensor, " n"]
    """Share of each image's energy that the gate removed, 1 - |z|^2 / |ungated z|^2."""


def gate_use(representation: Representation) -> GateUse | None:
    """How the gate is used; None without gates. Soft gates are read at a probability of 0.5."""
    gate, ungated = representation.gate, representation.ungated
    if gate is None or ungated is None:
        return None
    threshold = 0.5 if representation.threshold is None else representation.threshold
    opened = gate > threshold
    before = ungated.double().square().sum(dim=1)
    after = representation.z.double().square().sum(dim=1)
    return GateUse(
        pi=(ungated != 0).double().mean(dim=0),
        open_rate=opened.double().mean(dim=0),
        mean=gate.double().mean(dim=0),
        closed=_taken(ungated, opened).sum(dim=0),
        removed=(1 - after / before).where(before > 0, torch.zeros_like(before)),
    )


def _taken(ungated: Tensor, opened: Bool[Tensor, "n k"]) -> Bool[Tensor, "n k"]:
    return (ungated != 0) & ~opened


def duplicates(cosine: Float[Tensor, "k k"]) -> list[tuple[int, int]]:
    """Pairs of dimensions whose columns say the same."""
    upper = cosine.triu(diagonal=1) >= DUPLICATE
    return [(a, b) for a, b in upper.nonzero().tolist()]


def nearest(cosine: Float[Tensor, "k k"], most: int = 5) -> list[list[tuple[int, float]]]:
    """For each dimension those whose columns are most like it."""
    return _top(cosine.clone().fill_diagonal_(-torch.inf), cosine > 0, most)


def often_together(
    found: Dimensions, images: int, min_support: int, most: int = 5
) -> list[list[tuple[int, float]]]:
    """For each dimension those that are on with it most above independence, as a lift.

    A lift is the share of images with both over the product of the two shares; pairs with fewer
    than `min_support` images in common are left out, since luck lifts rare pairs.
    """
    frequency = found.frequency
    lift = found.together.double() / images / (frequency[:, None] * frequency).clamp(min=1e-30)
    known = (found.together >= max(1, min_support)) & ~torch.eye(len(frequency), dtype=torch.bool)
    return _top(lift, known & (lift > 1), most)


def _top(values: Tensor, known: Tensor, most: int) -> list[list[tuple[int, float]]]:
    ranked, order = values.masked_fill(~known, -torch.inf).sort(dim=1, descending=True, stable=True)
    return [
        [(i, v) for v, i in zip(row[:most], places[:most], strict=True) if v > -torch.inf]
        for row, places in zip(ranked[:, :most].tolist(), order[:, :most].tolist(), strict=True)
    ]
