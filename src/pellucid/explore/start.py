"""Where a reader starts: the clearest dimensions, the most doubtful, and a pair worth reading."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.explore.dimensions import ALWAYS_ON, ClassUse, Dimensions, Likeness
from pellucid.metrics import unit_rows

SHOWN = 6
TRIED = 300
"""Images whose nearest neighbours are looked at for a pair."""


class Clarity(NamedTuple):
    """How far each dimension is above chance, and in what."""

    margin: Float[Tensor, " k"]
    """NaN where nothing was scored."""
    words: str


def clarity(classes: ClassUse | None, alike: Likeness | None) -> Clarity | None:
    """Consistency above shuffled labels, or without labels likeness above permuted images."""
    if classes is not None:
        return Clarity(classes.consistency - classes.chance, "class consistency above chance")
    if alike is not None and alike.chance is not None:
        return Clarity(alike.value - alike.chance, "likeness of its images above chance")
    return None


def clearest(found: Dimensions, clear: Clarity | None, min_support: int) -> list[int]:
    """The dimensions furthest above chance, of those with enough active images."""
    if clear is None:
        return []
    margin = clear.margin.nan_to_num(-torch.inf)
    known = (found.support >= min_support) & (found.frequency <= ALWAYS_ON) & (margin > -torch.inf)
    order = margin.masked_fill(~known, -torch.inf).argsort(descending=True, stable=True)
    return order[: min(SHOWN, int(known.sum()))].tolist()


def doubtful(found: Dimensions, clear: Clarity | None, min_support: int) -> list[int]:
    """The live dimensions that say least: at chance, on few images, or on nearly all."""
    live = found.support > 0
    score = torch.zeros(len(live), dtype=torch.float64)
    if clear is not None:
        score = clear.margin.nan_to_num(0.0).clone()
    rare, constant = found.support < min_support, found.frequency > ALWAYS_ON
    score = score.where(~(rare | constant), score - 5)  # below all margins, -2 to 2
    order = score.masked_fill(~live, torch.inf).argsort(stable=True)
    return order[: min(SHOWN, int(live.sum()))].tolist()


def pair_worth_reading(z: Float[Tensor, "m k"]) -> tuple[int, int] | None:
    """An image and its nearest neighbour whose third-largest share is largest.

    Three reasons make a pair worth reading: one alone is no explanation, and equal images need
    none.

    Returns:
        Two rows, or None when no image has a neighbour.
    """
    unit = unit_rows(z)
    alive = (unit != 0).any(dim=1)
    if int(alive.sum()) < 2:
        return None
    tried = alive.nonzero().flatten()
    tried = tried[:: max(1, len(tried) // TRIED)][:TRIED]
    cosine = unit[tried] @ unit.T
    cosine[:, ~alive] = -torch.inf
    cosine = cosine.masked_fill(cosine > 0.98, -torch.inf)  # the image itself among them
    best, nearest = cosine.max(dim=1)
    if not bool((best > 0).any()):
        return None
    shares = unit[tried] * unit[nearest] / best.clamp(min=1e-6)[:, None]
    third = shares.topk(min(3, z.shape[1]), dim=1).values[:, -1].masked_fill(best <= 0, -torch.inf)
    chosen = int(third.argmax())
    return int(tried[chosen]), int(nearest[chosen])
