"""Which dimensions of a representation come back in others: of other seeds, or of other recipes."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from rich.console import Console
from rich.progress import track
from torch import Tensor

from pellucid.compare.evaluated import Evaluated, group_by_recipe
from pellucid.metrics import Matching, active_entries, match_dimensions
from pellucid.metrics.matching import RECURS
from pellucid.representation.representation import same_images

SEED = 0
"""Of permutations and rotated axes."""

RULE = (
    f"A dimension recurs when in every other one its match has an agreement of {RECURS:g} or more, "
    "and more than permuted images or rotated axes ever gave it. Agreement: 0 as by permuted "
    "images, 1 the same. Rotated axes: the others' spaces in a random basis; where as many recur "
    "there, the runs share a space and not its dimensions."
)


class Recurrence(NamedTuple):
    """The dimensions of the first of a group, and their matches in each other one."""

    first: str
    """The label of the representation whose dimensions they are."""
    among: str
    """What the group is of: `seeds` or `representations`."""
    names: dict[int, str]
    """What people call dimensions of the first."""
    images: int
    support: Int[Tensor, " k"]
    """On how many images each dimension of the first is active."""
    matchings: dict[str, Matching]
    """With each of the others, by label."""

    @property
    def live(self) -> int:
        """Dimensions of the first that are active on any image."""
        return int((self.support > 0).sum())

    @property
    def recurs(self) -> Bool[Tensor, " k"]:
        """Dimensions that recur in every other one."""
        return self._in_all(lambda matching: matching.recurs)

    @property
    def by_permuted(self) -> float:
        """How many recur in images that are permuted in every other one, on average."""
        return _mean_count(self._in_all(lambda matching: matching.recurs_permuted))

    @property
    def by_rotated(self) -> float:
        """How many recur on axes that are rotated in every other one, on average."""
        return _mean_count(self._in_all(lambda matching: matching.recurs_rotated))

    def median(self, values: Callable[[Matching], Tensor]) -> float | None:
        """The median over all that is matched; None where nothing is."""
        found = torch.cat([values(matching).flatten() for matching in self._all()])
        found = found[~found.isnan()]
        return found.median().item() if len(found) else None

    def sentence(self) -> str:
        """The result in words."""
        count = len(self.matchings) + 1
        where = f"both {self.among}" if count == 2 else f"all {count} {self.among}"
        return (
            f"{int(self.recurs.sum())} of {len(self.support)} dimensions of {self.first} recur in "
            f"{where} (live: {self.live}; by permuted images: {shown(self.by_permuted)}; "
            f"on rotated axes: {shown(self.by_rotated)})."
        )

    def _in_all(self, which: Callable[[Matching], Tensor]) -> Tensor:
        return torch.stack([which(matching) for matching in self._all()]).all(dim=0)

    def _all(self) -> list[Matching]:
        return list(self.matchings.values())


def groups_to_match(evaluated: Sequence[Evaluated]) -> list[list[Evaluated]]:
    """Runs that differ by their seed, together; without any, all that there is."""
    groups = [group for group in group_by_recipe(evaluated) if len(group) > 1]
    return groups or ([list(evaluated)] if len(evaluated) > 1 else [])


def recurrence(group: Sequence[Evaluated]) -> Recurrence:
    """Match the dimensions of the first with those of each other one, on the same images.

    Args:
        group: two or more.

    Raises:
        RunError: features are missing or damaged, or of other images.
    """
    first = group[0].representation()
    matchings = {}
    console = Console(stderr=True)
    for one in track(
        group[1:],
        "matching dimensions",
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ):
        other = one.representation()
        same_images(first, other)
        matchings[one.label] = match_dimensions(first.z, other.z, seed=SEED)
    return Recurrence(
        first=group[0].label,
        among="seeds" if len(group_by_recipe(group)) == 1 else "representations",
        names=first.dimension_names(),
        images=len(first.z),
        support=active_entries(first.z).sum(dim=0),
        matchings=matchings,
    )


def shown(count: float) -> str:
    """A mean count with a decimal where it is no whole number."""
    return f"{count:.1f}".removesuffix(".0")


def _mean_count(draws: Bool[Tensor, "r k"]) -> float:
    count: Float[Tensor, ""] = draws.double().sum(dim=1).mean()
    return count.item()
