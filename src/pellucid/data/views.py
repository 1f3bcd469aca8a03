"""Views of a batch of images, made on whatever device the images are on, each with its own draw.

A view is crop, flip, colour jitter, grey, blur, solarise, in this order, with torchvision's
distributions and arithmetic (bilinear, antialiased, in float: nothing is rounded to bytes in
between). Crop and blur are matrix products with one pair of matrices an image. Which images an
operation touches is known from the draws on the CPU, so that a GPU is never waited for.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn import functional as F

from pellucid.data.view_parameters import (
    OPERATIONS,
    ViewDraws,
    ViewSettings,
    draw_uniform,
    draw_views,
    draws_of,
    take_rows,
)
from pellucid.transfer import send

__all__ = [
    "ViewDraws",
    "ViewSettings",
    "draw_uniform",
    "draw_views",
    "draws_of",
    "finish_views",
    "make_views",
    "normalise",
    "plain_views",
    "take_rows",
]

CACHED = 8 * 2**20
"""Bytes of views that are worked on at a time on a CPU. At 224 pixels two cores make 1.7 times as
many views a second as of a whole batch; at 32 a batch is one block."""
LUMA = (0.2989, 0.587, 0.114)  # torchvision's; they sum to 0.9999


def make_views(
    images: UInt8[Tensor, "b 3 h w"], draws: ViewDraws, settings: ViewSettings
) -> Float[Tensor, "b 3 s s"]:
    """Make one view of each image, in 0 to 1, float32, where the images are.

    Args:
        images: Stored images of one size.
        draws: From `draw_views` for this size, one row an image.
        settings: Those that the draws were made with; s is `settings.size`.

    Raises:
        ValueError: there is not one draw an image, or a crop does not fit into the images.
    """
    count, _, height, width = images.shape
    _check_count(draws, count)
    if count and (
        (draws.top + draws.height).max() > height or (draws.left + draws.width).max() > width
    ):
        raise ValueError(f"draws for larger images than {height} x {width}: draw for this size")
    return _in_blocks(_crop_and_flip, images, draws, settings)


def finish_views(
    crops: UInt8[Tensor, "b 3 s s"], draws: ViewDraws, settings: ViewSettings
) -> Float[Tensor, "b 3 s s"]:
    """`make_views` of images that were cut and resized already, to `settings.size`.

    Raises:
        ValueError: there is not one draw an image.
    """
    _check_count(draws, len(crops))
    return _in_blocks(_flip, crops, draws, settings)


def _check_count(draws: ViewDraws, count: int) -> None:
    if len(draws.top) != count:
        raise ValueError(f"{len(draws.top)} draws for {count} images: there must be one an image")


def _in_blocks(
    begin: Callable[[Tensor, ViewDraws, int], Tensor],
    images: Tensor,
    draws: ViewDraws,
    settings: ViewSettings,
) -> Tensor:
    size, count = settings.size, len(images)
    views = torch.empty(count, 3, size, size, device=images.device)
    # Each operation goes over the whole block: on a CPU it must stay in the cache between them.
    each = max(1, CACHED // (12 * size**2)) if images.device.type == "cpu" else max(1, count)
    with torch.autocast(images.device.type, enabled=False):
        for first in range(0, count, each):
            rows = slice(first, first + each)
            own = take_rows(draws, rows)
            block = begin(images[rows], own, size)
            _jitter(block, own, settings)
            _grey(block, own)
            _blur(block, own, settings.blur_radius)
            _solarise(block, own)
            # A sum of weights may round to just above 1.
            torch.clamp(block, 0, 1, out=views[rows])
    return views


def plain_views(images: UInt8[Tensor, "b 3 h w"], size: int) -> Float[Tensor, "b 3 s s"]:
    """What evaluation sees: the shorter side resized to `size`, the centre cropped, in 0 to 1."""
    x = images.float() / 255
    height, width = x.shape[-2:]
    if (height, width) == (size, size):
        return x
    short = min(height, width)
    resized = (size * height // short, size * width // short)
    x = F.interpolate(x, resized, mode="bilinear", antialias=True)
    top, left = (round((length - size) / 2) for length in resized)
    return x[..., top : top + size, left : left + size].clamp(0, 1)


def normalise(
    x: Float[Tensor, "b 3 h w"],
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
) -> Float[Tensor, "b 3 h w"]:
    """Subtract the mean and divide by the standard deviation of each channel."""
    shift, scale = send(torch.tensor([mean, std], dtype=x.dtype), x.device)[..., None, None]
    return (x - shift) / scale


def _rows_where(coin: Tensor, device: torch.device) -> Tensor | None:
    """The images that an operation touches; None if there are none."""
    rows = coin.nonzero()[:, 0]
    return send(rows, device) if len(rows) else None


def _both_sides(left: Tensor, x: Tensor, right: Tensor) -> Tensor:
    """L x R' for each image and channel: [n s h], [n 3 h w], [n s w] -> [n 3 s s]."""
    n, c, h, w = x.shape
    size = left.shape[1]
    wide = torch.bmm(x.reshape(n, c * h, w), right.mT).view(n * c, h, size)
    # Copies of L, because a broadcast product is four times slower on the CPU.
    return torch.bmm(left.repeat_interleave(c, dim=0), wide).view(n, c, size, size)


