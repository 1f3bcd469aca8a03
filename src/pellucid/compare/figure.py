"""The figure of `compare`: what a probe reads against what single dimensions say."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Okabe and Ito's colours, told apart with any colour vision; yellow is too pale on white."""
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Eight, one more than colours, so that a pair of both repeats only after 56 runs."""
INK = "#333333"
LONGEST = 32
"""Letters of a name; the rest would take its room from the axes."""


class Point(NamedTuple):
    """A run in the figure, both scores in 0..1."""

    label: str
    consistency: float
    chance: float | None
    """Consistency of the same activity under shuffled labels."""
    reach: tuple[float, float] | None
    """Ends of the interval of the consistency."""
    probe: float
    probe_reach: tuple[float, float] | None
    """Ends of the interval of the probe's accuracy."""


def draw_comparison(points: Sequence[Point], title: str, path: Path) -> None:
    """Write a PNG: consistency across, probe accuracy up, one marker a run with its intervals.

    The hollow mark of each run, on a dotted line, is where shuffled labels would put it: the
    part of a consistency that luck explains differs from run to run.

    Raises:
        ValueError: there is no point.
    """
    if not points:
        raise ValueError("a figure needs at least one run with a consistency and a probe accuracy")
    figure = Figure(figsize=(8.0, 5.0), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    marks = [
        _mark(axes, point, PALETTE[index % len(PALETTE)], SHAPES[index % len(SHAPES)])
        for index, point in enumerate(points)
    ]
    axes.margins(x=0.08, y=0.15)
    axes.set_xlabel("semantic consistency of single dimensions (hollow: with shuffled labels)")
    axes.set_ylabel("linear probe accuracy on h")
    axes.set_title(title, loc="left", color=INK, fontsize=11, parse_math=False)
    axes.grid(color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    _label(axes, marks, points)
    with warnings.catch_warnings():
        # A run may be called anything; a letter that the font lacks becomes a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(path, format="png")


def _mark(axes: Axes, point: Point, colour: str, shape: str) -> Line2D:
    x, y = point.consistency, point.probe
    if point.chance is not None:
        axes.plot([point.chance, x], [y, y], color=colour, linestyle=":", linewidth=1, zorder=2)
        axes.plot(
            [point.chance],
            [y],
            shape,
            color=colour,
            markerfacecolor="white",
            markersize=6,
            zorder=3,
        )
    drawn = axes.errorbar(
        [x],
        [y],
        xerr=_errors(x, point.reach),
        yerr=_errors(y, point.probe_reach),
        fmt=shape,
        color=colour,
        markersize=8,
        elinewidth=1.4,
        capsize=3,
        zorder=4,
    )
    marker: Line2D = drawn.lines[0]
    return marker


def _errors(value: float, reach: tuple[float, float] | None) -> list[list[float]] | None:
    if reach is None:
        return None
    return [[max(value - reach[0], 0.0)], [max(reach[1] - value, 0.0)]]


def _label(axes: Axes, marks: Sequence[Line2D], points: Sequence[Point]) -> None:
    """Names with their marks beside the axes, in the order of the probe's accuracy."""
    order = sorted(range(len(points)), key=lambda index: -points[index].probe)
    legend = axes.legend(
        [marks[index] for index in order],
        [str(index) for index in order],  # a legend would leave out a name like "_run"
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        frameon=False,
        labelcolor=INK,
    )
    for index, text in zip(order, legend.get_texts(), strict=True):
        text.set_parse_math(False)  # nor is "$" in a name a formula
        text.set_text(shortened(points[index].label))


def shortened(label: str) -> str:
    """A name that leaves the axes their room."""
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"
