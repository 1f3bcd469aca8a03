"""Representations of photographs that exist only for `page.py`: the shapes of real ones."""

from pathlib import Path

import torch
from sklearn.datasets import load_sample_images
from torch import Tensor
from torch.nn import functional as F

from pellucid.evaluate.store import read_thumbnails
from pellucid.randomness import seeded
from pellucid.representation.representation import Representation
from pellucid.run import open_run

CLASSES = 100
FEATURES = 512


def made(
    images: int, dimensions: int, active: float, side: int, run: Path | None
) -> Representation:
    """Non-negative codes that lean on a class, with labels, names, encoder features and pictures.

    Args:
        images: how many.
        dimensions: of z.
        active: share of its entries that are not 0.
        side: of a stored picture, in pixels.
        run: an evaluated run whose thumbnails are taken in place of patches.
    """
    draw = seeded(0, "page", images, dimensions)
    labels = torch.randint(CLASSES, (images,), generator=draw)
    own = torch.randn(CLASSES, dimensions, generator=draw)
    often = torch.randn(dimensions, generator=draw)  # some dimensions are rare, others are not
    z = torch.randn(images, dimensions, generator=draw) + own[labels] + often
    few = torch.randint(z.numel(), (1_000_000,), generator=draw)  # quantile() takes no more
    z = (z - z.flatten()[few].quantile(1 - active)).relu()
    h = (
        torch.randn(images, FEATURES, generator=draw)
        + 2 * torch.randn(CLASSES, FEATURES, generator=draw)[labels].contiguous()
    )
    pixels = patches(images, side) if run is None else of_run(run, images)
    return Representation(
        label=f"made-{images}-{dimensions}",
        origin=Path("made.npy"),
        z=z,
        names=[f"class-{int(c):03d}/image-{i:06d}.JPEG" for i, c in enumerate(labels)],
        labels=labels,
        classes=tuple(f"class {c}" for c in range(CLASSES)),
        h=h,
        thumbnails=lambda: pixels,
    )


def patches(images: int, side: int) -> Tensor:
    """Squares of two photographs, of all sizes and brightnesses, with a camera's noise."""
    draw = seeded(0, "patches", images)
    photos = [torch.tensor(one).permute(2, 0, 1).float() for one in load_sample_images().images]
    found = torch.empty(images, 3, side, side, dtype=torch.uint8)
    for i in range(images):
        photo = photos[i % len(photos)]
        height, width = photo.shape[1:]
        share, down, right, light, flip = torch.rand(5, generator=draw).tolist()
        size = int(side + share * (height - side))
        top, left = int(down * (height - size)), int(right * (width - size))
        patch = photo[None, :, top : top + size, left : left + size]
        patch = F.interpolate(patch, (side, side), mode="bilinear", antialias=True)[0]
        patch = patch * (0.6 + 0.6 * light) + 4 * torch.randn(3, side, side, generator=draw)
        found[i] = (patch.flip(2) if flip < 0.5 else patch).round().clamp(0, 255).to(torch.uint8)
    return found


def of_run(folder: Path, images: int) -> Tensor:
    """Thumbnails of a run, each as often as it takes."""
    pixels = read_thumbnails(open_run(folder))
    order = torch.randperm(images, generator=seeded(0, "thumbnails", images))
    return pixels[order % len(pixels)]
