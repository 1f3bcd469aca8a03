"""An image of a source as pixels: a square to keep, or the crops of both views."""

import hashlib

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor
from torch.nn.functional import interpolate

from pellucid.data.decode import UnreadableImageError, decode, decode_square, to_array
from pellucid.data.source import DataError, Source
from pellucid.data.view_parameters import Crops, Uniform, ViewSettings, crops_of


def content_hash(pixels: np.ndarray) -> str:
    """The first 64 bits of BLAKE2b of an image's pixels [3, H, W], as hexadecimal digits."""
    return hashlib.blake2b(pixels.tobytes(), digest_size=8).hexdigest()


def bytes_of(source: Source, index: int) -> bytes:
    """An image as it is encoded.

    Raises:
        UnreadableImageError: it cannot be read.
    """
    try:
        return source.read(index)
    except (OSError, ValueError) as error:  # pyarrow's errors are among them
        reason = f"cannot be read: {_reason(error)}"
        raise UnreadableImageError(source.names[index], reason) from error


def pixels_of(source: Source, index: int, size: int | None) -> UInt8[np.ndarray, "3 H W"]:
    """An image, decoded: its shorter side scaled to `size` and the centre cut out.

    Raises:
        UnreadableImageError: it cannot be read or decoded.
    """
    data, name = bytes_of(source, index), source.names[index]
    return np.ascontiguousarray(decode_square(data, name, size).transpose(2, 0, 1))


def try_pixels(source: Source, index: int, size: int | None) -> np.ndarray | UnreadableImageError:
    """`pixels_of`, with the failure as a value."""
    try:
        return pixels_of(source, index, size)
    except UnreadableImageError as failure:
        return failure


def check_shape(name: str, found: tuple[int, int], shape: tuple[int, int]) -> None:
    """Refuse an image of another height and width than the others, which are kept as they are.

    Raises:
        DataError: it is one.
    """
    if found != shape:
        raise DataError(
            f"{name} is {found[0]} x {found[1]} pixels and others {shape[0]} x {shape[1]}: "
            "give stored_size"
        )


def crops_of_image(
    source: Source,
    index: int,
    uniform: Uniform,
    settings: ViewSettings,
    shape: tuple[int, int] | None = None,
) -> UInt8[Tensor, "n s s 3"]:
    """Crops of the whole picture, each resized to `settings.size` as by torchvision: one a row.

    A JPEG is decoded at a half, a quarter or an eighth of its size where all of its crops stay as
    large as what they become; they then begin and end at whole pixels of that.

    Args:
        source: Of the image.
        index: In the source.
        uniform: What the crops are drawn from.
        settings: Of the views.
        shape: The height and width that the picture must have; None for any.

    Raises:
        UnreadableImageError: it cannot be read or decoded.
        DataError: it has another shape.
    """
    size = settings.size
    crops: list[Crops] = []
    whole: list[tuple[int, int]] = []

    def choose(width: int, height: int) -> int:
        whole.append((width, height))
        crops.append(crops_of(uniform, height, width, settings))
        return min(int(crops[0].height.min()), int(crops[0].width.min())) // size

    image = decode(bytes_of(source, index), source.names[index], smaller=choose)
    if not crops:  # no JPEG, so not asked
        choose(*image.size)
    if shape is not None:
        check_shape(source.names[index], whole[0][::-1], shape)
    across, down = image.width / whole[0][0], image.height / whole[0][1]
    pixels = torch.from_numpy(to_array(image))[None].permute(0, 3, 1, 2)
    cut = []
    for top, left, height, width in zip(*(c.tolist() for c in crops[0]), strict=True):
        rows, columns = _scaled(top, height, down), _scaled(left, width, across)
        # Pillow's arithmetic in a fifth of its time: bytes throughout, and channels last as they
        # are, which takes a stride for the batch of one.
        part = pixels[..., rows, columns]
        cut.append(interpolate(part, (size, size), mode="bilinear", antialias=True))
    return torch.cat(cut).permute(0, 2, 3, 1)


def _scaled(first: int, length: int, scale: float) -> slice:
    begin = round(scale * first)
    return slice(begin, max(begin + 1, round(scale * (first + length))))


def _reason(error: Exception) -> str:
    """Without the path that the system adds: reasons are kept with a run, which people share."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return " ".join(reason.split())  # pyarrow's go over several lines
