"""An image of a source as pixels: a square to keep, or the crops of both views."""

import hashlib
import math

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from pellucid.data.decode import UnreadableImageError, decode, decode_square
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
) -> UInt8[np.ndarray, "n s s 3"]:
    """Crops of the whole picture, each resized to `settings.size` as by torchvision: one a row.

    A JPEG is decoded at a half, a quarter or an eighth of its size where all of its crops stay as
    large as what they become.

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

    image = decode(bytes_of(source, index), source.names[index], times=choose)
    if not crops:  # no JPEG, so not asked
        choose(*image.size)
    if shape is not None:
        check_shape(source.names[index], whole[0][::-1], shape)
    scale = image.width / whole[0][0], image.height / whole[0][1]
    boxes = zip(*(column.tolist() for column in crops[0]), strict=True)
    cut = [
        _cut(image, (left, top, left + width, top + height), scale, size)
        for top, left, height, width in boxes
    ]
    return np.stack(cut)


def _cut(
    image: Image.Image, box: tuple[int, int, int, int], scale: tuple[float, float], size: int
) -> UInt8[np.ndarray, "s s 3"]:
    left, right = (scale[0] * x for x in box[::2])
    top, bottom = (scale[1] * y for y in box[1::2])
    # Cut out before it is resized: else the filter would see beyond the crop.
    x, y = math.floor(left), math.floor(top)
    part = image.crop(
        (x, y, min(math.ceil(right), image.width), min(math.ceil(bottom), image.height))
    )
    inside = (left - x, top - y, min(right - x, part.width), min(bottom - y, part.height))
    return np.asarray(part.resize((size, size), Image.Resampling.BILINEAR, box=inside))


def _reason(error: Exception) -> str:
    """Without the path that the system adds: reasons are kept with a run, which people share."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return " ".join(reason.split())  # pyarrow's go over several lines
