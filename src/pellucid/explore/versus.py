"""Two representations of the same images: which dimensions both have, and what differs most."""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.metrics import Matching, active_entries, match_dimensions, unit_rows
from pellucid.randomness import seeded
from pellucid.representation.representation import Representation, same_images
from pellucid.text import valid

NEIGHBOURS = 10
EXAMPLES = 6
CHANGED = 12
"""Images whose neighbours changed most that are shown."""
TRIED = 4_000
"""Images whose neighbours are compared: a fixed choice where there are more."""
QUERIES = 512


def matched(first: Representation, other: Representation) -> Matching:
    """Partners of the dimensions, over all images.

    Raises:
        RunError: they are not of the same images in the same order.
    """
    same_images(first, other)
    return match_dimensions(first.z, other.z)


def versus(
    first: Representation, other: Representation, matching: Matching, images: Tensor
) -> dict[str, Any]:
    """What the page shows of a second representation, as plain values.

    Matching is over all images; examples and neighbours are of those that the page holds.

    Args:
        first: whose page it is.
        other: of the same images.
        matching: of their dimensions.
        images: indices of those that the page holds.
    """
    return {
        "label": valid(other.label),
        "partner": matching.partner.tolist(),
        "sign": matching.sign.tolist(),
        "cosine": _rounded(matching.cosine),
        "chance": _rounded(matching.chance),
        "agreement": _rounded(matching.agreement),
        "luck": _rounded(matching.highest_by_luck),
        "recurs": matching.recurs.tolist(),
        "live": active_entries(other.z).any(dim=0).tolist(),
        "names": {str(k): valid(name) for k, name in other.dimension_names().items()},
        "random": _random_active(other.z[images], images),
        "neighbours": _changes(first.z[images], other.z[images], images),
    }


def _changes(a: Tensor, b: Tensor, images: Tensor) -> dict[str, Any]:
    """Neighbours in common, and the images that have fewest."""
    alive = [(z != 0).any(dim=1) for z in (a, b)]  # a zero row is like nothing, and near nothing
    chosen = (alive[0] & alive[1]).nonzero().flatten()
    if len(chosen) > TRIED:
        order = torch.randperm(len(chosen), generator=seeded(0, "compared images"))
        chosen = chosen[order[:TRIED]].sort().values
    at = max(0, min(NEIGHBOURS, *(int(some.sum()) - 1 for some in alive)))
    ours, theirs = _nearest(a, chosen, at), _nearest(b, chosen, at)
    common = (ours[:, :, None] == theirs[:, None, :]).any(dim=2).sum(dim=1)
    least = common.argsort(stable=True)[:CHANGED]
    return {
        "at": at,
        "tried": len(chosen),
        "common": _rounded(common.double().mean()[None])[0],
        "changed": [
            {
                "image": int(images[chosen[row]]),
                "common": int(common[row]),
                "first": images[ours[row]].tolist(),
                "other": images[theirs[row]].tolist(),
            }
            for row in least
        ],
    }


def _nearest(z: Float[Tensor, "n k"], chosen: Int[Tensor, " m"], at: int) -> Int[Tensor, "m at"]:
    unit = unit_rows(z)
    nothing = ~(unit != 0).any(dim=1)
    rows = []
    for queries in torch.split(chosen, QUERIES):
        cosine = (unit[queries] @ unit.T).masked_fill(nothing, -torch.inf)
        cosine[torch.arange(len(queries)), queries] = -torch.inf
        rows.append(cosine.topk(at, dim=1).indices)
    return torch.cat(rows)


def _random_active(z: Float[Tensor, "n k"], images: Tensor) -> list[list[int]]:
    """A few active images of each dimension, drawn for each by itself."""
    drawn = []
    for k, column in enumerate(active_entries(z).T):
        rows = column.nonzero().flatten()
        order = torch.randperm(len(rows), generator=seeded(0, "random active images", k))
        drawn.append(images[rows[order[:EXAMPLES]]].tolist())
    return drawn


def _rounded(values: Tensor) -> list[float | None]:
    return [round(v, 4) if math.isfinite(v) else None for v in values.tolist()]
