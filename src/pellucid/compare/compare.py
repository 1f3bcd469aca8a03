"""Several evaluated representations in one table and one figure, and which dimensions recur."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pellucid.compare.comparison import (
    COLUMNS,
    OPTIONAL,
    Cell,
    Column,
    Row,
    differences,
    leader,
    notes_on,
    rows_of,
)
from pellucid.compare.evaluated import Evaluated, read_evaluated
from pellucid.compare.figure import Point, draw_comparison
from pellucid.compare.markup import escaped, table_row
from pellucid.compare.recurrence import RULE, Recurrence, groups_to_match, recurrence
from pellucid.compare.recurrence_figure import draw_recurrence
from pellucid.compare.recurrence_files import recurrence_csv, recurrence_markdown
from pellucid.run import RunError
from pellucid.text import as_cell, for_terminal, one_line
from pellucid.train.whole import whole_file, write_text

TABLE, CELLS, FIGURE = "compare.md", "compare.csv", "compare.png"
DIMENSIONS, DIMENSIONS_FIGURE = "dimensions.csv", "dimensions.png"
FIELDS = ("value", "chance", "low", "high", "spread")
Best = Mapping[str, str | None]
"""The label of the row that is marked, by column."""


def compare(
    paths: list[Path],
    console: Console,
    out: Path | None = None,
    *,
    labels: Path | None = None,
    images: Path | None = None,
) -> None:
    """Print one table of representations, and how many dimensions recur from one to the other.

    A row is a run, a file of features or, where runs differ by nothing but `train.seed`, the mean
    and standard deviation over them; the last row is the first run's branch untrained. A file has
    the scores that z, labels and h alone can give. A table that is too wide for the console is
    turned, with a column for each run. The best value of a column is marked only when it leads
    every other by more than both their uncertainties together, and never between different images.

    Dimensions are matched over runs that differ by their seed or, where there are none, over all.
    With `out`, the table is also written as compare.md, .csv and .png and the matches as
    dimensions.csv and .png.

    Args:
        paths: run directories, folders of `pellucid embed`, files of features; one that is given
            twice counts once.
        console: where to print.
        out: a folder to write into; made if it is not there.
        labels: of the files, one class an image.
        images: of the files, the folder of their images.

    Raises:
        RunError: a path is none of these, has no scores yet, or cannot be read; or `out` is a
            file.
    """
    if out is not None and out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file; --out takes a folder for {TABLE}, {CELLS} and {FIGURE}")
    evaluated = read_evaluated(paths, labels=labels, images=images)
    rows = rows_of(evaluated)
    columns = [c for c in COLUMNS if c.key not in OPTIONAL or any(c.key in r.cells for r in rows)]
    differing = differences(evaluated)
    best = {} if differing else {column.key: leader(rows, column) for column in columns}
    notes = [*notes_on(rows, evaluated), *differing]
    print_table(rows, columns, best, console)
    for note in notes:
        console.print(Text(for_terminal(note)), soft_wrap=True)
    recurring, unmatched = match_groups(evaluated)
    for line in [
        *(one.sentence() for one in recurring),
        *([RULE] if recurring else []),
        *unmatched,
    ]:
        console.print(Text(for_terminal(line)), soft_wrap=True)
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    text = as_markdown(rows, columns, best, [*notes, *unmatched])
    write_text(out / TABLE, f"{text}\n{recurrence_markdown(recurring)}" if recurring else text)
    write_text(out / CELLS, as_csv(rows, columns))
    data = next((one.settings.get("data") for one in evaluated), None)
    drawn = write_figure(out / FIGURE, rows, data)
    write_recurrence(out, recurring)
    missing = "" if drawn else "; no figure, since no run has both a consistency and a probe"
    console.print(Text(for_terminal(f"written to {out}{missing}")), soft_wrap=True)


def match_groups(evaluated: Sequence[Evaluated]) -> tuple[list[Recurrence], list[str]]:
    """What recurs in each group, and in words why a group cannot be matched."""
    found, reasons = [], []
    for group in groups_to_match(evaluated):
        try:
            found.append(recurrence(group))
        except RunError as error:
            reasons.append(f"Dimensions of {group[0].label} are not matched: {error}.")
    return found, reasons


def write_recurrence(out: Path, found: Sequence[Recurrence]) -> None:
    """Write the matches and their figure; without any, remove those of earlier runs."""
    if not found:
        (out / DIMENSIONS).unlink(missing_ok=True)
        (out / DIMENSIONS_FIGURE).unlink(missing_ok=True)
        return
    write_text(out / DIMENSIONS, recurrence_csv(found))
    with whole_file(out / DIMENSIONS_FIGURE) as temporary:
        draw_recurrence(found, temporary)


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
        grid.append([Text(one_line(row.label)), *cells])
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
    lines = [table_row(["run", *(column.title for column in columns)])]
    lines.append(table_row(["---", *["---:"] * len(columns)]))
    for row in rows:
        cells = []
        for column in columns:
            value, *rest = _lines(row, column)
            shown = f"**{value}**" if best.get(column.key) == row.label else value
            cells.append(", ".join([shown, *rest]))
        lines.append(table_row([escaped(row.label), *cells]))
    return "\n".join([*lines, "", *(f"{escaped(note)}\n" for note in notes)])


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
    ends = {"value": "", "spread": "_std"}
    heads = [f"{key}{ends.get(field, f'_{field}')}" for key, field in wanted]
    writer.writerow(["run", "method", "runs", *heads])
    for row in rows:
        values = [getattr(row.cells.get(key, Cell()), field) for key, field in wanted]
        names = (as_cell(one_line(name)) for name in (row.label, row.method))
        writer.writerow([*names, row.runs, *values])
    return file.getvalue()


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
    with whole_file(path) as temporary:
        draw_comparison(points, f"{title}: {data}" if data else title, temporary)
    return True


def _ends(cell: Cell) -> tuple[float, float] | None:
    """The interval over images, or over seeds the larger of its mean and their spread."""
    if cell.spread is None or cell.value is None or cell.reach is None:
        return None if cell.low is None or cell.high is None else (cell.low, cell.high)
    return cell.value - cell.reach, cell.value + cell.reach
