"""The answer to `search` on a terminal."""

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pellucid.answer.search_answer import Found, carried_by, outcome
from pellucid.answer.subject import described
from pellucid.answer.words import shortened
from pellucid.text import one_line

SHORTEST, LONGEST = 12, 40
"""Letters of an image's name in the table."""
LABELLED = 20
"""Letters of its class."""


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
