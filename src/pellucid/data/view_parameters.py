"""What is drawn for a view: the settings, and one row of random parameters an image."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

CROP_TRIES = 10
OPERATIONS = ("brightness", "contrast", "saturation", "hue")
"""The operations of a colour jitter; `ViewDraws.order` counts in this order."""


@dataclass(frozen=True)
class ViewSettings:
    """How views differ from their image; the defaults are the BayesNCL authors' for CIFAR.

    Probabilities and strengths mean what they mean in torchvision's `RandomResizedCrop`,
    `ColorJitter`, `RandomGrayscale`, `GaussianBlur` and `RandomSolarize`.

    Raises:
        ValueError: a setting is impossible; the message names it.
    """

    size: int = 32
    """Side of a view, in pixels."""
    crop: tuple[float, float] = (0.08, 1.0)
    """Share of the image's area that a crop covers, smallest and largest."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Width over height of a crop, smallest and largest; uniform in its logarithm."""
    flip: float = 0.5
    """Probability of a mirror image."""
    jitter: float = 0.8
    """Probability that brightness, contrast, saturation and hue change."""
    brightness: float = 0.8
    """Strength: the factor is uniform in [max(0, 1 - strength), 1 + strength]."""
    contrast: float = 0.8
    """Strength, as for brightness."""
    saturation: float = 0.8
    """Strength, as for brightness."""
    hue: float = 0.2
    """Largest shift of the hue, in turns of the colour circle; at most 0.5."""
    grey: float = 0.2
    """Probability of a view without colour."""
    blur: float = 0.5
    """Probability of a Gaussian blur."""
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    """Standard deviation of the blur, in pixels of the view, smallest and largest."""
    solarise: float = 0.0
    """Probability that values of 0.5 and above are inverted."""

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size = {self.size}: a view has at least 1 pixel a side")
        for name in ("flip", "jitter", "grey", "blur", "solarise"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} = {getattr(self, name)}: a probability is within 0 to 1")
        for name in ("brightness", "contrast", "saturation"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} = {getattr(self, name)}: a strength is 0 or more")
        if not 0 <= self.hue <= 0.5:
            raise ValueError(f"hue = {self.hue}: a shift is within 0 to 0.5 (half the circle)")
        for name, largest in (("crop", 1.0), ("ratio", math.inf), ("blur_sigma", math.inf)):
            if len(getattr(self, name)) != 2:
                raise ValueError(f"{name} = {getattr(self, name)}: must be (smallest, largest)")
            low, high = getattr(self, name)
            if not (0 < low <= high <= largest and high < math.inf):
                limit = " <= 1" if largest == 1.0 else ""
                raise ValueError(f"{name} = {low, high}: must be 0 < smallest <= largest{limit}")

    @property
    def blur_radius(self) -> int:
        """Reach of the blur's kernel: three of the largest standard deviations.

        SimCLR's rule of a tenth of the side would leave 3 pixels at 32, a box filter that hardly
        depends on sigma; the authors blur with Pillow, which does not cut the kernel at all.
        A reflected border is at most one pixel narrower than the view.
        """
        return min(math.ceil(3 * self.blur_sigma[1]), self.size - 1)


Uniform = Float[Tensor, "n 36"]
"""Independent numbers in [0, 1), fp64, on the CPU: one row an image."""

_COLUMNS = [CROP_TRIES, CROP_TRIES, 2, 4, 4, 5, 1]
"""Of the numbers of an image: areas and shapes of crops that are tried, the place of the crop, the
order of the jitter, its strengths, the coins, the blur."""


class Crops(NamedTuple):
    """What is cut out of images, in pixels: one row an image."""

    top: Int[Tensor, " n"]
    left: Int[Tensor, " n"]
    height: Int[Tensor, " n"]
    width: Int[Tensor, " n"]


class ViewDraws(NamedTuple):
    """Random parameters of views, on the CPU: one row an image."""

    top: Int[Tensor, " n"]
    """First row of the crop."""
    left: Int[Tensor, " n"]
    """First column of the crop."""
    height: Int[Tensor, " n"]
    """Rows of the crop."""
    width: Int[Tensor, " n"]
    """Columns of the crop."""
    flip: Bool[Tensor, " n"]
    """Whether left and right change places."""
    jitter: Bool[Tensor, " n"]
    """Whether the colours change."""
    order: Int[Tensor, "n 4"]
    """The operations of the jitter, first to last, as places in `OPERATIONS`."""
    factors: Float[Tensor, "n 4"]
    """Factors of brightness, contrast and saturation, and the shift of the hue in turns."""
    grey: Bool[Tensor, " n"]
    """Whether the view loses its colours."""
    blur: Bool[Tensor, " n"]
    """Whether the view is blurred."""
    sigma: Float[Tensor, " n"]
    """Standard deviation of the blur, in pixels."""
    solarise: Bool[Tensor, " n"]
    """Whether bright values are inverted."""


