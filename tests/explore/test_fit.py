import base64
import gzip
import json
from pathlib import Path

import pytest
import torch

from pellucid.explore import thumbnails
from pellucid.explore import versus as versus_module
from pellucid.explore.content import statistics
from pellucid.explore.fit import FEWEST, fit, in_base64
from pellucid.explore.sample import sample
from pellucid.representation.representation import Representation
from pellucid.run import RunError


def noise(images, side, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (images, 3, side, side), generator=generator, dtype=torch.uint8)


def representation(images=120, k=6, pixels=None, *, labels=True, **more):
    z = torch.randn(images, k, generator=torch.Generator().manual_seed(0)).relu()
    return Representation(
        "made",
        Path("made.npy"),
        z,
        [f"{i}.png" for i in range(images)],
        labels=torch.arange(images) % 3 if labels else None,
        thumbnails=None if pixels is None else lambda: pixels,
        **more,
    )


def fitted(source, room, **more):
    return fit(source, statistics(source), more.pop("other", None), room=room, **more)


def size(found):
    """Bytes in the file, by a base64 that is written out."""
    pictures = b"" if found.thumbnails is None else found.thumbnails.data
    return sum(
        len(base64.b64encode(data)) for data in (found.content, found.entries.data, pictures)
    )


def frame(source):
    """What all images take without thumbnails."""
    return size(fitted(source, 10**9, pictures=False))


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 1000, 1001])
def test_the_size_in_base64(length):
    assert in_base64(b"x" * length) == len(base64.b64encode(b"x" * length))


@pytest.mark.parametrize("expected", [80, 64, 48, 32])
@pytest.mark.parametrize("spare", [1, 200])
def test_the_largest_side_that_fits_is_taken(expected, spare):
    pixels = noise(30, 80)
    source = representation(30, pixels=pixels)
    data = thumbnails.encode(pixels, torch.arange(30), expected).data
    room = frame(source) + in_base64(data) + spare
    found = fitted(source, room)
    assert found.thumbnails.side == expected
    assert found.images.tolist() == list(range(30))
    assert found.thumbnails.data == data
    assert size(found) <= room
    # One byte less, and it is the next smaller, or fewer images.
    less = fitted(source, frame(source) + in_base64(data) - 1)
    assert less.thumbnails.side < expected or len(less.images) < 30


@pytest.mark.parametrize("share", [0.35, 0.5, 0.75, 0.95])
def test_where_the_smallest_do_not_fit_there_are_fewer_images(share):
    pixels = noise(120, 40)
    source = representation(120, pixels=pixels)
    smallest = in_base64(thumbnails.encode(pixels, torch.arange(120), 32).data)
    room = frame(source) + int(share * smallest)
    found = fitted(source, room)
    assert FEWEST <= len(found.images) < 120
    assert found.thumbnails.side == 32
    assert 0.8 * room <= size(found) <= room
    assert torch.equal(found.images, sample(source.labels, 120, len(found.images)))
    assert source.labels[found.images].bincount().tolist() == pytest.approx(
        [len(found.images) / 3] * 3, abs=1
    )
    # What belongs to images is of these images.
    tree = json.loads(gzip.decompress(found.content))
    assert tree["images"] == found.images.tolist()
    assert tree["files"] == [f"{i}.png" for i in found.images.tolist()]
    assert tree["total"] == 120
    assert len(found.thumbnails.lengths) == len(found.images)


def uneven():
    """Every image that an estimate looks at is flat, and all others are not."""
    pixels = noise(800, 24)
    pixels[::4] = 128
    return pixels


@pytest.mark.parametrize("room", [60_000, 150_000, 400_000])
def test_an_estimate_that_is_too_low_breaks_no_budget(room):
    found = fitted(representation(800, pixels=uneven()), room)
    assert 0.6 * room < size(found) <= room


@pytest.mark.parametrize("wrong", [0.1, 0.9, 1.1])
@pytest.mark.parametrize("room", [40_000, 90_000])
def test_no_estimate_breaks_the_budget(wrong, room, monkeypatch):
    honest = thumbnails.bytes_each
    monkeypatch.setattr(thumbnails, "bytes_each", lambda *given: wrong * honest(*given))
    found = fitted(representation(120, pixels=noise(120, 40)), room)
    assert size(found) <= room
    assert len(found.images) >= FEWEST


def test_a_budget_that_holds_nothing_is_refused():
    source = representation(120, pixels=noise(120, 40))
    with pytest.raises(
        RunError, match=r"20 images of made do not fit.* 0\.0 MB are left.*--budget"
    ):
        fitted(source, 5_000)
    with pytest.raises(RunError, match=r"take 0\.\d MB, 0\.0 MB are left"):
        fitted(source, -50_000)
    with pytest.raises(RunError, match="20 images of made do not fit"):
        fitted(representation(), 1_000)


def test_few_images_are_few_from_the_start():
    found = fitted(representation(5, pixels=noise(5, 16)), 10**6)
    assert found.images.tolist() == list(range(5))
    with pytest.raises(RunError, match="5 images of made do not fit"):
        fitted(representation(5, pixels=noise(5, 16)), 100)


@pytest.mark.parametrize("most", [1, 7, 60, 120, 500])
def test_no_more_images_than_are_allowed(most):
    source = representation(120, pixels=noise(120, 16))
    found = fitted(source, 10**7, most=most)
    assert torch.equal(found.images, sample(source.labels, 120, min(most, 120)))
    assert len(found.thumbnails.lengths) == min(most, 120)
    assert found.tree["total"] == 120


@pytest.mark.parametrize("most", [0, -3])
def test_no_images_are_no_page(most):
    with pytest.raises(RunError, match=f"at least 1 image, not {most}"):
        fitted(representation(), 10**7, most=most)


def test_thumbnails_are_read_only_where_they_are_wanted():
    def refuse():
        raise AssertionError

    source = representation()
    for without in (source, Representation(**{**vars(source), "thumbnails": refuse})):
        found = fitted(without, 10**7, pictures=False)
        assert found.thumbnails is None
        assert len(found.images) == 120
    assert fitted(source, 10**7).thumbnails is None


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_without_pictures_there_may_be_fewer_images_too(share):
    source = representation(2_000, k=40)
    room = int(share * frame(source))
    found = fitted(source, room, pictures=False)
    assert FEWEST < len(found.images) < 2_000
    assert 0.8 * room < size(found) <= room


def test_file_names_are_left_out_on_demand():
    source = representation(20)
    assert fitted(source, 10**7, file_names=False).tree["files"] is None
    assert b".png" not in gzip.decompress(fitted(source, 10**7, file_names=False).content)


def test_a_second_representation_is_matched_once(monkeypatch):
    asked = []
    real = versus_module.match_dimensions

    def counting(a, b):
        asked.append(len(a))
        return real(a, b)

    monkeypatch.setattr(versus_module, "match_dimensions", counting)
    source = representation(120, pixels=noise(120, 40))
    found = fitted(source, 60_000, other=representation(120))
    assert len(found.images) < 120  # so there were several tries
    assert asked == [120]
    assert found.tree["versus"]["neighbours"]["tried"] <= len(found.images)
    assert fitted(source, 10**7).tree["versus"] is None


def test_the_same_bytes_twice():
    first, again = (fitted(representation(pixels=noise(120, 40)), 60_000) for _ in range(2))
    assert first.content == again.content
    assert first.entries == again.entries
    assert first.thumbnails == again.thumbnails
