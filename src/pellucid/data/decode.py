"""Encoded bytes to pixels: every awkward file either becomes RGB or is refused with a reason."""

import functools
import io
import warnings
from collections.abc import Callable

import numpy as np
from jaxtyping import UInt8
from PIL import Image, UnidentifiedImageError

MAX_PIXELS = 89_478_485
"""Pillow's own limit (a quarter of a gigabyte of RGB)."""

# What photographs are kept in, the common ones first, to save time. Pillow opens thirty more; of
# those some run programs, and some decode in Python, a second a million pixels.
_FORMATS = (
    *("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"),
    *("MPO", "JPEG2000", "PPM", "TGA", "HEIF"),  # HEIF where somebody has registered pillow-heif
)
_MOST_SCANNED = 2e9
"""Pixels times scans of a progressive JPEG: 20 times the usual ten scans of 10 million pixels.
Each scan goes over all pixels, and a small file may hold thousands."""
_JPEG2000_PIXELS = 20_000_000
"""Its decoder takes 24 bytes and 60 ns a pixel, even for a file that is little but a header."""
_START_OF_SCAN = b"\xff\xda"
_STRIP = 1 << 20
"""Pixels that are converted at a time: a conversion of all would hold several copies of all."""
_HEIF_ENDINGS = {".heic", ".heif"}
_HEIF_BRANDS = {b"heic", b"heix", b"hevc", b"heim", b"heis", b"hevm", b"mif1", b"msf1"}
_ORIENTATION = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ON_ITS_SIDE = {_UPRIGHT[orientation] for orientation in (5, 6, 7, 8)}


class UnreadableImageError(Exception):
    """An image that cannot be used, with its name and the reason in words."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)  # both, so that it can be pickled
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@functools.cache
def image_endings() -> frozenset[str]:
    """The file name endings, lower case with a dot, that are taken for images."""
    openable = _formats()
    known = {end for end, name in Image.registered_extensions().items() if name in openable}
    return frozenset(known | _HEIF_ENDINGS)  # HEIF is listed so that it is refused by name


def decode(
    data: bytes,
    name: str,
    *,
    max_pixels: int = MAX_PIXELS,
    smaller: Callable[[int, int], int] | None = None,
) -> Image.Image:
    """The first frame of an encoded image, upright, as an 8-bit RGB Pillow image.

    Transparent pixels are shown over white, as on a page. 16 bits are scaled to 8. For a JPEG,
    `smaller` is told the width and height, upright, and says how many times it may be; at
    a half, a quarter or an eighth of its size it is decoded faster.
    Pillow holds 4 bytes a pixel, and while an image is opened up to 18 (WebP; 24 in JPEG 2000, of
    which no more than 20 million pixels are allowed).

    Raises:
        UnreadableImageError: the bytes are no image, are cut off or damaged, hold more than
            `max_pixels` pixels (checked before any is allocated), or have pixels whose range is
            not stated (32-bit) or that Pillow cannot convert (Lab).
    """
    _refuse_impostors(data, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of odd metadata, which changes no pixel
        try:
            with Image.open(io.BytesIO(data), formats=_formats()) as image:
                width, height = image.size
                most = (
                    min(max_pixels, _JPEG2000_PIXELS) if image.format == "JPEG2000" else max_pixels
                )
                if width * height > most:
                    raise UnreadableImageError(
                        name, f"{width} x {height} pixels are more than the {most} allowed"
                    )
                if width * height == 0:
                    raise UnreadableImageError(name, f"{width} x {height} pixels: it is empty")
                scans = data.count(_START_OF_SCAN) if image.format in ("JPEG", "MPO") else 1
                if width * height * scans > max(_MOST_SCANNED, width * height):
                    raise UnreadableImageError(
                        name, f"{scans} scans of {width} x {height} pixels: save it anew"
                    )
                if smaller and image.format == "JPEG":
                    on_its_side = _turn(image) in _ON_ITS_SIDE
                    times = max(1, smaller(*((height, width) if on_its_side else (width, height))))
                    image.draft(image.mode, (width // times or 1, height // times or 1))
                image.load()
                turn = _turn(image)  # again: other formats may have it behind their pixels
                return _to_rgb(image if turn is None else image.transpose(turn), name)
        except UnreadableImageError:
            raise
        except Image.DecompressionBombError:  # Pillow's own limit, which it checks at opening
            raise UnreadableImageError(
                name, "more pixels than Pillow allows: scale it down"
            ) from None
        except UnidentifiedImageError:
            reason = "no image of a format that is read here, or a damaged header"
            if data[4:8] == b"ftyp" and data[8:12] in _HEIF_BRANDS:
                reason = "HEIC/HEIF, which Pillow reads only with pillow-heif: convert it to JPEG"
            raise UnreadableImageError(name, reason) from None
        except Exception as error:  # a damaged file raises anything, from IndexError to zlib.error
            raise UnreadableImageError(name, str(error) or type(error).__name__) from error


def decode_square(data: bytes, name: str, size: int | None) -> UInt8[np.ndarray, "H W 3"]:
    """`to_square` of an encoded image, whose shorter side is decoded at twice `size` or more."""
    smaller = None if size is None else lambda width, height: min(width, height) // (2 * size)
    return to_square(decode(data, name, smaller=smaller), size)


def to_array(image: Image.Image) -> UInt8[np.ndarray, "H W 3"]:
    """Pixels in memory of their own; in strips, as Pillow would make two more copies of all."""
    array = np.empty((image.height, image.width, 3), dtype=np.uint8)
    rows = max(1, _STRIP // image.width)
    for top in range(0, image.height, rows):
        bottom = min(top + rows, image.height)
        array[top:bottom] = np.asarray(image.crop((0, top, image.width, bottom)))
    return array


def to_square(image: Image.Image, size: int | None) -> UInt8[np.ndarray, "H W 3"]:
    """Pixels with the shorter side scaled to `size` and the centre cut out; as they are for None.

    Bicubic with anti-aliasing; cropping and scaling are one step.
    """
    if size is None:
        return np.asarray(image)
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    box = (left, top, left + side, top + side)
    return np.asarray(image.resize((size, size), Image.Resampling.BICUBIC, box=box))


@functools.cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _refuse_impostors(data: bytes, name: str) -> None:
    """Name what often stands in an image's place."""
    start = data[:256].lstrip().lower()
    if not data:
        raise UnreadableImageError(name, "empty: 0 bytes")
    if start.startswith(b"version https://git-lfs"):
        raise UnreadableImageError(name, "a Git LFS pointer, not the image: run `git lfs pull`")
    if start.startswith((b"<!doctype html", b"<html")):
        raise UnreadableImageError(name, "an HTML page saved under an image's name: fetch it again")


