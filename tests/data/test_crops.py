"""A streamed set's crops: cut out of the whole picture, where torchvision would cut them."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import functional as F

from pellucid.data import pixels
from pellucid.data.decode import decode
from pellucid.data.folder import open_folder
from pellucid.data.image_set import ImageSet, open_images
from pellucid.data.pixels import crops_of_image
from pellucid.data.source import DataError, Source
from pellucid.data.view_parameters import ViewSettings, crops_of, draw_uniform, draws_of
from pellucid.data.views import make_views
from pellucid.randomness import seeded
from pellucid.train.batches import MicroBatch, TwoViews

SETTINGS = ViewSettings(size=24)
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)


def picture(height: int, width: int, seed: int = 0) -> Image.Image:
    """Smooth, as photographs are, so that a JPEG loses little."""
    small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def source_of(image: Image.Image, form: str, **options: object) -> Source:
    data = io.BytesIO()
    image.save(data, form, **options)
    return Source(["a"], None, None, lambda _: data.getvalue(), "", [])


def uniform(rows: int, seed: int = 0) -> torch.Tensor:
    return draw_uniform(rows, seeded(seed))


@pytest.mark.parametrize("shape", [(50, 70), (70, 50), (24, 24), (10, 90)])
def test_crops_equal_torchvisions_on_the_whole_picture(shape: tuple[int, int]) -> None:
    image = picture(*shape)
    numbers = uniform(20)
    found = crops_of_image(source_of(image, "PNG"), 0, numbers, SETTINGS)
    boxes = zip(*(c.tolist() for c in crops_of(numbers, *shape, SETTINGS)), strict=True)
    for crop, box in zip(found, boxes, strict=True):
        expected = F.resized_crop(image, *box, [24, 24], F.InterpolationMode.BILINEAR)
        difference = np.abs(crop.numpy().astype(int) - np.asarray(expected))
        assert difference.max() <= 1  # both round twice, to bytes, and Pillow's weights are finer
        assert difference.mean() < 0.1


def test_a_large_jpeg_is_decoded_smaller_where_its_crops_stay_large_enough() -> None:
    image = picture(480, 640)
    whole = source_of(image, "JPEG", quality=95)
    large = ViewSettings(size=24, crop=(0.5, 1.0))  # every crop at least 8 times 24 a side
    numbers = uniform(12)
    found = crops_of_image(whole, 0, numbers, large).numpy().astype(int)
    decoded = Image.open(io.BytesIO(whole.read(0))).convert("RGB")
    boxes = list(zip(*(c.tolist() for c in crops_of(numbers, 480, 640, large)), strict=True))
    for crop, (y, x, rows, columns) in zip(found, boxes, strict=True):
        top, left, bottom, right = (8 * round(edge / 8) for edge in (y, x, y + rows, x + columns))
        box = top, left, bottom - top, right - left
        exact = F.resized_crop(decoded, *box, [24, 24], F.InterpolationMode.BILINEAR)
        assert np.abs(crop - np.asarray(exact)).mean() < 1.5
    sizes = []

    def seen(*args: Any, **options: Any) -> Image.Image:
        sizes.append((image := decode(*args, **options)).size)
        return image

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pixels, "decode", seen)
        crops_of_image(whole, 0, numbers, large)
        crops_of_image(whole, 0, numbers, ViewSettings(size=300))
    assert sizes == [(80, 60), (640, 480)]


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_a_picture_on_its_side_is_cropped_upright(form: str) -> None:
    lying = picture(60, 90)
    exif = Image.Exif()
    exif[0x0112] = 6
    options = {"quality": 95, "subsampling": 0} if form == "JPEG" else {}
    turned = crops_of_image(source_of(lying, form, exif=exif, **options), 0, uniform(8), SETTINGS)
    upright = lying.transpose(Image.Transpose.ROTATE_270)
    expected = crops_of_image(source_of(upright, "PNG"), 0, uniform(8), SETTINGS)
    assert (turned.int() - expected.int()).abs().float().mean() < 3


def put(root: Path, count: int, bad: tuple[int, ...] = ()) -> None:
    root.mkdir()
    for i in range(count):
        path = root / f"{i:03}.png"
        if i in bad:
            path.write_bytes(b"no image")
        else:
            picture(30 + i, 50, seed=i).save(path)


def opened(root: Path, workers: int, **options: object) -> ImageSet:
    return open_images(
        str(root), "train", holdout=0.0, memory_limit_gb=0.0, workers=workers, **options
    )


ORDER = [
    MicroBatch(torch.tensor([5, 0, 3]), 7, slice(0, 3)),
    MicroBatch(torch.tensor([1, 2, 4]), 7, slice(3, 6)),
    MicroBatch(torch.tensor([2, 2, 0]), 8, slice(0, 3)),
]


@pytest.mark.parametrize("workers", [0, 2])
def test_views_of_a_streamed_set_are_those_of_the_whole_pictures(
    workers: int, tmp_path: Path
) -> None:
    put(tmp_path / "set", 6)
    images = opened(tmp_path / "set", workers)
    views = TwoViews(SETTINGS, MEAN, STD, seed=3, batch=6)
    before = torch.get_rng_state()
    for (indices, step, rows), crops in zip(ORDER, views.read(images, ORDER), strict=True):
        assert crops.shape == (2, 3, 3, 24, 24)
        assert crops.dtype == torch.uint8
        for side, made in zip(("query", "key"), views(crops, step, rows), strict=True):
            numbers = draw_uniform(6, seeded(3, side, step))[rows]
            for place, index in enumerate(indices.tolist()):
                pixels = torch.from_numpy(np.array(picture(30 + index, 50, seed=index)))
                whole = pixels.permute(2, 0, 1)[None]
                own = numbers[place : place + 1]
                expected = make_views(whole, draws_of(own, 30 + index, 50, SETTINGS), SETTINGS)
                back = made[place] * torch.tensor(STD)[:, None, None]
                back += torch.tensor(MEAN)[:, None, None]
                # A crop's values are rounded to bytes, which contrast then doubles.
                assert (back - expected[0]).abs().mean() < 0.01
                assert (back - expected[0]).abs().max() < 0.06
    assert torch.equal(torch.get_rng_state(), before)


def test_a_held_set_gives_the_stored_images(tmp_path: Path) -> None:
    pixels = torch.randint(0, 256, (6, 3, 9, 9), dtype=torch.uint8)
    views = TwoViews(SETTINGS, MEAN, STD, seed=3, batch=6)
    read = list(views.read(ImageSet.from_pixels(pixels), ORDER))
    assert all(
        torch.equal(found, pixels[batch.indices]) for found, batch in zip(read, ORDER, strict=True)
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_an_unreadable_image_gives_way_to_the_next_with_its_own_crops(
    workers: int, tmp_path: Path
) -> None:
    put(tmp_path / "set", 6, bad=(3,))
    images = opened(tmp_path / "set", workers, bad_share=0.2)
    views = TwoViews(SETTINGS, MEAN, STD, seed=3, batch=6)
    found = list(views.read(images, ORDER))
    assert [name for name, _ in images.skipped] == ["003.png"]
    numbers = torch.stack([draw_uniform(6, seeded(3, side, 7))[2] for side in ("query", "key")])
    source = open_folder(tmp_path / "set", "train", holdout=0.0)
    expected = crops_of_image(source, 4, numbers, SETTINGS)
    assert np.array_equal(found[0][:, 2].permute(0, 2, 3, 1).numpy(), expected)
    with pytest.raises(DataError, match=r"003\.png"):
        list(views.read(opened(tmp_path / "set", workers, strict=True), ORDER))


def test_a_set_kept_at_its_own_size_refuses_another_one_at_once(tmp_path: Path) -> None:
    root = tmp_path / "set"
    root.mkdir()
    for i in range(40):  # the odd one is beyond those whose sizes are looked at
        picture(30, 50 if i != 3 else 49, seed=i).save(root / f"{i:03}.png")
    images = opened(root, 0)
    assert images.image_size == (30, 50)
    views = TwoViews(SETTINGS, MEAN, STD, seed=3, batch=6)
    with pytest.raises(DataError, match=r"003\.png is 30 x 49 pixels and others 30 x 50: give"):
        list(views.read(images, ORDER))
    scaled = opened(root, 0, stored_size=16)
    assert len(list(views.read(scaled, ORDER))) == len(ORDER)


def test_the_set_is_not_drawn_ahead(tmp_path: Path) -> None:
    put(tmp_path / "set", 4)
    images = opened(tmp_path / "set", 0)
    drawn = []

    def numbers(place: int) -> torch.Tensor:
        drawn.append(place)
        return torch.stack([uniform(1), uniform(1, seed=1)])

    batches = images.crops([torch.tensor([i % 4]) for i in range(100)], numbers, SETTINGS)
    next(batches)
    assert len(drawn) < 10
