import hashlib
import io
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from pellucid.data import cache
from pellucid.data.bad_share import allowed_bad
from pellucid.data.cache import Held, MixedSizesError, hold
from pellucid.data.source import DataError, Source


@dataclass
class Encoded:
    """Reads from a list and counts."""

    items: list[bytes]
    reads: int = 0

    def __call__(self, index: int) -> bytes:
        self.reads += 1
        return self.items[index]


def random_pixels(count: int, height: int = 6, width: int = 8) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def source_of(pixels: list[np.ndarray] | np.ndarray, bad: tuple[int, ...] = ()) -> Source:
    items = []
    for i, image in enumerate(pixels):
        out = io.BytesIO()
        Image.fromarray(image).save(out, "PNG")
        items.append(b"no image" if i in bad else out.getvalue())
    names = [f"{i}.png" for i in range(len(items))]
    labels = torch.arange(len(items)) % 3
    return Source(names, labels, ("a", "b", "c"), Encoded(items), f"bad {bad}", [])


def held(source: Source, folder: Path, **options: object) -> Held:
    given = {"workers": 2, "most_bad": 0, "strict": False, **options}
    return hold(source, (6, 8), None, folder, **given)


def endings(folder: Path) -> list[str]:
    """Of the files in a cache, but for its locks."""
    return sorted(path.suffix for path in folder.iterdir() if path.suffix != ".lock")


