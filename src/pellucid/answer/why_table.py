"""The answer to `why` on a terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pellucid.answer.neighbours import Standing
from pellucid.answer.pair import THOUSANDTH, Contribution, Printed, printed, rounded
from pellucid.answer.subject import described
from pellucid.answer.why_answer import Why
from pellucid.answer.words import NOTHING_SHARED, count, cut, undefined
from pellucid.text import one_line

NAMED = 20
"""Letters of a dimension's name in the table."""
LISTED = 8
"""Dimensions of one image alone that are listed."""
SHORTEST_BAR, LONGEST_BAR = 9, 25
"""Letters of the longest bar."""
MISSING = "–"


def print_why(answer: Why, console: Console) -> None:
    """Print both images, where they stand, the sum that the cosine is, and what is not shared."""
    pair = answer.pair
    active = [len(pair.shared) + len(only) for only in (pair.only_a, pair.only_b)]
    for letter, subject, on in zip("AB", (answer.a, answer.b), active, strict=True):
        _line(console, f"{letter}  {described(subject)}: {count(on, 'active dimension')}")
    console.print()
    for line in standing_words(answer):
        _line(console, line)
    if answer.shown is not None and pair.shared:
        table = _table(answer, 0)
        room = console.width - _width(table, console)
        table = _table(answer, min(LONGEST_BAR, max(SHORTEST_BAR, room)))
        # What is too wide is left to the terminal to wrap: cut-off numbers would be wrong ones.
        table.width = _width(table, console)
        console.print(table, crop=False)
    for letter, only in (("A", pair.only_a), ("B", pair.only_b)):
        if only:
            _line(console, f"only in {letter}: {listed(only, answer.names)}")


def standing_words(answer: Why) -> list[str]:
    """The cosine and its place in words, or why there is none."""
    pair = answer.pair
    if answer.shown is None:
        sides = (("A", answer.a), ("B", answer.b))
        return [
            f"{letter}: {undefined(subject.closed)}"
            for letter, subject in sides
            if not bool(subject.z.any())
        ]
    lines = [f"cosine {answer.shown.total}"]
    if answer.typical is not None:
        lines.append(f"median of random pairs: {rounded(answer.typical, THOUSANDTH)}")
    if answer.same:
        lines.append("A and B are the same image.")
    elif answer.standing is not None:
        lines.append(f"B is A's neighbour {answer.standing.rank:,} of {answer.standing.of:,}")
    if pair.signed:
        negative = rounded(pair.negative, THOUSANDTH)
        lines.append(
            f"positive {answer.shown.total - negative}, negative {negative}, "
            f"sum {answer.shown.total}"
        )
        lines.append("Contributions cancel, so none is a share of the cosine.")
    if not pair.shared:
        lines.append(NOTHING_SHARED)
    return lines


def listed(only: Sequence[tuple[int, float]], names: dict[int, str]) -> str:
    """Dimensions with their values, the largest first."""
    shown = [f"{_named(k, names)} ({value:.3f})" for k, value in only[:LISTED]]
    more = len(only) - LISTED
    return ", ".join([*shown, *([f"and {more:,} more"] if more > 0 else [])])


def rest_words(shown: Printed) -> str | None:
    """What the row below the shown ones holds; None where there is nothing to add."""
    if shown.further:
        return f"{count(shown.further, 'further shared dimension')}, and rounding"
    return "rounding" if shown.rest or shown.rest_share else None


def _table(answer: Why, room: int) -> Table:
    shown, pair = answer.shown, answer.pair
    assert shown is not None
    shares = shown.rest_share is not None
    named = max((len(_name(line.row.dimension, answer)) for line in shown.lines), default=0)
    heads = ["dim", *(["name"] if named else []), "A", "B", "A × B", ""]
    heads += [*(["share"] if shares else []), "without\ncosine", "\nneighbour"]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_footer=True)
    largest = max(abs(line.value) for line in shown.lines) or 1
    for head in heads:
        table.add_column(head, justify="left" if head in ("name", "") else "right", no_wrap=True)
    for line in shown.lines:
        row, without = line.row, answer.without[line.row.dimension]
        cells = [str(row.dimension), *([_name(row.dimension, answer)] if named else [])]
        cells += [f"{row.a:.3f}", f"{row.b:.3f}", str(line.value)]
        cells.append(bar(float(line.value / largest), room, signed=pair.signed))
        cells += [f"{line.share} %"] if shares else []
        cells.append(MISSING if without.cosine is None else f"{without.cosine:.3f}")
        cells.append(_rank(without.standing))
        table.add_row(*(Text(cell) for cell in cells))
    words = rest_words(shown)
    blank = [""] * (1 + bool(named))
    if words is not None:
        label = f"+ {shown.further} more" if shown.further else "rounding"
        cells = [label, *blank, "", str(shown.rest)]
        cells.append("")  # many dimensions' sum, beside which each one's bar would be nothing
        cells += [f"{shown.rest_share} %"] if shares else []
        table.add_row(*(Text(cell) for cell in [*cells, "", ""]))
    totals = ["sum", *blank, "", str(shown.total), "= cosine", *(["100 %"] if shares else [])]
    totals += [str(shown.total), _rank(answer.standing)]
    for column, total in zip(table.columns, totals, strict=True):
        column.footer = Text(total)
    return table


def _width(table: Table, console: Console) -> int:
    wide = console.options.update(max_width=10_000)
    return Measurement.get(console, wide, table).maximum


def bar(share: float, width: int, *, signed: bool) -> str:
    """A bar of at most `width` letters; a signed one goes from its middle to either side."""
    if not signed:
        return "█" * round(max(share, 0) * width)
    half = width // 2
    length = round(abs(share) * half)
    return (
        f"{'▒' * length:>{half}}│{'':{half}}" if share < 0 else f"{'':{half}}│{'█' * length:{half}}"
    )


def print_rarity(answer: Why, rows: Sequence[Contribution], top: int, console: Console) -> None:
    """Print contributions weighed by rarity, with what they are not."""
    if not rows:
        return
    shown = printed(rows, sum(row.value for row in rows), top)
    _line(
        console,
        "weighed by rarity, A × B over the share of images with the dimension on (not the cosine "
        "that the model was trained with):",
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("dim", "name", "weighed", "share"):
        table.add_column(head, justify="left" if head == "name" else "right", no_wrap=True)
    for line in shown.lines:
        share = MISSING if line.share is None else f"{line.share} %"
        cells = [str(line.row.dimension), _name(line.row.dimension, answer), str(line.value), share]
        table.add_row(*(Text(cell) for cell in cells))
    if rest_words(shown) is not None:
        share = MISSING if shown.rest_share is None else f"{shown.rest_share} %"
        label = f"+ {shown.further} more" if shown.further else "rounding"
        table.add_row(label, "", str(shown.rest), share)
    table.add_row("sum", "", str(shown.total), "" if shown.rest_share is None else "100 %")
    console.print(table)


def _rank(standing: Standing | None) -> str:
    return MISSING if standing is None else f"{standing.rank:,}"


def _name(k: int, answer: Why) -> str:
    return cut(one_line(answer.names.get(k, "")), NAMED)


def _named(k: int, names: dict[int, str]) -> str:
    name = cut(one_line(names.get(k, "")), NAMED)
    return f"{k} {name}".rstrip()


def _line(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)
