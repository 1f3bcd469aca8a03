"""Which images a page holds when it cannot hold all of them."""

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.randomness import seeded

SEED = 0


def sample(labels: Int[Tensor, " n"] | None, total: int, count: int) -> Int[Tensor, " m"]:
    """A fixed random choice of images, ascending; each class keeps its share where there are any.

    A smaller choice is part of a larger one.
    """
    if count >= total:
        return torch.arange(total)
    order = torch.randperm(total, generator=seeded(SEED, "images of the page"))
    if labels is None:
        return order[:count].sort().values
    # Of a class with m images the i-th gets the place (i + u) / m: cut anywhere, classes share. The
    # u are spread evenly over 0 to 1; with one for all, the classes of one image go all at once.
    place = torch.empty(total, dtype=torch.float64)
    classes = torch.unique(labels)
    turn = torch.randperm(len(classes), generator=seeded(SEED, "classes of the page"))
    for label, offset in zip(classes, (turn.double() + 0.5) / len(classes), strict=True):
        own = order[labels[order] == label]
        place[own] = (torch.arange(len(own), dtype=torch.float64) + offset) / len(own)
    chosen = order[place[order].argsort(stable=True)][:count]
    return chosen.sort().values
