"""Images that show what a dimension stands for: some at random, then the strongest."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.metrics.activity import active_entries
from pellucid.randomness import seeded

SEED = 0


class Examples(NamedTuple):
    """Images of one dimension, none of which the question is about."""

    random: list[int]
    """A fixed random choice of those that it is active on: what it is mostly like."""
    strongest: list[int]
    """Those with the largest share of the dimension in their row, the largest first."""


def examples_of(
    z: Float[Tensor, "n k"],
    dimensions: list[int],
    *,
    each: int,
    leave_out: set[int],
    signs: dict[int, float] | None = None,
) -> dict[int, Examples]:
    """Examples of each dimension; fewer where it is active on fewer images.

    Args:
        z: the representation.
        dimensions: to show.
        each: random images and strongest ones, as many of both.
        leave_out: images that are shown anyway.
        signs: of a signed representation, the side of each dimension to show; positive without.
    """
    length = torch.linalg.vector_norm(z.double(), dim=1)
    length = length.where(length > 0, torch.ones_like(length))
    active = active_entries(z)
    free = torch.ones(len(z), dtype=torch.bool)
    free[sorted(leave_out)] = False
    found = {}
    for k in dimensions:
        sign = -1.0 if signs is not None and signs[k] < 0 else 1.0
        values = sign * z[:, k].double() / length
        images = (active[:, k] & (values > 0)).nonzero().flatten()
        # Left out after the draw, so that a dimension has the same examples in every answer.
        order = images[torch.randperm(len(images), generator=seeded(SEED, "examples", k))]
        strongest = images[values[images].argsort(descending=True, stable=True)]
        random, strongest = (some[free[some]][:each].tolist() for some in (order, strongest))
        found[k] = Examples(random, strongest)
    return found
