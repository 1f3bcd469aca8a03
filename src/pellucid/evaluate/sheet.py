"""Sheets of images: a few columns of examples, a row for each stage."""

from collections.abc import Mapping
from pathlib import Path

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from pellucid.train.batches import RGB
from pellucid.train.whole import whole_file

SHOWN = 16
AMPLIFIED = 3.0
"""Differences are shown this much brighter, or most would look black."""


def write_sheet(out: Path, rows: Mapping[str, Float[Tensor, "n 3 h w"]], title: str = "") -> None:
    """Write a PNG with one row of images, in 0 to 1, for each entry, whole or not at all."""
    count = min(SHOWN, *(len(images) for images in rows.values()))
    figure = Figure(figsize=(count * 0.9, len(rows) * 1.05 + 0.3), layout="constrained")
    grid = figure.subplots(len(rows), count, squeeze=False)
    for axes, (name, images) in zip(grid, rows.items(), strict=True):
        axes[0].set_ylabel(name)
        for ax, image in zip(axes, images, strict=False):
            ax.imshow(image.clamp(0, 1).permute(1, 2, 0).numpy(), interpolation="nearest")
            ax.set_xticks([])
            ax.set_yticks([])
    if title:
        figure.suptitle(title, fontsize="medium")
    out.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(out) as temporary:
        figure.savefig(temporary, format="png", dpi=100)


def write_transform_sheet(
    out: Path,
    images: Float[Tensor, "n 3 h w"],
    transformed: Float[Tensor, "n 3 h w"],
    mean: RGB,
    std: RGB,
) -> None:
    """Write original, query view and |difference| of 16 images.

    The transformed images are brought to the originals' mean and standard deviation first, which
    is what a batch norm makes of them; otherwise a SAIB shows little but twice the contrast.

    Args:
        out: the PNG to write.
        images: normalised images.
        transformed: what the query transform made of them.
        mean: of the channels, added for display.
        std: of the channels, multiplied for display.
    """
    images, transformed = images[:SHOWN].cpu().float(), transformed[:SHOWN].cpu().float()
    gain = (transformed.std() / images.std()).item()
    level = (transformed - transformed.mean()) / gain + images.mean()
    shown = {"original": images, "query view": level}
    rows = {name: display(x, mean, std) for name, x in shown.items()}
    rows["|difference|"] = AMPLIFIED * (rows["query view"] - rows["original"]).abs()
    title = (
        f"query transform: a gain of {gain:.2f} taken out, differences x {AMPLIFIED:.0f}; "
        f"mean |difference| {rows['|difference|'].mean().item() / AMPLIFIED:.3f} of the range"
    )
    write_sheet(out, rows, title)


def display(x: Float[Tensor, "n 3 h w"], mean: RGB, std: RGB) -> Float[Tensor, "n 3 h w"]:
    """Normalised images as they are shown, around 0 to 1."""
    x = x[:SHOWN].cpu().float()
    return x * torch.tensor(std)[:, None, None] + torch.tensor(mean)[:, None, None]
