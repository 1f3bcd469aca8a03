"""Several evaluated runs in one table and one figure."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pellucid.evaluate.comparison import (
    COLUMNS,
    OPTIONAL,
    Cell,
    Column,
    Row,
    differences,
    leader,
    notes_on,
    read_scores,
    rows_of,
)
from pellucid.evaluate.figure import Point, draw_comparison
from pellucid.run import RunError
from pellucid.train.checkpoint import write_text

TABLE, CELLS, FIGURE = "compare.md", "compare.csv", "compare.png"
FIELDS = ("value", "chance", "low", "high", "spread")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a text starts that a spreadsheet would compute instead of show."""

Best = Mapping[str, str | None]
"""The label of the row that is marked, by column."""


def compare(folders: list[Path], console: Console, out: Path | None = None) -> None:
    """Print one table of evaluated runs; with `out`, also write compare.md, .csv and .png.

    A row is a run or, where runs differ by nothing but `train.seed`, the mean and standard
    deviation over them; the last row is the first run's branch untrained. A table that is too
    wide for the console is turned, with a column for each run. The best value of a column is
    marked only when it leads every other by more than both their uncertainties together, and
    never between runs that were scored on different images.

    Args:
        folders: run directories; one that is given twice counts once.
        console: where to print.
        out: a folder to write into; made if it is not there.

    Raises:
        RunError: a folder is no run, has no scores yet, or its scores cannot be read; or `out`
            is a file.
    """
    if out is not None and out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file; --out takes a folder for {TABLE}, {CELLS} and {FIGURE}")
    evaluated = read_scores(folders)
    rows = rows_of(evaluated)
    columns = [c for c in COLUMNS if c.key not in OPTIONAL or any(c.key in r.cells for r in rows)]
    differing = differences(evaluated)
    best = {} if differing else {column.key: leader(rows[:-1], column) for column in columns}
    notes = [*notes_on(rows, evaluated), *differing]
    print_table(rows, columns, best, console)
    for note in notes:
        console.print(Text(note), soft_wrap=True)
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / TABLE, as_markdown(rows, columns, best, notes))
    write_text(out / CELLS, as_csv(rows, columns))
    drawn = write_figure(out / FIGURE, rows, evaluated[0].scores.get("settings", {}).get("data"))
    missing = "" if drawn else "; no figure, since no run has both a consistency and a probe"
    console.print(Text(f"written to {out}{missing}"), soft_wrap=True)


def print_table(
    rows: Sequence[Row], columns: Sequence[Column], best: Best, console: Console
) -> None:
    """Print a row for each run, or a column for each where rows would be too wide."""
    grid = [[Text("run"), *(Text(column.title) for column in columns)]]
    for row in rows:
        cells = [Text("\n".join(_lines(row, column))) for column in columns]
        for cell, column in zip(cells, columns, strict=True):
            if best.get(column.key) == row.label:
                cell.stylize("bold")
        grid.append([Text(row.label), *cells])
    upright, turned = _table(grid), _table([list(line) for line in zip(*grid, strict=True)])
    widths = [
        Measurement.get(console, console.options.update(max_width=10_000), table).maximum
        for table in (upright, turned)
    ]
    chosen = upright if widths[0] <= console.width or widths[0] <= widths[1] else turned
    # What fits neither way is left to the terminal to wrap: cut-off numbers would be wrong ones.
    chosen.width = widths[0] if chosen is upright else widths[1]
    console.print(chosen, crop=False)


def _table(grid: Sequence[Sequence[Text]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, head in enumerate(grid[0]):
        table.add_column(head, justify="right" if number else "left", no_wrap=True)
    for line in grid[1:]:
        table.add_row(*line)
    return table


def _lines(row: Row, column: Column) -> list[str]:
    return row.cells.get(column.key, Cell()).lines(column)


def as_markdown(
    rows: Sequence[Row], columns: Sequence[Column], best: Best, notes: Sequence[str]
) -> str:
    """The table in Markdown, with its notes."""
    lines = [_pipes(["run", *(column.title for column in columns)])]
    lines.append(_pipes(["---", *["---:"] * len(columns)]))
    for row in rows:
        cells = []
        for column in columns:
            value, *rest = _lines(row, column)
            shown = f"**{value}**" if best.get(column.key) == row.label else value
            cells.append(", ".join([shown, *rest]))
        lines.append(_pipes([_escaped(row.label), *cells]))
    return "\n".join([*lines, "", *(f"{_escaped(note)}\n" for note in notes)])


def _pipes(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)


def as_csv(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """The scores unrounded, one line a row; cells that are not known are empty.

    After a column's own value come `_chance`, `_low`, `_high` and `_std` (over seeds), where any
    row has them, and `_dimensions` and `_support` of the consistency. Over seeds all are means,
    but dimensions and support the fewest.
    """
    wanted: list[tuple[str, str]] = []
    for column in columns:
        fields = [*FIELDS, *(("dimensions", "support") if column.key == "consistency" else ())]
        cells = [row.cells[column.key] for row in rows if column.key in row.cells]
        wanted += [
            (column.key, field)
            for field in fields
            if field == "value" or any(getattr(cell, field) is not None for cell in cells)
        ]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    names = {"value": "", "spread": "_std"}
    heads = [f"{key}{names.get(field, f'_{field}')}" for key, field in wanted]
    writer.writerow(["run", "method", "runs", *heads])
    for row in rows:
        values = [getattr(row.cells.get(key, Cell()), field) for key, field in wanted]
        writer.writerow([_data(row.label), _data(row.method), row.runs, *values])
    return file.getvalue()


def _data(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def write_figure(path: Path, rows: Sequence[Row], data: object) -> bool:
    """Draw the rows that have a consistency and a probe accuracy; False when none has."""
    points = []
    for row in rows:
        x, y = (row.cells.get(key, Cell()) for key in ("consistency", "probe"))
        if x.value is not None and y.value is not None:
            points.append(Point(row.label, x.value, x.chance, _ends(x), y.value, _ends(y)))
    if not points:
        path.unlink(missing_ok=True)  # one of earlier runs would be taken for these
        return False
    title = "What a probe reads, and what single dimensions say"
    temporary = path.with_name(f".{path.name}.writing")
    draw_comparison(points, f"{title}: {data}" if data else title, temporary)
    temporary.replace(path)
    return True


def _ends(cell: Cell) -> tuple[float, float] | None:
    """The interval over images, or over seeds the larger of its mean and their spread."""
    if cell.spread is None or cell.value is None or cell.reach is None:
        return None if cell.low is None or cell.high is None else (cell.low, cell.high)
    return cell.value - cell.reach, cell.value + cell.reach
