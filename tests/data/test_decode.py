import contextlib
import io
import os
import pickle
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile, Jpeg2KImagePlugin

from pellucid.data.decode import UnreadableImageError, decode, image_endings, to_square


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def photo(width: int = 24, height: int = 16) -> Image.Image:
    """Smooth colours with a bright top left corner, so that a turn or a mirror shows."""
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.stack([255 - 8 * x, 255 - 12 * y, 60 + 0 * x], axis=-1)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def refusal(data: bytes, name: str = "folder/a.jpg", **options: int) -> str:
    with pytest.raises(UnreadableImageError) as caught:
        decode(data, name, **options)
    assert str(caught.value).startswith(name)
    return caught.value.reason


def test_lossless_rgb_comes_back_exactly() -> None:
    image = decode(encoded(photo(), "PNG"), "a.png")
    assert image.mode == "RGB"
    assert np.array_equal(to_square(image, None), np.asarray(photo()))


# What each orientation does to the stored pixels, written with NumPy.
TURNS = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: np.rot90(a, 2).transpose(1, 0, 2),
    8: lambda a: np.rot90(a),
}


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", TURNS)
def test_exif_turns_the_image_once(orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encoded(photo(), kind, exif=exif, **options)
    assert np.array_equal(decode(data, "a"), TURNS[orientation](np.asarray(photo())))


def test_damaged_exif_does_not_stop_the_decode() -> None:
    data = encoded(photo(), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff" + b"\x01\x12\0\x09" * 9)
    assert decode(data, "a.jpg").size == (24, 16)


def test_sixteen_bits_are_scaled_and_not_clipped() -> None:
    values = np.arange(0, 65536, 257, dtype=np.uint16).reshape(16, 16)
    for kind in ("PNG", "TIFF"):
        grey = np.asarray(decode(encoded(Image.fromarray(values), kind), "a"))
        assert np.array_equal(grey[..., 0].ravel(), np.arange(256))
        assert (grey == grey[..., :1]).all()


def test_sixteen_bit_rgb_png_keeps_its_high_bytes() -> None:
    pixels = np.full((4, 4, 3), (0x1234, 0x8000, 0xFFFF), dtype=">u2")
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", 4, 4, 16, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    assert np.asarray(decode(data, "a.png"))[0, 0].tolist() == [0x12, 0x80, 0xFF]


def test_cmyk_is_not_inverted() -> None:
    red = Image.new("CMYK", (16, 16), (0, 255, 255, 0))
    for kind in ("JPEG", "TIFF"):
        pixel = np.asarray(decode(encoded(red, kind), "a"))[8, 8]
        assert np.abs(pixel.astype(int) - [255, 0, 0]).max() <= 3


@pytest.mark.parametrize("mode", ["1", "L"])
def test_grey_images_have_three_equal_channels(mode: str) -> None:
    white = np.asarray(
        decode(encoded(Image.new(mode, (5, 5), 255 if mode == "L" else 1), "PNG"), "a")
    )
    assert white.shape == (5, 5, 3)
    assert (white == 255).all()


def test_transparency_is_shown_over_white() -> None:
    half_red = Image.new("RGBA", (2, 2), (255, 0, 0, 128))
    pixel = np.asarray(decode(encoded(half_red, "PNG"), "a"))[0, 0].astype(int)
    assert np.abs(pixel - [255, 127, 127]).max() <= 1

    palette = Image.new("P", (2, 2), 1)
    palette.putpalette([0, 0, 0, 255, 0, 0])
    assert np.asarray(decode(encoded(palette, "PNG"), "a"))[0, 0].tolist() == [255, 0, 0]
    hidden = encoded(palette, "PNG", transparency=1)
    assert np.asarray(decode(hidden, "a"))[0, 0].tolist() == [255, 255, 255]
    as_bytes = encoded(palette, "PNG", transparency=bytes([255, 0]))  # Pillow warns of this one
    assert np.asarray(decode(as_bytes, "a"))[0, 0].tolist() == [255, 255, 255]
    grey = encoded(Image.new("LA", (2, 2), (0, 0)), "PNG")
    assert np.asarray(decode(grey, "a"))[0, 0].tolist() == [255, 255, 255]
    keyed = encoded(Image.new("RGB", (2, 2), (1, 2, 3)), "PNG", transparency=(1, 2, 3))
    assert np.asarray(decode(keyed, "a"))[0, 0].tolist() == [255, 255, 255]


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_an_animation_gives_its_first_frame(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("white", "black")]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    assert (np.asarray(decode(data, "a")) == 255).all()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_cut_off_file_is_refused(kind: str, share: float) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    data = encoded(Image.fromarray(noise), kind)
    assert refusal(data[: int(share * len(data))])


def test_what_stands_in_an_images_place_is_named() -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    assert "Git LFS pointer" in refusal(pointer)
    assert "HTML page" in refusal(b"\n<!DOCTYPE html><html>404</html>")
    assert "0 bytes" in refusal(b"")
    assert "HEIC" in refusal(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 50)
    assert "no image of a format" in refusal(b"words, words")


def test_pixels_without_a_range_are_refused() -> None:
    assert "float" in refusal(encoded(Image.new("F", (4, 4), 0.5), "TIFF"))
    assert "32-bit integer" in refusal(encoded(Image.new("I", (4, 4), 70000), "TIFF"))
    assert "Lab" in refusal(encoded(Image.new("LAB", (4, 4)), "TIFF"))


def test_the_limit_is_checked_before_pixels_are_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[object] = []
    monkeypatch.setattr(Image.Image, "load", lambda image: loads.append(image))
    assert "24 x 16" in refusal(header_of_a_png(), max_pixels=383)
    assert not loads


def header_of_a_png() -> bytes:
    """A PNG header of 24 x 16 pixels: enough to be opened, not to be loaded."""
    body = b"IHDR" + struct.pack(">IIBBBBB", 24, 16, 8, 2, 0, 0, 0)
    start = (
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body))
    )
    return start + struct.pack(">I", 4) + b"IDAT" + b"\0" * 8