def _turn(image: Image.Image) -> Image.Transpose | None:
    """What makes the image upright, as its EXIF says; damaged EXIF turns nothing."""
    try:
        orientation = image.getexif().get(_ORIENTATION)
    except Exception:  # the pixels are whole, and parsing damaged EXIF raises anything
        return None
    return _UPRIGHT.get(orientation) if isinstance(orientation, int) else None


def _to_rgb(image: Image.Image, name: str) -> Image.Image:
    if image.mode == "RGB" and not image.has_transparency_data:
        return image
    if image.mode == "F":
        raise UnreadableImageError(
            name, "32-bit float pixels, whose range is not stated: convert it"
        )
    if image.mode == "LAB":
        raise UnreadableImageError(
            name, "CIE Lab pixels, which Pillow cannot convert: save it as RGB"
        )
    if image.mode == "I" or image.mode.startswith("I;"):
        return _in_strips(image, lambda strip: _from_16_bits(strip, name))
    if image.has_transparency_data:
        return _in_strips(image, _over_white)
    return image.convert("RGB")


def _in_strips(image: Image.Image, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """The image converted a few rows at a time."""
    width, height = image.size
    rows = max(1, _STRIP // width)
    converted = Image.new("RGB", image.size)
    for top in range(0, height, rows):
        strip = image.crop((0, top, width, min(top + rows, height)))
        strip.info = image.info  # a colour of a palette may stand for transparency
        converted.paste(convert(strip), (0, top))
    return converted


def _from_16_bits(image: Image.Image, name: str) -> Image.Image:
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise UnreadableImageError(name, "32-bit integer pixels beyond 16 bits: convert it")
    # Rounded, so that 65535 is white and 257 a step. Pillow's convert would clip at 255.
    return Image.fromarray(((values + 128) // 257).astype(np.uint8)).convert("RGB")


def _over_white(image: Image.Image) -> Image.Image:
    shown = image.convert("RGBA")
    white = Image.new("RGBA", shown.size, "white")
    return Image.alpha_composite(white, shown).convert("RGB")
