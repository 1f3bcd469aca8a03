"""Thumbnails as WebP, each by itself, in the largest size that fits."""

import io
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

SIDES = (96, 64, 48, 32)
"""Longer sides that are tried, in pixels, the largest first."""
QUALITY = 60
PROBED = 200
"""Images that an estimate is made from."""


class Thumbnails(NamedTuple):
    """Encoded images, one behind the other."""

    data: bytes
    lengths: list[int]
    """Bytes of each."""
    side: int
    """The longer side, in pixels."""


def encode(pixels: UInt8[Tensor, "n 3 t w"], images: Tensor, side: int) -> Thumbnails:
    """The images with these indices, no larger than `side`; re-encoded, so without metadata."""
    each = [_webp(pixels[i], side) for i in images.tolist()]
    longer = min(side, max(pixels.shape[-2:]))
    return Thumbnails(b"".join(each), [len(one) for one in each], longer)


def sides(pixels: UInt8[Tensor, "n 3 t w"]) -> Sequence[int]:
    """The sizes to try, the largest first: the images' own, which are never enlarged, and less."""
    own = min(max(pixels.shape[-2:]), SIDES[0])
    return [own, *(side for side in SIDES if side < own)]


def bytes_each(pixels: UInt8[Tensor, "n 3 t w"], side: int) -> float:
    """An estimate of the mean bytes of an image, from a fixed choice of them."""
    step = max(1, len(pixels) // PROBED)
    chosen = torch.arange(0, len(pixels), step)
    return len(encode(pixels, chosen, side).data) / len(chosen)


def _webp(pixels: Tensor, side: int) -> bytes:
    image = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, "WEBP", quality=QUALITY, method=4)
    return file.getvalue()
