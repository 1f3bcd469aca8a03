"""The built-in set: handwritten digits on crops of two photographs, with both truths known.

Every image shows one of ten objects on one of a few backgrounds, which are shared by all objects
and are unequally frequent: the case that gates of shared background dimensions are made for. The
1,797 digits and the photographs come with scikit-learn, so nothing is fetched.
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn import functional as F

from pellucid.randomness import seeded

BACKGROUNDS: tuple[str, ...] = ("sky", "leaves", "trees", "temple", "petals")
"""What the background labels index."""
BACKGROUND_FREQUENCIES: tuple[float, ...] = (0.45, 0.25, 0.15, 0.10, 0.05)
"""The probability of each background, the same for every object."""

REGIONS = (
    (0, 0, 340, 190, 640),
    (1, 0, 440, 400, 640),
    (0, 350, 330, 427, 540),
    (0, 110, 110, 340, 320),
    (1, 110, 195, 330, 420),
)
"""Photograph, top, left, bottom and right of each background, in pixels of 427 x 640."""
CROP_SIDE = (36.0, 72.0)
"""Side of the background's crop in pixels of the photograph, smallest and largest."""
DIGIT_SIDE = (0.75, 0.94)
"""Side of the 8 x 8 original as a share of the image, smallest and largest."""
CONTRAST = (0.35, 0.6)
"""Difference of the digit's luminance from what it covers, smallest and largest (1 is white)."""
STROKE = (0.25, 0.65)
"""Ink at which a stroke begins and at which it is solid (1 is the darkest of an original)."""
TEST_EVERY = 5
"""In each class, every fifth original in scikit-learn's order is for test images only."""
LUMA = (0.299, 0.587, 0.114)


class Scenes(NamedTuple):
    """Images with what they show."""

    pixels: UInt8[Tensor, "n 3 s s"]
    objects: Int[Tensor, " n"]
    """The digit, 0 to 9."""
    backgrounds: Int[Tensor, " n"]
    """The background, an index into `BACKGROUNDS`."""
    originals: Int[Tensor, " n"]
    """The handwritten digit, an index into `sklearn.datasets.load_digits()`."""


def make_scenes(
    split: Literal["train", "test"], count: int, *, size: int = 32, seed: int = 0
) -> Scenes:
    """Compose `count` images of `size` x `size` pixels; the same arguments give the same images.

    Objects and backgrounds are drawn independently. The originals of test images are in no
    training image (about 360 of 1,797, a fifth of each class); both splits crop the same regions
    of the photographs, for a background is meant to be shared.

    Raises:
        ValueError: the split is unknown, or there is nothing to make.
    """
    if split not in ("train", "test"):
        raise ValueError(f"split = {split!r}: scenes have 'train' and 'test'")
    for name, value, least in (("count", count, 1), ("size", size, 8)):
        if value < least:
            raise ValueError(f"{name} = {value}: must be {least} or more")
    generator = seeded(seed, "scenes", split)
    images, digits, held_out = _originals()
    pool = (held_out if split == "test" else ~held_out).nonzero()[:, 0]
    originals = pool[torch.randint(len(pool), (count,), generator=generator)]
    frequencies = torch.tensor(BACKGROUND_FREQUENCIES)
    backgrounds = torch.multinomial(frequencies, count, replacement=True, generator=generator)
    scenes = _crops(backgrounds, size, generator)
    strokes = _strokes(images[originals], size, generator)
    colours = _colours(scenes, strokes, generator)
    scenes += strokes * (colours[:, :, None, None] - scenes)
    pixels = (255 * scenes).round_().to(torch.uint8)
    return Scenes(pixels, digits[originals], backgrounds, originals)


def _originals() -> tuple[Float[Tensor, "m 8 8"], Int[Tensor, " m"], Tensor]:
    """The ink in 0 to 1, the digits, and which originals are held out for test images."""
    from sklearn.datasets import load_digits  # here, because it takes a second

    data = load_digits()
    digits = torch.from_numpy(data.target).long()
    shows = F.one_hot(digits)
    place = (shows.cumsum(0) * shows).sum(1)  # 1 for the first of its class
    return torch.from_numpy(data.images).float() / 16, digits, place % TEST_EVERY == 0


