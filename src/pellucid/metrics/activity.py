"""Which entries of a representation are active, and sums of them over classes."""

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.metrics.checks import ROWS
from pellucid.randomness import seeded

ACTIVE = 1e-5
"""A dimension is active on an image when |z| of the unit row exceeds this (the papers' value)."""

ORDINARY = (1e-12, 1e12)
"""Lengths of rows whose squares, and the thousandths of them that matter, fp32 holds well."""


def unit_rows(features: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    """Rows scaled to length one, zero rows left at zero; half precision becomes fp32.

    Each row is first divided by its largest entry, so neither tiny nor huge rows are lost.
    """
    rows = features.to(torch.promote_types(features.dtype, torch.float32))
    largest = rows.abs().amax(dim=1, keepdim=True)
    rows = rows / largest.where(largest > 0, torch.ones_like(largest))
    length: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / length.clamp(min=1)  # below 1 only when the row is zero


def active_entries(features: Float[Tensor, "n k"]) -> Bool[Tensor, "n k"]:
    """Whether each dimension is active on each image."""
    active = torch.empty_like(features, dtype=torch.bool)
    for rows, found in zip(torch.split(features, ROWS), torch.split(active, ROWS), strict=True):
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
        length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        if bool(((length > ORDINARY[0]) & (length < ORDINARY[1])).all()):
            torch.gt(rows.abs(), ACTIVE * length, out=found)  # half the passes
        else:  # squares that are lost or too large, or a zero row
            torch.gt(unit_rows(rows).abs(), ACTIVE, out=found)
    return active


def enough_support(active: Bool[Tensor, "n k"], min_support: int) -> Int[Tensor, " scored"]:
    """The dimensions active on at least `min_support` images, ascending.

    Raises:
        ValueError: `min_support` is below 1, which would score dead dimensions.
    """
    if min_support < 1:
        raise ValueError(f"min_support must be at least 1 active image, got {min_support}")
    return (active.sum(dim=0) >= min_support).nonzero().flatten()


def class_sums(
    values: Float[Tensor, "n k"] | Bool[Tensor, "n k"], labels: Int[Tensor, " n"]
) -> tuple[Float[Tensor, "c k"], Float[Tensor, " c"]]:
    """Per class in ascending order: sums over its images, and how many it has, in fp64.

    Classes without an image do not appear.
    """
    _, which, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
    # fp32 counts 16 million images of a class exactly, and faster.
    exact = torch.float32 if values.dtype == torch.bool else torch.float64
    sums = torch.zeros(len(sizes), values.shape[1], dtype=exact, device=values.device)
    for rows, classes in zip(torch.split(values, ROWS), torch.split(which, ROWS), strict=True):
        sums.index_add_(0, classes, rows.to(exact))
    return sums.double(), sizes.double()


def shuffled(labels: Int[Tensor, " n"], seed: int, shuffles: int) -> Iterator[Int[Tensor, " n"]]:
    """The labels in `shuffles` random orders, the same for the same seed on every device."""
    for number in range(shuffles):
        order = torch.randperm(len(labels), generator=seeded(seed, "shuffled labels", number))
        yield labels[order.to(labels.device)]
