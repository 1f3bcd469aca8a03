"""What a search found, before it is printed or drawn."""

from collections.abc import Sequence
from typing import NamedTuple

from pellucid.answer.neighbours import Neighbours
from pellucid.answer.pair import Pair, Printed, explain, printed
from pellucid.answer.subject import Subject, find
from pellucid.answer.words import class_of, count, cut, undefined
from pellucid.representation.representation import Representation
from pellucid.run import RunError
from pellucid.text import one_line

TOP = 10
CARRYING = 3
"""Dimensions that are named for each match."""


class Match(NamedTuple):
    """An image that was found."""

    rank: int
    """From 1."""
    image: int
    name: str
    label: str | None
    pair: Pair
    """Of the query and this image."""
    shown: Printed
    """Its largest contributions."""


class Found(NamedTuple):
    """The answer to a search."""

    representation: Representation
    names: dict[int, str]
    """That people gave to dimensions."""
    query: Subject
    matches: list[Match]
    asked: str
    """What was searched for, in words."""


def find_similar(
    representation: Representation,
    image: str,
    *,
    top: int = TOP,
    with_dims: Sequence[int] = (),
    without_dims: Sequence[int] = (),
    device: str = "auto",
) -> Found:
    """The images with the largest cosine to one.

    Args:
        representation: the images to search.
        image: one of them by name or number, or the path of an image file.
        top: how many, at least 1.
        with_dims: dimensions that must be active on an image that is found.
        without_dims: dimensions that must not be.
        device: where the branch runs, for a file.

    Raises:
        RunError: the image is not there or cannot be read, a dimension is not there or asked
            for and excluded, or `top` is below 1.
    """
    if top < 1:
        raise RunError(f"--top must be at least 1 image, not {top}")
    _check_dimensions(representation, with_dims, without_dims)
    query = find(representation, image, device)
    names = representation.dimension_names()
    asked = _asked(with_dims, without_dims)
    if not bool(query.z.any()):
        return Found(representation, names, query, [], asked)
    nearest = Neighbours(representation.z).nearest(
        query.z, top, itself=query.index, with_dims=with_dims, without_dims=without_dims
    )
    matches, signed = [], representation.signed
    for rank, one in enumerate(nearest, start=1):
        pair = explain(query.z, representation.z[one.image], signed=signed)
        assert pair.cosine is not None
        name, label = representation.names[one.image], class_of(representation, one.image)
        shown = printed(pair.shared, pair.cosine, CARRYING)
        matches.append(Match(rank, one.image, name, label, pair, shown))
    return Found(representation, names, query, matches, asked)


def _check_dimensions(
    representation: Representation, with_dims: Sequence[int], without_dims: Sequence[int]
) -> None:
    last = representation.z.shape[1] - 1
    for flag, dimensions in (("--with-dim", with_dims), ("--without-dim", without_dims)):
        for k in dimensions:
            if not 0 <= k <= last:
                raise RunError(f"{flag} {k}: {representation.label} has dimensions 0 to {last}")
    both = sorted(set(with_dims) & set(without_dims))
    if both:
        raise RunError(
            f"dimension {both[0]} is asked for by --with-dim and excluded by --without-dim; "
            "give it to one of them"
        )


def _asked(with_dims: Sequence[int], without_dims: Sequence[int]) -> str:
    parts = [f"with dimension {k}" for k in dict.fromkeys(with_dims)]
    parts += [f"without dimension {k}" for k in dict.fromkeys(without_dims)]
    return ", ".join(parts)


def outcome(answer: Found) -> str:
    """What was found, in a sentence."""
    if not bool(answer.query.z.any()):
        return undefined(answer.query.closed)
    of = f" {answer.asked}" if answer.asked else ""
    if not answer.matches:
        return f"No other image{of} has a similarity to it."
    return f"{count(len(answer.matches), 'nearest image')}{of}, by cosine"


def carried_by(match: Match, names: dict[int, str], named: int = 20) -> list[tuple[str, str]]:
    """The dimensions that add most to a match, each with its share of the cosine.

    Where contributions cancel, what it adds stands in place of the share.
    """
    found = []
    for line in match.shown.lines:
        k = line.row.dimension
        words = f"{k} {cut(one_line(names.get(k, '')), named)}".rstrip()
        value = f"{line.value:+}" if line.share is None else f"{line.share} %"
        found.append((words, value))
    return found
