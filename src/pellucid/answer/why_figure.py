"""The answer to `why` as a figure: both images, and what each of their dimensions stands for."""

from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from jaxtyping import UInt8
from torch import Tensor

from pellucid.answer.canvas import NEGATIVE, POSITIVE, QUIET, Canvas
from pellucid.answer.examples import Examples, examples_of
from pellucid.answer.subject import Subject
from pellucid.answer.why_answer import Why
from pellucid.answer.why_table import listed, rest_words, standing_words
from pellucid.answer.words import class_of, cut, shortened
from pellucid.answer.write import data_uri, is_page, write_page
from pellucid.text import one_line

EACH = 4
"""Random images and strongest ones of a dimension."""
LEFT, ROW, THUMB = 0.4, 0.74, 0.58
BAR_AT, BAR = 2.3, 2.3
NUMBERS_AT, IMAGES_AT = 4.85, 7.35
STRONGEST_AT = IMAGES_AT + EACH * (THUMB + 0.05) + 0.3
"""Inches."""

Pictures = UInt8[Tensor, "n 3 t s"]


class Row(NamedTuple):
    """A dimension as it is drawn."""

    dimension: int
    name: str
    a: str
    b: str
    value: str
    share: str | None
    length: float
    """Of its bar: the contribution over the largest that is shown, -1..1."""
    without: str
    examples: Examples | None


def draw(answer: Why, out: Path) -> None:
    """Write the figure as PNG or, where `out` ends in .html, as a page without scripts."""
    reader = answer.representation.thumbnails
    pictures = None if reader is None else reader()
    rows = rows_of(answer, pictures is not None)
    if is_page(out):
        _page(answer, rows, pictures, out)
    else:
        _figure(answer, rows, pictures, out)


def rows_of(answer: Why, pictured: bool) -> list[Row]:
    """The dimensions that are shown, with examples where there are images to see."""
    if answer.shown is None:
        return []
    lines = answer.shown.lines
    examples: dict[int, Examples] = {}
    if pictured:
        signed = answer.representation.signed
        examples = examples_of(
            answer.representation.z,
            [line.row.dimension for line in lines],
            each=EACH,
            leave_out={s.index for s in (answer.a, answer.b) if s.index is not None},
            signs={line.row.dimension: line.row.a for line in lines} if signed else None,
        )
    return [
        Row(
            dimension=line.row.dimension,
            name=answer.names.get(line.row.dimension, ""),
            a=f"{line.row.a:.3f}",
            b=f"{line.row.b:.3f}",
            value=str(line.value),
            share=None if line.share is None else f"{line.share} %",
            length=float(line.value / _largest(answer)),
            without=_without(answer, line.row.dimension),
            examples=examples.get(line.row.dimension),
        )
        for line in lines
    ]


def _largest(answer: Why) -> Decimal:
    shown = answer.shown
    assert shown is not None
    return max((abs(line.value) for line in shown.lines), default=Decimal(0)) or Decimal(1)


def _without(answer: Why, dimension: int) -> str:
    found = answer.without[dimension]
    if found.cosine is None:
        return "without it nothing is left of one of them"
    words = f"without it: cosine {found.cosine:.3f}"
    if found.standing is not None:
        words += f", neighbour {found.standing.rank:,}"
    return words


def picture_of(subject: Subject, pictures: Pictures | None) -> UInt8[Tensor, "3 h w"] | None:
    """The image of a subject; None where it is not known."""
    if subject.pixels is not None or pictures is None or subject.index is None:
        return subject.pixels
    return pictures[subject.index]


def headings(answer: Why) -> tuple[str, str]:
    """What stands above the two groups of examples."""
    if answer.representation.signed:
        return "random images on A's side", "strongest images on A's side"
    return "random active images", "strongest images"


def note(answer: Why) -> str:
    """How to read the numbers and the examples."""
    words = "A and B are values of rows of unit length, so their products sum to the cosine"
    if answer.representation.signed:
        words += "; images on A's side have A's sign in the dimension"
    return words


def _figure(answer: Why, rows: list[Row], pictures: Pictures | None, out: Path) -> None:
    shown, pair = answer.shown, answer.pair
    words = None if shown is None else rest_words(shown)
    only = [
        f"only in {letter}: {listed(dimensions, answer.names)}"
        for letter, dimensions in (("A", pair.only_a), ("B", pair.only_b))
        if dimensions
    ]
    pictured = pictures is not None and bool(rows)
    width = STRONGEST_AT + EACH * (THUMB + 0.05) + LEFT if pictured else IMAGES_AT + LEFT
    below = 2.75 + len(rows) * ROW
    height = below + (0.85 if rows else 0) + 0.26 * len(only) + 0.45
    canvas = Canvas(width, height)
    for x, letter, subject in ((LEFT, "A", answer.a), (LEFT + 2.0, "B", answer.b)):
        _subject(canvas, x, letter, subject, picture_of(subject, pictures))
    for number, line in enumerate(standing_words(answer)):
        y = 0.6 + 0.3 * number
        canvas.text(LEFT + 4.1, y, line, size=13 if number == 0 else 9.5, bold=number == 0)
    if rows:
        canvas.text(LEFT, 2.5, "dimension", colour=QUIET, size=8)
        canvas.text(BAR_AT, 2.5, "A × B, its part of the cosine", colour=QUIET, size=8)
    if pictured:
        for x, head in zip((IMAGES_AT, STRONGEST_AT), headings(answer), strict=True):
            canvas.text(x, 2.5, head, colour=QUIET, size=8)
    for number, row in enumerate(rows):
        _row(canvas, 2.7 + number * ROW, row, pair.signed, pictures)
    y = below
    if rows and shown is not None:
        if words is not None:
            _sum_line(canvas, y, words, str(shown.rest), shown.rest_share, bold=False)
        canvas.line(LEFT, y + 0.2, IMAGES_AT - 0.25 - LEFT)
        total = None if shown.rest_share is None else Decimal(100)
        _sum_line(canvas, y + 0.4, "sum, the cosine", str(shown.total), total, bold=True)
        y += 0.85
    for line in only:
        canvas.text(LEFT, y, shortened(line, 150 if pictured else 100), size=8)
        y += 0.26
    source = shortened(one_line(answer.representation.label), 40)
    canvas.text(
        LEFT,
        height - 0.25,
        f"{source}, {len(answer.representation.z):,} images; {note(answer)}",
        size=7.5,
        colour=QUIET,
    )
    canvas.save(out)


