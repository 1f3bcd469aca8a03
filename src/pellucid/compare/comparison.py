"""Scores of several runs side by side: rows, what leads, and what a reader must know."""

import re
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from pellucid.compare.evaluated import Evaluated, Json, group_by_recipe
from pellucid.representation.representation import same_images
from pellucid.run import RunError

MISSING = "–"
NAMED = ("data", "scored_split")
"""What a run calls its images; a file does not say, and is asked for the images themselves."""
SAME_IMAGES = (*NAMED, "scored_images", "scored_images_labelled", "classes")
SAME_SCALE = (*SAME_IMAGES, "min_support", "seed")
"""Settings of scores.json that must agree before one run's score is better than another's."""


class Column(NamedTuple):
    """A column of the table; its key is the one in compare.csv."""

    key: str
    title: str
    path: tuple[str, ...]
    """Where the score lies in `trained` and `untrained`, or in scores.json (a plain number)."""
    better: int = 0
    """1 if higher is better, -1 if lower is, 0 where neither is meant."""
    digits: int = 3
    scale: float = 1.0
    shows_chance: bool = False


COLUMNS = (
    Column("consistency", "consistency", ("semantic_consistency",), 1, shows_chance=True),
    Column("consistency_published", "as published", ("semantic_consistency_published",)),
    Column("object_consistency", "by object", ("planted", "consistency", "object"), 1),
    Column("background_consistency", "by background", ("planted", "consistency", "background")),
    Column("entropy", "entropy, nats", ("semantic_entropy_mass",), -1, digits=2),
    Column("activation_rate", "live dims", ("activation_rate",)),
    Column("density", "density", ("density",)),
    Column("monosemanticity", "monosem.", ("monosemanticity",), 1, shows_chance=True),
    Column("probe", "probe @1", ("linear_probe_top1",), 1),
    Column("knn", "kNN", ("knn",), 1),
    Column("retrieval", "P@1", ("retrieval_at_1",), 1),
    Column("query_entropy", "H(query), nats", ("query_view", "query_entropy"), digits=1),
    Column("entropy_gain", "dH, nats", ("query_view", "entropy_gain"), digits=0),
    Column("kept_image", "same image", ("query_view", "drift", "same_image")),
    Column(
        "parameters_millions", "params, M", ("cost", "parameters", "total"), digits=2, scale=1e-6
    ),
    Column("training_seconds", "train, s", ("timing", "seconds"), digits=0),
)
"""Scores are shares, 0..1, but for entropy, parameters and seconds."""
OF_TRAINED = ("timing", "planted", "query_view")
"""Parts of scores.json that are of the trained branch alone."""
OPTIONAL = (
    *("object_consistency", "background_consistency"),
    *("query_entropy", "entropy_gain", "kept_image"),
)


class Cell(NamedTuple):
    """A score of one run, or the mean over runs that differ by their seed."""

    value: float | None = None
    chance: float | None = None
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    """Standard deviation over seeds."""
    dimensions: int | None = None
    support: int | None = None

    @property
    def reach(self) -> float | None:
        """What a difference must exceed to mean anything; None where it is not known."""
        half = None if self.low is None or self.high is None else (self.high - self.low) / 2
        # A few seeds may agree by luck more closely than the images allow.
        return max((r for r in (half, self.spread) if r is not None), default=None)

    def lines(self, column: Column) -> list[str]:
        """What a reader sees: the value, then its uncertainty and chance."""
        if self.value is None:
            return [MISSING]
        shown = f"{self.value:.{column.digits}f}"
        if self.spread:
            shown += f" ± {self.spread:.{column.digits}f}"
        lines = [shown]
        if self.spread is None and self.low is not None and self.high is not None:
            lines.append(f"[{self.low:.{column.digits}f}, {self.high:.{column.digits}f}]")
        if column.shows_chance and self.chance is not None:
            lines.append(f"chance {self.chance:.{column.digits}f}")
        return lines


class Row(NamedTuple):
    """A line of the table."""

    label: str
    method: str
    runs: int
    cells: dict[str, Cell]
    trained: bool = True
    """False for a branch before its first step, which nothing is ranked with."""


def rows_of(evaluated: Sequence[Evaluated]) -> list[Row]:
    """A row for each file, run or group of seeds, and last the first run's branch untrained."""
    rows: list[Row] = []
    for group in group_by_recipe(evaluated):
        row = row_of(group, "trained")
        if any(row.label == other.label for other in rows):
            row = row._replace(label=f"{row.label}, {group[0].label} …")
        rows.append(row)
    for first in [one for one in evaluated if one.run is not None][:1]:
        untrained = row_of([first], "untrained")
        rows.append(untrained._replace(label=f"untrained ({first.label})", trained=False))
    return rows


def row_of(group: Sequence[Evaluated], which: str) -> Row:
    """The row of one run, or of runs that differ by their seed."""
    first = group[0]
    label = first.label
    if len(group) > 1:
        # "ncl-seed0" and "ncl-seed1" share the name ncl.
        shared = {re.sub(r"[-_. ]+(s|seed)?[-_. ]*\d+$", "", one.label) for one in group}
        name = shared.pop() if len(shared) == 1 else first.method
        label = f"{name} ({len(group)} seeds)"
    cells = {}
    for column in COLUMNS:
        found = [cell for one in group if (cell := cell_at(one.scores, which, column)) is not None]
        if found:
            cells[column.key] = found[0] if len(group) == 1 else _mean(found)
    return Row(label, first.method, len(group), cells)


