"""Which entries of a representation are active, and sums of them over classes."""

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from pellucid.metrics.checks import ROWS
from pellucid.randomness import seeded

ACTIVE = 1e-5
"""A dimension is active on an image when |z| of the unit row exceeds this (the papers' value)."""


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
    return torch.cat([unit_rows(rows).abs() > ACTIVE for rows in torch.split(features, ROWS)])


def enough_support(active: Bool[Tensor, "n k"], min_support: int) -> Int[Tensor, " scored"]:
    """The dimensions active on at least `min_support` images, ascending.

    Raises:
        ValueError: `min_support` is below 1, which would score dead dimensions.
    """
    if min_support < 1:
        raise ValueError(f"min_support must be at least 1 active image, got {min_support}")
    return (active.sum(dim=0) >= min_support).nonzero().flatten()


def class_sums(
    values: Float[Tensor, "n k"] | Bool[Tensor, "n k"],
    labels: Int[Tensor, " n"],
    weights: Float[Tensor, "r n"],
) -> Iterator[tuple[Float[Tensor, "r k"], Float[Tensor, " r"]]]:
    """Per class in ascending order: weighted sums of its images' values, and its total weight.

    Weights are fp64, and so is the arithmetic: counts are exact whatever precision the matrix
    products of the process are set to. Classes without an image do not appear.
    """
    sizes = torch.unique(labels, return_counts=True)[1]
    for images in torch.split(labels.argsort(stable=True), sizes.tolist()):
        parts = [weights[:, some] @ values[some].double() for some in torch.split(images, ROWS)]
        yield torch.stack(parts).sum(dim=0), weights[:, images].sum(dim=1)


def shuffled(labels: Int[Tensor, " n"], seed: int, shuffles: int) -> Iterator[Int[Tensor, " n"]]:
    """The labels in `shuffles` random orders, the same for the same seed on every device."""
    for number in range(shuffles):
        order = torch.randperm(len(labels), generator=seeded(seed, "shuffled labels", number))
        yield labels[order.to(labels.device)]