def _subject(
    canvas: Canvas, x: float, letter: str, subject: Subject, pixels: Tensor | None
) -> None:
    if pixels is None:
        canvas.blank(x, 0.35, 1.55, "no picture")
    else:
        canvas.picture(x, 0.35, 1.55, pixels)
    name = shortened(one_line(subject.name), 28)
    canvas.text(x, 0.2, letter, bold=True, size=11)
    canvas.text(x + 0.2, 0.2, shortened(one_line(subject.label or ""), 22), size=9)
    canvas.text(x, 2.05, name, size=7.5, colour=QUIET)


def _row(canvas: Canvas, y: float, row: Row, signed: bool, pictures: Pictures | None) -> None:
    middle = y + THUMB / 2
    name = cut(one_line(row.name), 24)
    canvas.text(LEFT, middle - (0.1 if name else 0), str(row.dimension), bold=True, size=11)
    canvas.text(LEFT, middle + 0.12, name, size=8)
    _bar(canvas, middle, row.length, signed, POSITIVE if row.length >= 0 else NEGATIVE)
    canvas.text(NUMBERS_AT, middle - 0.1, f"{row.a} × {row.b} = {row.value}", size=9)
    canvas.text(NUMBERS_AT, middle + 0.12, row.without, size=7.5, colour=QUIET)
    if row.share is not None:
        canvas.text(IMAGES_AT - 0.25, middle - 0.1, row.share, size=9, align="right", bold=True)
    if pictures is None or row.examples is None:
        return
    for start, images in ((IMAGES_AT, row.examples.random), (STRONGEST_AT, row.examples.strongest)):
        for place, image in enumerate(images):
            canvas.picture(start + place * (THUMB + 0.05), y, THUMB, pictures[image])


def _bar(canvas: Canvas, middle: float, length: float, signed: bool, colour: str) -> None:
    height = 0.34
    full = BAR / 2 if signed else BAR
    zero = BAR_AT + BAR / 2 if signed else BAR_AT
    size = abs(length) * full
    start = zero - size if length < 0 else zero
    hatch = "////" if length < 0 else ""
    canvas.box(start, middle - height / 2, size, height, colour, hatch)
    if signed:
        canvas.line(zero, middle - 0.3, 0, 0.6)


def _sum_line(
    canvas: Canvas, y: float, words: str, value: str, share: Decimal | None, *, bold: bool
) -> None:
    canvas.text(LEFT, y, words, size=9, bold=bold)
    canvas.text(NUMBERS_AT + 1.52, y, value, size=9, align="right", bold=bold)
    if share is not None:
        canvas.text(IMAGES_AT - 0.25, y, f"{share} %", size=9, align="right", bold=bold)


def _page(answer: Why, rows: list[Row], pictures: Pictures | None, out: Path) -> None:
    pair, shown = answer.pair, answer.shown
    given = answer.representation

    def card(image: int) -> dict[str, str]:
        assert pictures is not None
        label = class_of(given, image)
        words = [given.names[image], *([] if label is None else [label])]
        return {"uri": data_uri(pictures[image]), "words": ", ".join(words)}

    def subject(letter: str, one: Subject) -> dict[str, object]:
        pixels = picture_of(one, pictures)
        return {
            "letter": letter,
            "name": one.name,
            "label": one.label,
            "index": one.index,
            "given": one.given,
            "uri": None if pixels is None else data_uri(pixels),
        }

    write_page(
        out,
        "why.html.j2",
        source=given.label,
        images=len(given.z),
        subjects=[subject("A", answer.a), subject("B", answer.b)],
        standing=standing_words(answer),
        signed=pair.signed,
        rows=[
            {
                **row._asdict(),
                "examples": None
                if row.examples is None
                else [[card(image) for image in group] for group in row.examples],
            }
            for row in rows
        ],
        headings=headings(answer),
        note=note(answer),
        pictured=pictures is not None,
        shown=shown,
        rest=None if shown is None else rest_words(shown),
        only=[
            (letter, listed(dimensions, answer.names))
            for letter, dimensions in (("A", pair.only_a), ("B", pair.only_b))
            if dimensions
        ],
    )