def _crop_and_flip(images: Tensor, draws: ViewDraws, size: int) -> Tensor:
    height, width = images.shape[-2:]
    vertical = _interpolation(draws.top, draws.height, None, size, height, images.device)
    horizontal = _interpolation(draws.left, draws.width, draws.flip, size, width, images.device)
    return _both_sides(vertical.div_(255), images.float(), horizontal)


def _flip(crops: Tensor, draws: ViewDraws, size: int) -> Tensor:
    turned = send(draws.flip, crops.device)[:, None, None, None]
    chosen = torch.where(turned, crops.flip(3), crops)
    return chosen.to(torch.float32, memory_format=torch.contiguous_format).div_(255)


def _interpolation(
    first: Tensor, extent: Tensor, flip: Tensor | None, size: int, length: int, device: torch.device
) -> Tensor:
    """Weights [n, size, length] that resize pixels `first` to `first + extent` to `size` pixels.

    The triangle filter of an antialiased bilinear resize, as wide as a pixel of the output but at
    least one of the input; it sees the crop alone, and its weights sum to 1.
    """
    scale = extent.double() / size
    step = torch.arange(size) + 0.5
    centre = first[:, None] + scale[:, None] * step
    if flip is not None:
        centre = torch.where(flip[:, None], centre.flip(1), centre)
    box = torch.stack([first.float(), (first + extent).float(), scale.clamp(min=1).float()])
    begin, end, reach = send(box, device)[:, :, None, None]
    pixel = torch.arange(length, device=device) + 0.5
    distance = (pixel - send(centre.float(), device)[:, :, None]).abs_()
    weight = distance.div_(reach).neg_().add_(1).clamp_(min=0)
    weight *= ((pixel > begin) & (pixel < end)).float()
    return weight.div_(weight.sum(dim=2, keepdim=True))


def _jitter(views: Tensor, draws: ViewDraws, settings: ViewSettings) -> None:
    # Sorted by hue's place in the order, the images that take a step before or after it stand
    # side by side, and hue, the dearest operation, is one call.
    device, hue = views.device, OPERATIONS.index("hue")
    chosen = draws.jitter.nonzero()[:, 0]
    place, by_place = (draws.order[chosen] == hue).int().argmax(dim=1).sort()
    chosen = chosen[by_place]
    order, factors = draws.order[chosen], draws.factors[chosen]
    matrices, mixes = (send(values, device) for values in _colour_matrices(order, factors))
    rows = send(chosen, device)
    x = views.index_select(0, rows)
    before = torch.searchsorted(place, torch.arange(4)).tolist()  # images with an earlier place
    for step in range(3):
        late = slice(before[step + 1], None)
        _mix_colours(x[late], matrices[step, late], mixes[step, late])
    if settings.hue:
        x = _turn_hue(x, send(6 * factors[:, hue], device))
    for step in range(1, 4):
        early = slice(before[step])
        _mix_colours(x[early], matrices[step, early], mixes[step, early])
    views.index_copy_(0, rows, x)


