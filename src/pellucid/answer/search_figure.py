"""The answer to `search` as a figure: the query, and what carries each match."""

import math
from pathlib import Path

from pellucid.answer.canvas import NEGATIVE, POSITIVE, QUIET, Canvas
from pellucid.answer.search_answer import Found, Match, carried_by, outcome
from pellucid.answer.why_figure import Pictures, picture_of
from pellucid.answer.words import shortened
from pellucid.answer.write import data_uri, is_page, write_page
from pellucid.representation.representation import LONGEST_NAME
from pellucid.text import one_line

COLUMNS = 5
CELL, SIDE, LEFT, HEAD = 2.15, 1.75, 0.4, 2.6
LINE = 0.22
"""Inches."""
NAMED = 11
"""Letters of a dimension's name."""


def draw(answer: Found, out: Path) -> None:
    """Write the figure as PNG or, where `out` ends in .html, as a page without scripts."""
    reader = answer.representation.thumbnails
    pictures = None if reader is None else reader()
    if is_page(out):
        _page(answer, pictures, out)
    else:
        _figure(answer, pictures, out)


def _lengths(match: Match) -> list[float]:
    """Of bars: each contribution over the cosine's largest, -1..1."""
    values = [line.row.value for line in match.shown.lines]
    largest = max((abs(value) for value in values), default=0.0) or 1.0
    return [value / largest for value in values]


def _figure(answer: Found, pictures: Pictures | None, out: Path) -> None:
    most = max((len(match.shown.lines) for match in answer.matches), default=0)
    cell = SIDE + 0.6 + most * LINE + 0.3
    lines = math.ceil(len(answer.matches) / COLUMNS)
    canvas = Canvas(2 * LEFT + COLUMNS * CELL - (CELL - SIDE), HEAD + lines * cell + 0.35)
    query = answer.query
    pixels = picture_of(query, pictures)
    if pixels is None:
        canvas.blank(LEFT, 0.35, SIDE, "no picture")
    else:
        canvas.picture(LEFT, 0.35, SIDE, pixels)
    words = LEFT + SIDE + 0.4
    canvas.text(words, 0.6, outcome(answer), size=13, bold=True)
    canvas.text(words, 0.95, f"to {shortened(one_line(query.name), 70)}", size=9.5)
    if query.label is not None:
        canvas.text(words, 1.22, shortened(one_line(query.label), 70), size=9.5)
    about = "below each image: the dimensions that carry the match, with "
    shares = all(match.shown.rest_share is not None for match in answer.matches)
    about += "their shares of the cosine" if shares else "what they add to the cosine"
    if answer.matches:
        canvas.text(words, 1.6, about, size=8, colour=QUIET)
    for place, match in enumerate(answer.matches):
        x = LEFT + (place % COLUMNS) * CELL
        _match(canvas, x, HEAD + (place // COLUMNS) * cell, match, answer, pictures)
    source = shortened(one_line(answer.representation.label), 40)
    canvas.text(
        LEFT,
        HEAD + lines * cell + 0.05,
        f"{source}, {len(answer.representation.z):,} images",
        size=7.5,
        colour=QUIET,
    )
    canvas.save(out)


def _match(
    canvas: Canvas, x: float, y: float, match: Match, answer: Found, pictures: Pictures | None
) -> None:
    if pictures is None:
        canvas.blank(x, y, SIDE, "no picture")
    else:
        canvas.picture(x, y, SIDE, pictures[match.image])
    canvas.text(x, y + SIDE + 0.16, str(match.shown.total), size=11, bold=True)
    label = shortened(one_line(match.label or ""), 14)
    canvas.text(x + SIDE, y + SIDE + 0.16, label, size=9, align="right")
    name = shortened(one_line(match.name), 22)
    canvas.text(x, y + SIDE + 0.36, f"{match.image}  {name}", size=6.5, colour=QUIET)
    top = y + SIDE + 0.6
    carrying = zip(carried_by(match, answer.names, NAMED), _lengths(match), strict=True)
    start = x + (1.0 if answer.names else 0.4)
    full = x + SIDE - 0.5 - start
    for number, ((words, value), length) in enumerate(carrying):
        middle = top + number * LINE
        canvas.text(x, middle, words, size=8)
        colour, hatch = (NEGATIVE, "////") if length < 0 else (POSITIVE, "")
        canvas.box(start, middle - 0.06, full * abs(length), 0.12, colour, hatch)
        canvas.text(x + SIDE, middle, value, size=8, align="right")


def _page(answer: Found, pictures: Pictures | None, out: Path) -> None:
    query = picture_of(answer.query, pictures)
    write_page(
        out,
        "search.html.j2",
        source=answer.representation.label,
        images=len(answer.representation.z),
        query=answer.query,
        uri=None if query is None else data_uri(query),
        outcome=outcome(answer),
        matches=[
            {
                "rank": match.rank,
                "image": match.image,
                "name": match.name,
                "label": match.label,
                "cosine": str(match.shown.total),
                "uri": None if pictures is None else data_uri(pictures[match.image]),
                "signed": match.pair.signed,
                "carrying": [
                    (words, value, length)
                    for (words, value), length in zip(
                        carried_by(match, answer.names, LONGEST_NAME), _lengths(match), strict=True
                    )
                ],
            }
            for match in answer.matches
        ],
    )
