"""The figure of dimensions.png: what matches are worth, beside permuted images and rotated axes."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from torch import Tensor

from pellucid.compare.figure import INK, PALETTE, shortened
from pellucid.compare.recurrence import Recurrence, shown
from pellucid.metrics.matching import RECURS

MATCHED, ROTATED, PERMUTED = PALETTE[0], PALETTE[1], "#767676"
BINS = np.linspace(-1.0, 1.0, 41)
LEFT = -0.05
"""Where the axis of agreement starts, unless matches are below."""


def draw_recurrence(found: Sequence[Recurrence], path: Path) -> None:
    """Write a PNG, a line of two panels for each group.

    Left, how many matches have which agreement, and how many have with permuted images and on
    rotated axes. Right, each dimension of the first by its lowest agreement, filled where it
    recurs, and the highest that rotated axes gave it.

    Raises:
        ValueError: there is no group.
    """
    if not found:
        raise ValueError("a figure of recurring dimensions needs at least one group")
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    figure = Figure(figsize=(11.0, 0.3 + 3.8 * len(found)), dpi=150, layout=layout)
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(found), 2, squeeze=False, width_ratios=(1, 1.25))
    for one, (left, right) in zip(found, panels, strict=True):
        agreement, rotated = _lowest(one)
        start = min(LEFT, agreement.nan_to_num(nan=1.0).min().item() - 0.02)
        _distribution(left, one, start)
        _each_dimension(right, one, agreement, rotated, start)
    with warnings.catch_warnings():
        # A run may be called anything; a letter that the font lacks becomes a box.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(path, format="png")


def _distribution(axes: Axes, one: Recurrence, start: float) -> None:
    """Shares of matches by agreement; the narrow peak of permuted images is cut off above."""
    shares, matches = _shares([m.agreement for m in one.matchings.values()])
    rotated_shares, rotated = _shares([m.rotated for m in one.matchings.values()])
    luck_shares, luck = _shares([m.permuted for m in one.matchings.values()])
    highest = max(shares.max(), rotated_shares.max())
    axes.stairs(luck_shares, BINS, fill=True, color=PERMUTED, alpha=0.3, linewidth=0)
    axes.stairs(shares, BINS, fill=True, color=MATCHED, alpha=0.22, linewidth=0)
    luck_label = f"with permuted images{luck}"
    axes.stairs(shares, BINS, color=MATCHED, linewidth=1.8, label=f"matches{matches}")
    axes.stairs(
        rotated_shares,
        BINS,
        color=ROTATED,
        linestyle="--",
        linewidth=1.8,
        label=f"on rotated axes{rotated}",
    )
    axes.stairs(luck_shares, BINS, color=PERMUTED, linestyle=":", linewidth=1.6, label=luck_label)
    axes.set_ylim(0, max(highest, 0.01) * 1.5)
    axes.set_xlim(start, 1.0)
    axes.axvline(RECURS, color=INK, linewidth=0.8)
    axes.set_xlabel("agreement (0 permuted images, 1 the same dimension)")
    axes.set_ylabel("percent of matched dimensions")
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(0.14, 1.0),
        labelcolor=INK,
        fontsize=9,
        edgecolor="none",
    )
    _style(axes, f"{shortened(one.first)} in {_where(one)}")


def _each_dimension(
    axes: Axes, one: Recurrence, agreement: Tensor, rotated: Tensor, start: float
) -> None:
    """Dimensions from the lowest agreement that is highest."""
    order = agreement.nan_to_num(nan=-2.0).argsort(descending=True, stable=True)
    order = order[: int((~agreement.isnan()).sum())]
    recurs, place = one.recurs[order].numpy(), np.arange(1, len(order) + 1)
    heights = agreement[order].numpy()
    axes.plot(
        place,
        rotated[order].numpy(),
        "_",
        color=ROTATED,
        markersize=5,
        markeredgewidth=1.4,
        zorder=2,
    )
    for kind, face, size in ((recurs, MATCHED, 4.5), (~recurs, "white", 4.0)):
        axes.plot(
            place[kind],
            heights[kind],
            "o",
            color=MATCHED,
            markerfacecolor=face,
            markersize=size,
            markeredgewidth=0.8,
            zorder=3,
        )
    axes.axhline(RECURS, color=INK, linewidth=0.8)
    axes.set_ylim(start, 1.02)
    axes.set_xlabel(f"matched dimensions of {shortened(one.first)}, by agreement")
    axes.set_ylabel("lowest agreement" if len(one.matchings) > 1 else "agreement")
    names = ("recurs", "does not", "highest on rotated axes")
    axes.legend(
        [axes.lines[1], axes.lines[2], axes.lines[0]],
        names,
        loc="lower left",
        frameon=False,
        labelcolor=INK,
        fontsize=9,
    )
    luck = f"on rotated axes {shown(one.by_rotated)}, by permuted images {shown(one.by_permuted)}"
    _style(axes, f"{int(one.recurs.sum())} of {len(one.support)} recur ({luck})")


def _shares(agreements: Sequence[Tensor]) -> tuple[np.ndarray, str]:
    """Percent of what is matched in each bin, and the median in words."""
    values = torch.cat([agreement.flatten() for agreement in agreements])
    values = values[~values.isnan()]
    percent = 100 * np.histogram(values.numpy(), BINS)[0] / max(len(values), 1)
    return percent, f", median {values.median():.2f}" if len(values) else ""


def _lowest(one: Recurrence) -> tuple[Tensor, Tensor]:
    """Of each dimension its lowest agreement, and the highest on rotated axes there.

    NaN where it is unmatched anywhere.
    """
    each = list(one.matchings.values())
    agreement, where = torch.stack([matching.agreement for matching in each]).min(dim=0)
    rotated = torch.stack([matching.rotated.nan_to_num(nan=-2.0).amax(dim=0) for matching in each])
    return agreement, rotated.gather(0, where[None])[0]


def _where(one: Recurrence) -> str:
    others = list(one.matchings)
    return shortened(others[0]) if len(others) == 1 else f"{len(others)} other {one.among}"


def _style(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=10.5, parse_math=False)
    axes.grid(color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.label.set_parse_math(False)