def _mix_colours(x: Tensor, matrix: Tensor, mix: Tensor) -> None:
    """Brightness, contrast or saturation in place: x [n 3 h w], matrix [n 3 3], mix [n 3]."""
    n, c, h, w = x.shape
    pixels = x.view(n, c, h * w)
    offset = (pixels.mean(dim=2) * mix).sum(dim=1)[:, None, None]
    torch.clamp(torch.baddbmm(offset, matrix, pixels), 0, 1, out=pixels)


def _colour_matrices(order: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    """Brightness, contrast and saturation at each place of each image's order; nothing for hue.

    All three are f x + (1 - f) y with y = 0, the mean grey of the image, or the grey of the pixel:
    a matrix [4 n 3 3] on the colours of a pixel, and weights [4 n 3] of the image's mean colour.
    """
    _, contrast, saturation, hue = (order.T.eq(i) for i in range(len(OPERATIONS)))
    factor = factors.gather(1, order).T.masked_fill(hue, 1)
    luma = torch.tensor(LUMA)
    pixel = (1 - factor) * saturation
    image = (1 - factor) * contrast
    matrix = factor[..., None, None] * torch.eye(3) + pixel[..., None, None] * luma
    return matrix, image[..., None] * luma


def _turn_hue(x: Tensor, turn: Tensor) -> Tensor:
    """Turn the hue of hue-saturation-value, [n 3 h w], by `turn` [n] sixths of the circle."""
    red, green, blue = x.unbind(1)
    value, grey = x.amax(dim=1), x.amin(dim=1)
    chroma = value - grey
    # lerp with a weight of 0 or 1 chooses; `where` on the CPU is seven times slower.
    sixths = (red - green).add_(chroma, alpha=4)
    sixths = torch.lerp(sixths, (blue - red).add_(chroma, alpha=2), _equal(green, value))
    sixths = torch.lerp(sixths, green - blue, _equal(red, value))
    # Where there is no colour, the dividend is 0 too.
    hue = torch.addcdiv(turn[:, None, None], sixths, chroma.clamp(min=1e-12))
    hue.sub_(torch.floor(hue / 6), alpha=6)
    # Shares of red |h - 3| - 1, green 2 - |h - 2| and blue 2 - |h - 4|, cut to 0 to 1.
    ramps = torch.tensor([[3.0, 2.0, 4.0], [-1.0, 2.0, 2.0], [1.0, -1.0, -1.0]])
    middle, start, sign = send(ramps, x.device)[..., None, None]
    share = (hue[:, None] - middle).abs_().mul_(sign).add_(start).clamp_(0, 1)
    return torch.addcmul(grey[:, None], chroma[:, None], share)


def _equal(a: Tensor, b: Tensor) -> Tensor:
    """1.0 where two planes are equal, else 0.0."""
    return torch.eq(a, b, out=torch.empty_like(b))


def _grey(views: Tensor, draws: ViewDraws) -> None:
    rows = _rows_where(draws.grey, views.device)
    if rows is not None:
        red, green, blue = views.index_select(0, rows).unbind(1)
        grey = LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue
        views.index_copy_(0, rows, grey[:, None].expand(-1, 3, -1, -1))


def _blur(views: Tensor, draws: ViewDraws, radius: int) -> None:
    rows = _rows_where(draws.blur, views.device)
    if rows is None or radius == 0:
        return
    size, device = views.shape[-1], views.device
    tap = torch.arange(-radius, radius + 1)
    kernel = torch.softmax(-0.5 * (tap / draws.sigma[draws.blur, None]) ** 2, dim=1)
    # Where tap t of output pixel i falls: outside the view, it is reflected at the border pixel.
    seen = (torch.arange(size) + tap[:, None]).abs()
    seen = (size - 1) - ((size - 1) - seen).abs()
    column = torch.arange(size, device=device)
    fold = (send(seen, device)[..., None] == column).float()  # [taps, size, size]
    smooth = (send(kernel, device) @ fold.flatten(1)).view(-1, size, size)
    views.index_copy_(0, rows, _both_sides(smooth, views.index_select(0, rows), smooth))


def _solarise(views: Tensor, draws: ViewDraws) -> None:
    rows = _rows_where(draws.solarise, views.device)
    if rows is not None:
        x = views.index_select(0, rows)
        views.index_copy_(0, rows, torch.where(x >= 0.5, 1 - x, x))
