"""The state of a representation at a glance: counts and three small charts."""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.explore.dimensions import ALWAYS_ON, Dimensions, duplicates
from pellucid.metrics import active_entries

BARS = 20


class Bars(NamedTuple):
    """A small histogram."""

    title: str
    counts: list[int]
    low: str
    """What the left end stands for."""
    high: str
    unit: str
    """What is counted."""

    @property
    def heights(self) -> list[float]:
        """In per cent of the highest."""
        most = max(self.counts, default=0)
        return [100 * count / most if most else 0.0 for count in self.counts]


class Health(NamedTuple):
    """Counts of dimensions and images."""

    dimensions: int
    live: int
    dead: int
    always_on: int
    duplicates: list[tuple[int, int]]
    median: int
    """Active dimensions of the median image."""
    fewest: int
    most: int
    none: int
    """Images without an active dimension."""
    bars: list[Bars]


def health(z: Tensor, found: Dimensions) -> Health:
    """Count what is live, dead, always on and doubled, and how many dimensions an image has."""
    each = torch.cat([active_entries(rows).sum(dim=1) for rows in torch.split(z, 4096)])
    live = found.support > 0
    return Health(
        dimensions=z.shape[1],
        live=int(live.sum()),
        dead=int((~live).sum()),
        always_on=int((found.frequency > ALWAYS_ON).sum()),
        duplicates=duplicates(found.cosine),
        median=int(each.median()),
        fewest=int(each.min()),
        most=int(each.max()),
        none=int((each == 0).sum()),
        bars=[
            Bars(
                "How often live dimensions are on",
                found.frequency[live].clamp(0, 1).mul(BARS).long().clamp(max=BARS - 1)
                .bincount(minlength=BARS).tolist(),
                "0 %", "100 % of images", "dimensions",
            ),
            _counts("Active dimensions of an image", each),
        ],
    )  # fmt: skip


def _counts(title: str, each: Int[Tensor, " n"]) -> Bars:
    low, high = int(each.min()), int(each.max())
    bars = min(BARS, high - low + 1)
    place = ((each - low) * bars) // (high - low + 1)
    return Bars(title, place.bincount(minlength=bars).tolist(), str(low), str(high), "images")
