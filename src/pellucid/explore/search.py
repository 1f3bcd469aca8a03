"""The images most similar to one, and the dimensions that carry each match."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pellucid.evaluate.representation import Representation
from pellucid.explore.neighbours import Neighbours
from pellucid.explore.pair import Pair, Printed, explain, printed
from pellucid.explore.subject import Subject, find
from pellucid.explore.why_table import described
from pellucid.explore.words import class_of, count, one_line, shortened, undefined
from pellucid.run import RunError

TOP = 10
CARRYING = 3
"""Dimensions that are named for each match."""
SHORTEST, LONGEST = 12, 40
"""Letters of an image's name in the table."""
LABELLED = 20
"""Letters of its class."""


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


def search(
    representation: Representation,
    image: str,
    console: Console,
    *,
    top: int = TOP,
    with_dims: Sequence[int] = (),
    without_dims: Sequence[int] = (),
    device: str = "auto",
    out: Path | None = None,
    say: Callable[[str], None] = print,
) -> Found:
    """Find the images with the largest cosine: print a table and, with `out`, draw a figure.

    Args:
        representation: the images to search.
        image: one of them by name or number, or the path of an image file.
        console: where to print.
        top: how many, at least 1.
        with_dims: dimensions that must be active on an image that is found.
        without_dims: dimensions that must not be.
        device: where the branch runs, for a file.
        out: a PNG or an HTML file to write.
        say: takes a line for the user.

    Raises:
        RunError: the image is not there or cannot be read, a dimension is not there or asked
            for and excluded, or `out` ends in something else.
    """
    from pellucid.explore.search_figure import draw
    from pellucid.explore.write import checked_out

    checked_out(out)
    answer = find_similar(
        representation,
        image,
        top=top,
        with_dims=with_dims,
        without_dims=without_dims,
        device=device,
    )
    print_found(answer, console)
    if out is not None:
        draw(answer, out)
        say(f"written to {out}")
    return answer


def find_similar(
    representation: Representation,
    image: str,
    *,
    top: int = TOP,
    with_dims: Sequence[int] = (),
    without_dims: Sequence[int] = (),
    device: str = "auto",
) -> Found:
    """The answer itself; arguments and errors are those of `search`."""
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
    matches = []
    for rank, one in enumerate(nearest, start=1):
        pair = explain(query.z, representation.z[one.image])
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
        words = f"{k} {shortened(one_line(names.get(k, '')), named)}".rstrip()
        value = f"{line.value:+}" if line.share is None else f"{line.share} %"
        found.append((words, value))
    return found


def print_found(answer: Found, console: Console) -> None:
    """Print the query and a line for each match."""
    console.print(Text(described(answer.query)), soft_wrap=True)
    console.print(Text(outcome(answer)), soft_wrap=True)
    if not answer.matches:
        return
    separator = ", "
    room = console.width - _width(_table(answer, separator, 0), console)
    if room < SHORTEST:
        separator = "\n"
        room = console.width - _width(_table(answer, separator, 0), console)
    table = _table(answer, separator, min(LONGEST, max(SHORTEST, room)))
    # What is too wide is left to the terminal to wrap: cut-off numbers would be wrong ones.
    table.width = _width(table, console)
    console.print(table, crop=False)


def _width(table: Table, console: Console) -> int:
    wide = console.options.update(max_width=10_000)
    return Measurement.get(console, wide, table).maximum


def _table(answer: Found, separator: str, letters: int) -> Table:
    labelled = any(match.label is not None for match in answer.matches)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    heads = ["", "cosine", "image", *(["class"] if labelled else []), "carried by", "name"]
    for head in heads:
        words = head in ("class", "carried by", "name")
        table.add_column(head, justify="left" if words else "right", no_wrap=True)
    for match in answer.matches:
        cells = [str(match.rank), str(match.shown.total), str(match.image)]
        cells += [shortened(one_line(match.label or ""), LABELLED)] if labelled else []
        cells.append(
            separator.join(f"{words} ({value})" for words, value in carried_by(match, answer.names))
        )
        cells.append(shortened(one_line(match.name), letters) if letters else "")
        table.add_row(*(Text(cell) for cell in cells))
    return table
