import io

import numpy as np
import pytest
import torch
from PIL import Image

from pellucid.explore.thumbnails import SIDES, bytes_each, encode, sides


def smooth(n, height, width, seed=0):
    """Images that a lossy code keeps: a few waves of colour."""
    generator = torch.Generator().manual_seed(seed)
    y, x = torch.linspace(0, 1, height)[:, None], torch.linspace(0, 1, width)
    phase = torch.rand(n, 3, 1, 1, generator=generator) * 6
    return (127 + 100 * torch.sin(3 * x + 2 * y + phase)).round().to(torch.uint8)


def opened(found):
    """Each of the encoded images, cut apart by their lengths."""
    out, at = [], 0
    for length in found.lengths:
        out.append(Image.open(io.BytesIO(found.data[at : at + length])))
        at += length
    assert at == len(found.data)
    return out


@pytest.mark.parametrize(
    ("height", "width", "side", "expected"),
    [(32, 32, 32, (32, 32)), (32, 32, 96, (32, 32)), (96, 96, 48, (48, 48)), (96, 48, 32, (16, 32)),
     (48, 96, 64, (64, 32)), (90, 30, 96, (30, 90)), (3, 96, 32, (32, 1))],
)  # fmt: skip
def test_no_longer_than_the_side_and_never_enlarged(height, width, side, expected):
    found = encode(smooth(3, height, width), torch.arange(3), side)
    assert [image.size for image in opened(found)] == [expected] * 3
    assert found.side == max(expected)


def test_pixels_come_back_in_the_order_of_the_indices():
    pixels = smooth(6, 40, 56)
    found = encode(pixels, torch.tensor([4, 0, 5]), 96)
    for image, i in zip(opened(found), (4, 0, 5), strict=True):
        back = np.asarray(image.convert("RGB")).astype(float)
        expected = pixels[i].permute(1, 2, 0).numpy().astype(float)
        assert np.abs(back - expected).mean() < 4
        others = [pixels[j].permute(1, 2, 0).numpy() for j in range(6) if j != i]
        assert all(np.abs(back - other).mean() > 10 for other in others)


def test_smaller_copies_are_of_the_whole_image():
    pixels = torch.zeros(1, 3, 96, 96, dtype=torch.uint8)
    pixels[0, 0, :48, :48], pixels[0, 1, :48, 48:] = 250, 250
    pixels[0, 2, 48:, :48], pixels[0, :, 48:, 48:] = 250, 120
    [image] = opened(encode(pixels, torch.tensor([0]), 32))
    back = np.asarray(image.convert("RGB")).astype(float)
    for (y, x), colour in {
        (8, 8): (250, 0, 0),
        (8, 24): (0, 250, 0),
        (24, 8): (0, 0, 250),
        (24, 24): (120, 120, 120),
    }.items():
        assert np.abs(back[y, x] - colour).max() < 25


def test_nothing_but_pixels_is_written():
    for image in opened(encode(smooth(4, 64, 64), torch.arange(4), 48)):
        assert image.format == "WEBP"
        assert not image.getexif()
        assert not {"exif", "icc_profile", "xmp"} & image.info.keys()
    found = encode(smooth(4, 64, 64), torch.arange(4), 48)
    assert not any(mark in found.data for mark in (b"EXIF", b"XMP ", b"ICCP"))


def test_the_same_bytes_twice():
    pixels = smooth(5, 64, 64)
    assert encode(pixels, torch.arange(5), 48) == encode(pixels.clone(), torch.arange(5), 48)


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [(96, 96, [96, 64, 48, 32]), (80, 96, [96, 64, 48, 32]), (70, 50, [70, 64, 48, 32]),
     (64, 64, [64, 48, 32]), (32, 32, [32]), (20, 10, [20]), (200, 100, [96, 64, 48, 32])],
)  # fmt: skip
def test_sides_from_the_images_own_down(height, width, expected):
    assert list(sides(smooth(1, height, width))) == expected
    assert SIDES == (96, 64, 48, 32)


@pytest.mark.parametrize("count", [1, 7, 200])
def test_the_estimate_of_few_images_is_their_mean(count):
    pixels = smooth(count, 24, 24)
    pixels[count // 2] = torch.randint(256, (3, 24, 24), generator=torch.manual_seed(0))
    found = encode(pixels, torch.arange(count), 16)
    assert bytes_each(pixels, 16) == pytest.approx(sum(found.lengths) / count)


def test_the_estimate_of_many_images_is_of_images_all_over():
    generator = torch.Generator().manual_seed(0)
    noise = torch.randint(256, (900, 3, 16, 16), generator=generator, dtype=torch.uint8)
    noise[:450] = 128  # as sorted by class
    real = len(encode(noise, torch.arange(900), 16).data) / 900
    assert bytes_each(noise, 16) == pytest.approx(real, rel=0.05)