def _uniform(low: float, high: float, count: int, generator: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(count, generator=generator)


def _crops(backgrounds: Tensor, size: int, generator: torch.Generator) -> Float[Tensor, "n 3 s s"]:
    """A square of random place and side from the region of each background."""
    count = len(backgrounds)
    sides = _uniform(*CROP_SIDE, count, generator)
    places = torch.rand(2, count, generator=generator)
    steps = (torch.arange(size) + 0.5) / size
    scenes = torch.empty(count, 3, size, size)
    from sklearn.datasets import load_sample_images  # here, because it takes a second

    photographs = load_sample_images().images
    for background, (number, top, left, bottom, right) in enumerate(REGIONS):
        rows = (backgrounds == background).nonzero()[:, 0]
        region = torch.from_numpy(photographs[number][top:bottom, left:right].copy())
        extent = torch.tensor([bottom - top, right - left])[:, None]
        begin = places[:, rows] * (extent - sides[rows])
        seen = begin[:, :, None] + sides[rows, None] * steps  # [2, n, s]
        y, x = seen / extent[:, :, None] * 2 - 1
        # One image as high as all crops together: the region need not be copied for each crop.
        grid = torch.stack(
            [x[:, None].expand(-1, size, -1), y[:, :, None].expand(-1, -1, size)], -1
        )
        crops = F.grid_sample(
            region.permute(2, 0, 1)[None].float() / 255,
            grid.reshape(1, -1, size, 2),
            padding_mode="border",
            align_corners=False,
        )
        scenes[rows] = crops.view(3, -1, size, size).transpose(0, 1)
    return scenes


def _strokes(originals: Tensor, size: int, generator: torch.Generator) -> Float[Tensor, "n 1 s s"]:
    """How opaque the digit is at each pixel, 0 to 1: enlarged smoothly, at a random place."""
    count = len(originals)
    side = _uniform(*DIGIT_SIDE, count, generator)
    centre = (1 - side) * (2 * torch.rand(2, count, generator=generator) - 1)
    # An empty rim, so that the interpolation falls off to no ink outside the original.
    ink = F.pad(originals[:, None], (1, 1, 1, 1))
    zoom = 0.8 / side  # 8 of the 10 pixels fill the side
    zero = torch.zeros_like(zoom)
    x, y = -zoom * centre
    maps = torch.stack([zoom, zero, x, zero, zoom, y], 1).view(-1, 2, 3)
    grid = F.affine_grid(maps, [count, 1, size, size], align_corners=False)
    ink = F.grid_sample(ink, grid, mode="bicubic", align_corners=False)
    begin, solid = STROKE
    return ink.sub_(begin).div_(solid - begin).clamp_(0, 1)


def _colours(scenes: Tensor, strokes: Tensor, generator: torch.Generator) -> Float[Tensor, "n 3"]:
    """A random hue for each digit, darker than a bright background and brighter than a dark one."""
    count = len(scenes)
    luma = torch.tensor(LUMA)
    cover = strokes / strokes.sum((2, 3), keepdim=True)
    covered = (scenes * cover).sum((2, 3)) @ luma
    step = _uniform(*CONTRAST, count, generator)
    luminance = (covered + torch.where(covered > 0.5, -step, step))[:, None].clamp(0.02, 0.98)
    turn = torch.rand(count, 1, generator=generator)
    pure = (((6 * turn + torch.tensor([0.0, 4.0, 2.0])) % 6 - 3).abs() - 1).clamp(0, 1)
    brightness = (pure @ luma)[:, None]
    # The pure hue is mixed with black or with white until it has the luminance.
    hue = torch.where(
        luminance < brightness,
        pure * luminance / brightness,
        1 - (1 - pure) * (1 - luminance) / (1 - brightness),
    )
    vivid = _uniform(0.6, 1.0, count, generator)[:, None]
    return vivid * hue + (1 - vivid) * luminance
