"""What there is to say of a pair of images, before it is printed or drawn."""

from typing import NamedTuple

from pellucid.answer.neighbours import Neighbours, Standing, median_of_random_pairs
from pellucid.answer.pair import (
    Contribution,
    Pair,
    Printed,
    cosine_without,
    explain,
    printed,
    weighed,
)
from pellucid.answer.subject import Subject, find
from pellucid.metrics.activity import active_entries
from pellucid.representation.representation import Representation
from pellucid.run import RunError

TOP = 8
"""Dimensions that are shown one by one."""


class Without(NamedTuple):
    """What becomes of a pair when one dimension is left out, and the rest renormalised."""

    cosine: float | None
    """None where nothing is left of one of the images."""
    standing: Standing | None


class Why(NamedTuple):
    """All that there is to say of a pair of images."""

    representation: Representation
    names: dict[int, str]
    """That people gave to dimensions."""
    a: Subject
    b: Subject
    pair: Pair
    shown: Printed | None
    """The largest contributions; None where the cosine is not defined."""
    without: dict[int, Without]
    """Of the dimensions that are shown."""
    standing: Standing | None
    """Of B among A's neighbours; None for an undefined one, and for an image and itself."""
    typical: float | None
    """Median cosine of random pairs."""

    @property
    def same(self) -> bool:
        """Whether A and B are one image of the representation."""
        return self.a.index is not None and self.a.index == self.b.index


def answer_why(
    representation: Representation, a: str, b: str, *, top: int = TOP, device: str = "auto"
) -> Why:
    """Compare two images of a representation, or files.

    Args:
        representation: in whose dimensions.
        a: an image of it by name or number, or the path of an image file.
        b: another.
        top: dimensions to show one by one, at least 1.
        device: where the branch runs, for a file.

    Raises:
        RunError: an image is not there or cannot be read, or `top` is below 1.
    """
    if top < 1:
        raise RunError(f"--top must be at least 1 dimension, not {top}")
    names = representation.dimension_names()
    first, second = (find(representation, image, device) for image in (a, b))
    pair = explain(first.z, second.z, signed=representation.signed)
    shown = None if pair.cosine is None else printed(pair.shared, pair.cosine, top)
    dimensions = [] if shown is None else [line.row.dimension for line in shown.lines]
    one_image = first.index is not None and first.index == second.index
    standings: list[Standing | None] = [None] * (1 + len(dimensions))
    if shown is not None and not one_image:
        standings = Neighbours(representation.z).standings(
            first.z,
            second.z,
            itself=first.index,
            place=second.index,
            left_out=[None, *dimensions],
        )
    return Why(
        representation=representation,
        names=names,
        a=first,
        b=second,
        pair=pair,
        shown=shown,
        without={
            k: Without(cosine_without(first.z, second.z, k), standing)
            for k, standing in zip(dimensions, standings[1:], strict=True)
        },
        standing=standings[0],
        typical=median_of_random_pairs(representation.z),
    )


def rare(answer: Why) -> list[Contribution]:
    """Contributions over how frequent each dimension is before the gate, where there is one."""
    given = answer.representation
    on = active_entries(given.z) if given.ungated is None else given.ungated != 0
    # A file may have a dimension active that no image of the set has: then it is one in all.
    frequency = on.sum(dim=0).clamp(min=1).double() / len(on)
    return weighed(answer.pair, frequency)