def test_as_many_pixels_as_allowed_are_decoded() -> None:
    assert decode(encoded(photo(), "PNG"), "a", max_pixels=384).size == (24, 16)


def test_a_bomb_of_a_few_bytes_is_refused() -> None:
    bomb = (
        b"GIF89a"
        + struct.pack("<HH", 65535, 65535)
        + b"\0\0\0,"
        + struct.pack("<HHHH", 0, 0, 65535, 65535)
        + b"\0\x02\x02D\x01\0;"
    )
    assert "pixels" in refusal(bomb)


def test_warnings_of_pillow_do_not_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 300)  # 24 x 16 now warns, and is no error
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        decode(encoded(photo(), "PNG"), "a.png")
    assert not caught


def test_a_jpeg_may_come_smaller_but_never_below_twice_the_side() -> None:
    data = encoded(photo().resize((1600, 1200)), "JPEG", quality=95)
    assert decode(data, "a").size == (1600, 1200)
    drafted = decode(data, "a", smaller=lambda w, h: min(w, h) // 200)
    assert drafted.size == (400, 300)
    assert decode(data, "a", smaller=lambda w, h: min(w, h) // 602).size == (1600, 1200)
    full = to_square(decode(data, "a"), 100).astype(int)
    assert np.abs(to_square(drafted, 100) - full).mean() < 2


@pytest.mark.parametrize("shape", [(40, 24), (24, 40), (24, 24), (6, 10)])
def test_to_square_scales_the_shorter_side_and_cuts_out_the_centre(shape: tuple[int, int]) -> None:
    image = photo(*shape)
    # The same in two steps, in whole pixels: scale everything, then crop.
    width, height = (12 * side // min(shape) for side in shape)
    scaled = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - 12) // 2, (height - 12) // 2
    expected = np.asarray(scaled.crop((left, top, left + 12, top + 12)))
    assert np.array_equal(to_square(image, 12), expected)


@pytest.mark.parametrize("shape", [(1, 50), (50, 1), (2, 2), (7, 1000)])
def test_to_square_takes_any_shape(shape: tuple[int, int]) -> None:
    assert to_square(photo(*shape), 12).shape == (12, 12, 3)


def test_a_refusal_can_be_sent_between_processes() -> None:
    sent = pickle.loads(pickle.dumps(UnreadableImageError("a.jpg", "cut off")))
    assert (sent.name, sent.reason) == ("a.jpg", "cut off")


def test_endings_are_those_of_image_formats() -> None:
    assert {".jpg", ".jpeg", ".png", ".webp", ".tif", ".bmp", ".gif", ".heic"} <= image_endings()
    assert not {".txt", ".pdf", ".eps", ".mpg", ".h5", ".db", ""} & image_endings()


@pytest.mark.skipif("PELLUCID_TEST_DATA" not in os.environ, reason="set PELLUCID_TEST_DATA")
def test_awkward_files_do_what_their_index_says() -> None:
    folder = Path(os.environ["PELLUCID_TEST_DATA"]) / "awkward"
    rows = [line.split("\t") for line in (folder / "index.tsv").read_text().splitlines()[1:]]
    assert len(rows) == len(list(folder.iterdir())) - 1
    for name, _, _, expected in rows:
        data = (folder / name).read_bytes()
        if expected.strip('"').startswith("refused"):
            reason = refusal(data, name)
            assert "LFS" not in name.upper() or "Git LFS pointer" in reason
        elif "or refused" not in expected:
            image = decode(data, name)
            assert f"{image.width}x{image.height}" in expected
            assert to_square(image, 32).shape == (32, 32, 3)
        else:
            with contextlib.suppress(UnreadableImageError):
                decode(data, name)


def test_strips_come_out_as_the_whole_would() -> None:
    """Large images are converted a few rows at a time."""
    generator = np.random.default_rng(0)
    colours = generator.integers(0, 256, (900, 1300, 4), dtype=np.uint8)
    data = encoded(Image.fromarray(colours), "PNG", compress_level=1)
    alpha = colours[..., 3:].astype(float) / 255
    over_white = colours[..., :3] * alpha + 255 * (1 - alpha)
    assert np.abs(np.asarray(decode(data, "a")) - over_white).max() <= 1

    deep = generator.integers(0, 65536, (900, 1300), dtype=np.uint16)
    found = np.asarray(decode(encoded(Image.fromarray(deep), "PNG", compress_level=1), "a"))
    assert np.array_equal(found[..., 1], np.round(deep / 257).astype(np.uint8))

    indices = generator.integers(0, 2, (900, 1300), dtype=np.uint8)
    palette = Image.fromarray(indices, "L").convert("P")
    palette.putpalette([10, 20, 30, 255, 0, 0])
    for hidden in (1, bytes([255, 0])):
        found = np.asarray(decode(encoded(palette, "PNG", transparency=hidden), "a"))
        expected = np.where(indices[..., None] == 1, 255, np.array([10, 20, 30]))
        assert np.array_equal(found, expected)


def test_a_progressive_jpeg_of_endless_scans_is_refused() -> None:
    data = encoded(photo(2000, 2000), "JPEG", progressive=True)
    assert decode(data, "a").size == (2000, 2000)
    last = data.rindex(b"\xff\xda")
    bomb = data[:-2] + data[last:-2] * 600 + b"\xff\xd9"
    reason = refusal(bomb)
    assert (
        reason == f"{bomb.count(bytes.fromhex('ffda'))} scans of 2000 x 2000 pixels: save it anew"
    )


def test_formats_that_no_photograph_is_in_are_refused() -> None:
    for kind in ("ICO", "DDS", "QOI", "EPS"):
        assert "no image of a format" in refusal(encoded(photo(16, 16), kind))
    assert not {".ico", ".dds", ".qoi", ".eps", ".pdf"} & image_endings()
    assert {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".jp2"} <= image_endings()


def claiming(kind: str, width: int, height: int) -> bytes:
    """A small image whose header claims another size."""
    data = encoded(photo(64, 48), kind)
    for form in (">II", "<II", "<HH", ">HH"):  # JPEG 2000 has it twice, once the other way round
        claimed = data.replace(struct.pack(form, 64, 48), struct.pack(form, width, height))
        claimed = claimed.replace(struct.pack(form, 48, 64), struct.pack(form, height, width))
        if claimed != data:
            return claimed
    if kind == "PPM":
        return data.replace(b"64 48", f"{width} {height}".encode())
    raise AssertionError(f"no size in a {kind}")


@pytest.mark.parametrize("kind", ["JPEG", "MPO", "BMP", "GIF", "TGA", "PPM", "JPEG2000"])
def test_a_claimed_size_beyond_the_limit_is_refused_before_it_is_allocated(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_: object) -> None:
        raise AssertionError("pixels were asked for")

    for plugin in (ImageFile.ImageFile, Jpeg2KImagePlugin.Jpeg2KImageFile):
        monkeypatch.setattr(plugin, "load", load)
    for side in (9500, 30_000):
        assert "asked for" not in refusal(claiming(kind, side, side))


def test_jpeg_2000_has_a_limit_of_its_own_for_what_its_decoder_takes() -> None:
    assert refusal(claiming("JPEG2000", 9400, 9400)).endswith("are more than the 20000000 allowed")
    assert decode(encoded(photo(64, 48), "JPEG2000"), "a").size == (64, 48)