def test_two_at_once_decode_once_and_have_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever comes second waits, and finds the work done."""
    source = source_of(random_pixels(100))
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: held(source, tmp_path), range(2))
    assert source.read.reads == 100
    assert torch.equal(one.pixels, other.pixels)
    assert "another process decodes the same images" in capsys.readouterr().err


def test_what_a_killed_process_left_is_no_hindrance(tmp_path: Path) -> None:
    source = source_of(random_pixels(10))
    held(source, tmp_path)
    (array,) = tmp_path.glob("*.npy")
    expected = array.read_bytes()
    array.rename(tmp_path / f"{array.name}.writing")
    (tmp_path / f"{array.stem}.json").write_text("{")
    held(source, tmp_path)
    assert array.read_bytes() == expected
    assert endings(tmp_path) == [".json", ".npy"]


def test_pixels_come_back_exactly_and_only_once_decoded(tmp_path: Path) -> None:
    pixels = random_pixels(200)
    source = source_of(pixels)
    first = held(source, tmp_path / "new")
    reads = source.read.reads
    second = held(source, tmp_path / "new")
    assert reads == source.read.reads == 200
    for found in (first, second):
        assert np.array_equal(found.pixels.numpy(), pixels.transpose(0, 3, 1, 2))
        assert found.image_size == (6, 8)
    expected = [
        hashlib.blake2b(image.transpose(2, 0, 1).tobytes(), digest_size=8).hexdigest()
        for image in pixels
    ]
    assert first.hashes() == second.hashes() == Held(first.pixels).hashes() == expected
    assert endings(tmp_path / "new") == [".json", ".npy"]  # nothing unfinished is left
    order = [torch.tensor([3, 199, 3]), torch.tensor([0])]
    assert [b.tolist() for b in first.batches(order)] == [first.pixels[o].tolist() for o in order]


def test_a_batch_is_a_copy_and_the_file_stays(tmp_path: Path) -> None:
    source = source_of(random_pixels(4))
    first = held(source, tmp_path)
    (batch,) = first.batches([torch.arange(4)])
    batch.zero_()
    assert first.pixels.any()
    first.pixels.zero_()
    assert held(source, tmp_path).pixels.any()


def test_unreadable_images_are_skipped_within_bounds(tmp_path: Path) -> None:
    pixels = random_pixels(100)
    source = source_of(pixels, bad=(0, 70))
    found = held(source, tmp_path, most_bad=2)
    kept = [i for i in range(100) if i not in (0, 70)]
    assert found.kept == kept
    assert np.array_equal(found.pixels.numpy(), pixels[kept].transpose(0, 3, 1, 2))
    assert [name for name, _ in found.skipped] == ["0.png", "70.png"]
    assert np.load(next(tmp_path.glob("*.npy"))).shape == (98, 3, 6, 8)
    # The bound holds for what is in the cache as well.
    for options in ({"most_bad": 1}, {"most_bad": 2, "strict": True}):
        for folder in (tmp_path, tmp_path / "other"):
            with pytest.raises(DataError, match=r"0\.png \(no image"):
                held(source, folder, **options)


def test_a_refusal_counts_all_bad_images_and_what_was_decoded_is_kept(tmp_path: Path) -> None:
    source = source_of(random_pixels(300), bad=(0, 7, 150, 299))
    words = r"4 of 300 images cannot be read, and at most 1 .*allow more: a bad_share of 0\.014"
    with pytest.raises(DataError, match=words):
        held(source, tmp_path, most_bad=1)
    reads = source.read.reads
    assert len(held(source, tmp_path, most_bad=allowed_bad(0.014, 300)).pixels) == 296
    assert source.read.reads == reads


def test_strict_gives_up_at_the_first_and_keeps_nothing(tmp_path: Path) -> None:
    source = source_of(random_pixels(2000), bad=(3,))
    with pytest.raises(DataError, match=r"1 of 2000 images .*at most 0 may be: 3\.png"):
        held(source, tmp_path, most_bad=20, strict=True)
    assert source.read.reads < 1000
    assert endings(tmp_path) == []


def test_the_sidecar_says_what_is_in_the_file(tmp_path: Path) -> None:
    held(source_of(random_pixels(4), bad=(1,)), tmp_path, most_bad=1)
    facts = json.loads(next(tmp_path.glob("*.json")).read_text())
    assert facts["names"] == ["0.png", "2.png", "3.png"]
    assert facts["labels"] == [0, 2, 0]
    assert facts["classes"] == ["a", "b", "c"]
    assert facts["shape"] == [3, 3, 6, 8]
    assert facts["fingerprint"] == "bad (1,)"
    assert facts["format"] == cache.FORMAT


@pytest.mark.parametrize(
    "damage", ["cut array", "zeroed array", "no array", "words", "other key", "empty", "other type"]
)
def test_a_damaged_or_foreign_cache_is_built_again(damage: str, tmp_path: Path) -> None:
    source = source_of(random_pixels(20))
    expected = held(source, tmp_path).pixels.clone()
    array, sidecar = next(tmp_path.glob("*.npy")), next(tmp_path.glob("*.json"))
    if damage == "cut array":
        os.truncate(array, array.stat().st_size - 1)
    elif damage == "zeroed array":
        array.write_bytes(array.read_bytes()[:200] + b"\0" * (array.stat().st_size - 200))
    elif damage == "no array":
        array.unlink()
    elif damage == "words":
        sidecar.write_text("words")
    elif damage == "other key":
        sidecar.write_text(json.dumps({**json.loads(sidecar.read_text()), "key": "other"}))
    elif damage == "empty":
        array.write_bytes(b"")
    else:
        np.save(array, expected.numpy().astype(np.int8))
    reads = source.read.reads
    assert torch.equal(held(source, tmp_path).pixels, expected)
    assert source.read.reads == reads + 20


def test_another_size_or_source_has_its_own_file(tmp_path: Path) -> None:
    source = source_of(random_pixels(3))
    held(source, tmp_path)
    small = hold(source, (4, 4), 4, tmp_path, workers=1, most_bad=0, strict=False)
    assert small.pixels.shape == (3, 3, 4, 4)
    assert len(list(tmp_path.glob("*.npy"))) == 2


def test_mixed_sizes_are_found_once(tmp_path: Path) -> None:
    images = [*random_pixels(100), *random_pixels(1, 5, 5)]
    source = source_of(images)
    for reads in (101, 0):
        source.read.reads = 0
        with pytest.raises(MixedSizesError):
            held(source, tmp_path)
        assert source.read.reads <= reads
    assert not list(tmp_path.glob("*.npy*"))


def test_a_full_disk_is_told_before_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    source = source_of(random_pixels(3))
    with pytest.raises(DataError, match=r"0\.0 GB .*cache_dir"):
        held(source, tmp_path)
    assert source.read.reads == 0