def draw_views(
    count: int, height: int, width: int, settings: ViewSettings, generator: torch.Generator
) -> ViewDraws:
    """Draw the parameters of one view for each image of a global batch.

    Row i depends on the generator's state and on i, not on `count`: a process draws the whole
    global batch and keeps its own rows with `take_rows`.

    Args:
        count: Images of the global batch, over all processes and micro-steps.
        height: Rows of a stored image.
        width: Columns of a stored image.
        settings: The distributions.
        generator: On the CPU, such as `seeded(seed, "views", step)`.

    Raises:
        ValueError: `count`, `height` or `width` is less than 1.
    """
    for name, value in (("count", count), ("height", height), ("width", width)):
        if value < 1:
            raise ValueError(f"{name} = {value}: must be 1 or more")
    return draws_of(draw_uniform(count, generator), height, width, settings)


def draw_uniform(count: int, generator: torch.Generator) -> Uniform:
    """What everything about `count` views follows from, whatever the sizes of their images."""
    # One call, an image a row, so that an image's draws do not depend on how many follow it.
    return torch.rand(count, sum(_COLUMNS), generator=generator, dtype=torch.float64)


def crops_of(uniform: Uniform, height: int, width: int, settings: ViewSettings) -> Crops:
    """The crops of images of one size."""
    area, shape, place = torch.split(uniform, _COLUMNS, dim=1)[:3]
    rows, columns = _crop_sizes(area, shape, height, width, settings)
    top, left = (
        (chance * (length - crop + 1)).long()
        for chance, length, crop in zip(
            place.unbind(1), (height, width), (rows, columns), strict=True
        )
    )
    fits = rows > 0
    fallback_rows, fallback_columns = _central_crop(height, width, settings.ratio)
    return Crops(
        top=torch.where(fits, top, (height - fallback_rows) // 2),
        left=torch.where(fits, left, (width - fallback_columns) // 2),
        height=torch.where(fits, rows, fallback_rows),
        width=torch.where(fits, columns, fallback_columns),
    )


def draws_of(uniform: Uniform, height: int, width: int, settings: ViewSettings) -> ViewDraws:
    """The parameters of views of images of one size."""
    order, strength, coins, sigma = torch.split(uniform, _COLUMNS, dim=1)[3:]
    probabilities = [
        settings.flip,
        settings.jitter,
        settings.grey,
        settings.blur,
        settings.solarise,
    ]
    coin = (coins < torch.tensor(probabilities, dtype=torch.float64)).unbind(1)
    strengths = [settings.brightness, settings.contrast, settings.saturation]
    low = torch.tensor([*(max(0.0, 1 - s) for s in strengths), -settings.hue])
    high = torch.tensor([*(1 + s for s in strengths), settings.hue])
    return ViewDraws(
        **crops_of(uniform, height, width, settings)._asdict(),
        flip=coin[0],
        jitter=coin[1],
        order=order.argsort(dim=1),
        factors=_between(strength, low, high).float(),
        grey=coin[2],
        blur=coin[3],
        sigma=_between(sigma[:, 0], *map(torch.tensor, settings.blur_sigma)).float(),
        solarise=coin[4],
    )


def take_rows(draws: ViewDraws, rows: slice) -> ViewDraws:
    """Keep the rows of one process or micro-step."""
    return ViewDraws(*(column[rows] for column in draws))


def _between(uniform: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return low + uniform * (high - low)


def _crop_sizes(
    area: Tensor, shape: Tensor, height: int, width: int, settings: ViewSettings
) -> tuple[Tensor, Tensor]:
    """Rows and columns of the first try that fits into the image; 0 and 0 where none does."""
    low, high = settings.crop
    pixels = height * width * (low + area * (high - low))
    narrow, wide = math.log(settings.ratio[0]), math.log(settings.ratio[1])
    ratio = torch.exp(narrow + shape * (wide - narrow))
    columns = (pixels * ratio).sqrt().round().long()
    rows = (pixels / ratio).sqrt().round().long()
    fits = (columns > 0) & (columns <= width) & (rows > 0) & (rows <= height)
    first = fits.int().argmax(dim=1, keepdim=True)  # the first of equal values
    any_fits = fits.any(dim=1)
    return rows.gather(1, first)[:, 0] * any_fits, columns.gather(1, first)[:, 0] * any_fits


def _central_crop(height: int, width: int, ratio: tuple[float, float]) -> tuple[int, int]:
    """Rows and columns of the largest crop whose shape is allowed."""
    if width / height < ratio[0]:
        return round(width / ratio[0]), width
    if width / height > ratio[1]:
        return height, round(height * ratio[1])
    return height, width
