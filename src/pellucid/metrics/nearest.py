"""The largest of many, faster than `topk` finds them."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

STRIPE = 64
"""Entries of which only the largest is looked at first."""


def largest(
    values: Float[Tensor, "q n"], count: int
) -> tuple[Float[Tensor, "q count"], Int[Tensor, "q count"]]:
    """`values.topk(count)` along rows: the largest first, and where they stand.

    Every stripe that holds one of the `count` largest has one of the `count` largest maxima, so
    the rest need not be sorted.
    """
    stripes = values.shape[1] // STRIPE
    if stripes < 2 * count:
        found = values.topk(count, dim=1)
        return found.values, found.indices
    # A stripe is every `stripes`-th entry, so that its maximum is taken along whole rows.
    whole = values[:, : stripes * STRIPE].reshape(len(values), STRIPE, stripes)
    chosen = whole.amax(dim=1).topk(count, dim=1).indices
    within = torch.arange(STRIPE, device=values.device)[:, None] * stripes
    rest = torch.arange(stripes * STRIPE, values.shape[1], device=values.device)
    places = torch.cat([(chosen[:, None] + within).flatten(1), rest.expand(len(values), -1)], dim=1)
    found = values.gather(1, places).topk(count, dim=1)
    return found.values, places.gather(1, found.indices)
