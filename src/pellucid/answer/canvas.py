"""A figure that is laid out in inches, from its top left corner: texts, pictures and bars."""

import warnings
from pathlib import Path
from typing import Literal

from jaxtyping import UInt8
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from pellucid.compare.figure import INK, PALETTE
from pellucid.train.whole import whole_file

PALE, QUIET = "#e6e6e6", "#666666"
POSITIVE, NEGATIVE = PALETTE[0], PALETTE[1]
DPI = 160
Number = float | int


class Canvas:
    """An empty figure.

    Args:
        width: in inches.
        height: in inches.
    """

    def __init__(self, width: Number, height: Number) -> None:
        self._figure = Figure(figsize=(width, height), dpi=DPI)
        FigureCanvasAgg(self._figure)
        self._axes = self._figure.add_axes((0, 0, 1, 1))
        self._axes.axis("off")
        self._limits = (width, height)

    def text(
        self,
        x: Number,
        y: Number,
        words: str,
        *,
        size: Number = 9,
        align: Literal["left", "center", "right"] = "left",
        colour: str = INK,
        bold: bool = False,
    ) -> None:
        """Words with their middle line at y."""
        self._axes.text(
            x,
            y,
            words,
            fontsize=size,
            ha=align,
            va="center",
            color=colour,
            weight="bold" if bold else "normal",
            parse_math=False,  # a "$" in a name is no formula
        )

    def picture(self, x: Number, y: Number, side: Number, pixels: UInt8[Tensor, "3 h w"]) -> None:
        """An image in a square of this side, in its own proportions."""
        height, width = pixels.shape[1:]
        scale = side / max(height, width)
        w, h = width * scale, height * scale
        left, top = x + (side - w) / 2, y + (side - h) / 2
        self._axes.imshow(
            pixels.permute(1, 2, 0).numpy(),
            extent=(left, left + w, top + h, top),
            interpolation="nearest" if max(height, width) < side * DPI else "antialiased",
            aspect="auto",
        )

    def blank(self, x: Number, y: Number, side: Number, words: str) -> None:
        """A square where there is no picture."""
        self.box(x, y, side, side, PALE)
        self.text(x + side / 2, y + side / 2, words, size=7, align="center", colour=QUIET)

    def box(
        self, x: Number, y: Number, width: Number, height: Number, colour: str, hatch: str = ""
    ) -> None:
        """A filled rectangle; a hatch tells it apart without its colour."""
        self._axes.add_patch(
            Rectangle((x, y), width, height, facecolor=colour, edgecolor="white", lw=0, hatch=hatch)
        )

    def line(self, x: Number, y: Number, width: Number, height: Number = 0.0) -> None:
        """A thin rule to the right, or down."""
        self._axes.plot([x, x + width], [y, y + height], color="#b3b3b3", linewidth=0.8)

    def save(self, out: Path) -> None:
        """Write a PNG, whole or not at all."""
        width, height = self._limits
        self._axes.set_xlim(0, width)
        self._axes.set_ylim(height, 0)
        out.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings(), whole_file(out) as temporary:
            # Images may be called anything; a letter that the font lacks becomes a box.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            self._figure.savefig(temporary, format="png")