def cell_at(scores: Json, which: str, column: Column) -> Cell | None:
    """A score of `trained` or `untrained`; None where the file has none."""
    place, *_ = column.path
    if which == "untrained" and place in OF_TRAINED:
        return None
    at: Any = scores if place == "cost" or place in OF_TRAINED else scores.get(which)
    for key in column.path:
        at = at.get(key) if isinstance(at, dict) else None
    if isinstance(at, dict):
        known = {name: at[name] for name in Cell._fields if type(at.get(name)) in (int, float)}
        return Cell(**known)
    return Cell(value=round(at * column.scale, 6)) if type(at) in (int, float) else None


def _mean(cells: Sequence[Cell]) -> Cell:
    """The mean over seeds, of the ends of intervals too; the fewest dimensions and images."""
    values = [cell.value for cell in cells if cell.value is not None]
    means = {}
    for name in ("value", "chance", "low", "high"):
        known = [v for cell in cells if (v := getattr(cell, name)) is not None]
        means[name] = fmean(known) if known else None
    return Cell(
        **means,
        spread=stdev(values) if len(values) > 1 else None,
        dimensions=min((c.dimensions for c in cells if c.dimensions is not None), default=None),
        support=min((c.support for c in cells if c.support is not None), default=None),
    )


def leader(rows: Sequence[Row], column: Column) -> str | None:
    """The label of the row that leads every other by more than both uncertainties, if one does.

    A value whose uncertainty is not known leads nothing and is led by nothing.
    """
    cells = {
        r.label: c
        for r in rows
        if r.trained and (c := r.cells.get(column.key)) and c.value is not None
    }
    if column.better == 0 or len(cells) < 2:
        return None
    ahead, *others = sorted(cells, key=lambda label: -column.better * (cells[label].value or 0.0))
    best = cells[ahead]
    for cell in (cells[label] for label in others):
        if best.reach is None or cell.reach is None or best.value is None or cell.value is None:
            return None
        if abs(best.value - cell.value) <= best.reach + cell.reach:
            return None
    return ahead


def differences(evaluated: Sequence[Evaluated]) -> list[str]:
    """A warning when scores are of different images or by different settings."""
    found = list(_other_images(evaluated))
    for key in SAME_SCALE:
        values = {
            one.label: str(one.settings.get(key))
            for one in evaluated
            if one.run is not None or key not in NAMED
        }
        if len(set(values.values())) > 1:
            each = ", ".join(f"{name}: {value}" for name, value in values.items())
            found.append(f"they differ in {key} ({each})")
    if not found:
        return []
    return [f"Not comparable, and so nothing is marked: {'; '.join(found)}."]


def _other_images(evaluated: Sequence[Evaluated]) -> Iterator[str]:
    """Files that are not known to be of the images of the first: no setting of theirs says so."""
    for one in evaluated[1:]:
        if one.run is None or evaluated[0].run is None:
            try:
                first, other = evaluated[0].representation(), one.representation()
                same_images(first, other)
            except RunError as error:
                yield str(error)
                continue
            if first.named != other.named and None in (first.hashes, other.hashes):
                unsaid = other.label if first.named else first.label
                yield f"{unsaid} does not name the images that it is of"


def notes_on(rows: Sequence[Row], evaluated: Sequence[Evaluated]) -> Iterator[str]:
    """What stands under the table."""
    scored = {r.label: c for r in rows if (c := r.cells.get("consistency")) and c.dimensions}
    if scored:
        counts = sorted({n for one in evaluated if (n := one.settings.get("dimensions"))})
        total = " to ".join(str(n) for n in dict.fromkeys(counts[:1] + counts[-1:])) or "?"
        each = ", ".join(f"{n} {c.dimensions} (from {c.support})" for n, c in scored.items())
        yield f"Dimensions scored, of {total}, and the fewest active images of one: {each}."
    levels = []
    for key in (
        "entropy",
        "probe",
        "knn",
        "retrieval",
        "object_consistency",
        "background_consistency",
    ):
        column = next(c for c in COLUMNS if c.key == key)
        known = [c.chance for r in rows if (c := r.cells.get(key)) and c.chance is not None]
        if known:
            low, high = (f"{v:.{column.digits}f}" for v in (min(known), max(known)))
            levels.append(f"{column.title} {low if low == high else f'{low} to {high}'}")
    if levels:
        yield f"Chance (shuffled labels; for probe and kNN the largest class): {', '.join(levels)}."
    yield (
        "[ ] 95 % interval over images, ± standard deviation over seeds; bold leads every other "
        "run by more than both uncertainties."
    )
    for one in evaluated:
        if one.run is None:
            yield from (f"{one.label}: {note}." for note in _notes_on_file(one))


def _notes_on_file(one: Evaluated) -> Iterator[str]:
    """What was assumed in reading it, and why it lacks the scores that z could give."""
    yield from one.representation().notes
    missing: dict[str, list[str]] = {}
    for column in COLUMNS:
        score = one.scores["trained"].get(column.path[0])
        if score is not None and score.get("reason") is not None:
            missing.setdefault(score["reason"], []).append(column.title)
    yield from (f"no {', '.join(titles)}, since {reason}" for reason, titles in missing.items())
