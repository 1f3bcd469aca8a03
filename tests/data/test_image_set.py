import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pellucid.data import DataError, ImageSet, image_set, open_images, open_source
from pellucid.data.stream import Streamed


def put(
    root: Path, count: int, *, size: tuple[int, int] = (8, 6), bad: tuple[int, ...] = ()
) -> None:
    """Two classes of images of noise, by turns; the bad ones are cut off."""
    rng = np.random.default_rng(0)
    for i in range(count):
        path = root / "ab"[i % 2] / f"{i:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
        if i in bad:
            path.write_bytes(path.read_bytes()[:60])


def opened(root: Path, split: str = "train", **options: object) -> ImageSet:
    given = {"cache_dir": root.parent / "cache", "holdout": 0.0, "workers": 2, **options}
    return open_images(str(root), split, **given)


def all_of(images: ImageSet, batch: int = 7) -> torch.Tensor:
    return torch.cat(list(images.batches(torch.arange(len(images)).split(batch))))


def test_small_images_of_one_size_stay_as_they_are(tmp_path: Path) -> None:
    put(tmp_path / "set", 20)
    images = opened(tmp_path / "set")
    assert images.image_size == (6, 8)
    assert images.pixels is not None
    for i, name in enumerate(images.names):
        stored = np.asarray(Image.open(tmp_path / "set" / name)).transpose(2, 0, 1)
        assert np.array_equal(images.pixels[i].numpy(), stored)
    assert torch.equal(all_of(images), images.pixels)
    assert images.labels is not None
    assert images.classes == ("a", "b")
    assert [name[0] for name in images.names] == [images.classes[i] for i in images.labels.tolist()]
    assert images.skipped == []
    assert len(images.hashes()) == len(images) == 20


@pytest.mark.parametrize("limit", [4.0, 0.0])
def test_large_or_mixed_images_are_stored_at_256(limit: float, tmp_path: Path) -> None:
    put(tmp_path / "large", 3, size=(300, 257))
    put(tmp_path / "mixed", 3, size=(10, 10))
    put(tmp_path / "mixed" / "a", 2, size=(12, 10))
    for name in ("large", "mixed"):
        images = opened(tmp_path / name, memory_limit_gb=limit, workers=0 if limit == 0 else 2)
        assert images.image_size == (256, 256)
        assert any("256 x 256" in note for note in images.notes)
        assert all_of(images).shape[1:] == (3, 256, 256)
    small = opened(tmp_path / "large", stored_size=5)
    assert small.image_size == (5, 5)
    assert small.notes == []


def test_an_odd_size_beyond_those_probed_changes_the_whole_set(tmp_path: Path) -> None:
    put(tmp_path / "set", 40)
    Image.new("RGB", (9, 9)).save(tmp_path / "set" / "a" / "002.png")
    held = opened(tmp_path / "set")
    assert held.image_size == (256, 256)
    assert opened(tmp_path / "set").image_size == (256, 256)
    streamed = opened(tmp_path / "set", memory_limit_gb=0.0, workers=0)
    with pytest.raises(DataError, match=r"a/002\.png is 9 x 9 .*give stored_size"):
        all_of(streamed)


@pytest.mark.parametrize("size", [None, 5])
def test_a_streamed_set_shows_the_same_pixels(size: int | None, tmp_path: Path) -> None:
    put(tmp_path / "set", 30)
    held = opened(tmp_path / "set", stored_size=size)
    streamed = opened(tmp_path / "set", stored_size=size, memory_limit_gb=1e-6)
    assert streamed.pixels is None
    assert streamed.image_size == held.image_size
    assert streamed.names == held.names
    order = [torch.tensor([29, 0, 5]), torch.tensor([5]), torch.tensor([1, 2])]
    before = torch.get_rng_state()
    for one, other in zip(streamed.batches(order), held.batches(order), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)
    assert streamed.hashes() == held.hashes()


def test_the_decoder_can_be_sent_to_a_process_started_anew(tmp_path: Path) -> None:
    # What the start methods spawn and forkserver do, without the seconds that they take.
    put(tmp_path / "set", 6)
    source = open_source(str(tmp_path / "set"), "train")
    decoder = Streamed(source, (6, 8), None, None, workers=2)._squares
    sent = pickle.loads(pickle.dumps(decoder))
    indices = torch.tensor([4, 0])
    assert torch.equal(sent[indices][0], decoder[indices][0])
    assert sent[indices][0].any()


def test_a_held_set_leaves_unreadable_images_out(tmp_path: Path) -> None:
    put(tmp_path / "set", 50, bad=(4, 9))
    with pytest.raises(DataError, match=r"a/004\.png"):
        opened(tmp_path / "set", bad_share=0.01)
    with pytest.raises(DataError, match=r"a/004\.png.*a bad_share of 0\.04"):
        opened(tmp_path / "set", bad_share=0.5, strict=True)
    images = opened(tmp_path / "set", bad_share=0.04)
    assert [name for name, _ in images.skipped] == ["a/004.png", "b/009.png"]
    assert len(images) == len(images.names) == len(images.hashes()) == 48
    assert images.labels is not None
    assert images.labels.tolist() == [0] * 24 + [1] * 24
    assert "2 unreadable images skipped: a/004.png" in images.notes[-1]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_streamed_set_replaces_unreadable_images(workers: int, tmp_path: Path) -> None:
    # In the order of names, the even ones come first: a/004 is third, a/006 fourth, b/049 last.
    put(tmp_path / "set", 50, bad=(4, 6, 49))
    images = opened(tmp_path / "set", memory_limit_gb=0.0, workers=workers, bad_share=0.06)
    assert images.labels is not None
    assert images.names[2:4] == ["a/004.png", "a/006.png"]
    found = all_of(images)
    assert torch.equal(found[2], found[4])
    assert torch.equal(found[3], found[4])
    assert torch.equal(found[49], found[0])
    assert torch.equal(all_of(images, batch=50), found)
    assert [name for name, _ in images.skipped] == ["a/004.png", "a/006.png", "b/049.png"]
    assert (images.labels == -1).nonzero().flatten().tolist() == [2, 3, 49]


@pytest.mark.parametrize("options", [{"bad_share": 0.05}, {"bad_share": 0.5, "strict": True}])
def test_a_streamed_set_gives_up_beyond_the_share(
    options: dict[str, object], tmp_path: Path
) -> None:
    put(tmp_path / "set", 50, bad=(4, 6, 49))
    images = opened(tmp_path / "set", memory_limit_gb=0.0, workers=0, **options)
    with pytest.raises(DataError, match=r"a/004\.png"):
        all_of(images)


def test_a_set_that_is_unreadable_throughout_ends(tmp_path: Path) -> None:
    put(tmp_path / "set", 10, bad=tuple(range(10)))
    for limit in (0.0, 4.0):
        with pytest.raises(DataError, match=r"a/000\.png"):
            all_of(opened(tmp_path / "set", memory_limit_gb=limit, workers=1, bad_share=0.2))
        with pytest.raises(DataError, match="none of 10 images"):
            all_of(opened(tmp_path / "set", memory_limit_gb=limit, workers=1, bad_share=1.0))


def test_a_disk_that_is_lost_while_streaming_is_told_after_few_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "set", 60)
    images = opened(tmp_path / "set", memory_limit_gb=0.0, workers=0, bad_share=0.5)
    reads = []

    def lost(path: Path) -> bytes:
        reads.append(path)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", lost)
    with pytest.raises(DataError, match=r"a/000\.png \(cannot be read: Input/output error\)"):
        all_of(images, batch=30)
    assert len(reads) == 31  # one more than the share


def test_a_file_without_permission_is_named_and_borne_within_the_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "set", 20)
    read = Path.read_bytes

    def locked(path: Path) -> bytes:  # the system lets root read everything
        if path.name == "004.png":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", locked)
    for limit in (0.0, 4.0):
        images = opened(
            tmp_path / "set", memory_limit_gb=limit, workers=0 if limit == 0 else 1, bad_share=0.05
        )
        all_of(images)
        assert images.skipped == [("a/004.png", "cannot be read: Permission denied")]


def test_limit_takes_the_same_images_from_all_over(tmp_path: Path) -> None:
    put(tmp_path / "set", 40)
    some = opened(tmp_path / "set", limit=10)
    assert len(some) == 10
    assert some.names == sorted(some.names)
    assert some.names != opened(tmp_path / "set").names[:10]
    assert opened(tmp_path / "set", limit=10).names == some.names
    assert set(some.names) < set(opened(tmp_path / "set", limit=20).names)
    assert len(opened(tmp_path / "set", limit=100)) == 40
    with pytest.raises(ValueError, match="limit must be at least 1"):
        opened(tmp_path / "set", limit=0)


def test_a_flat_folder_trains_without_labels(tmp_path: Path) -> None:
    put(tmp_path / "set" / "only", 8)
    for limit in (0.0, 4.0):
        images = opened(tmp_path / "set", memory_limit_gb=limit, workers=0 if limit == 0 else 1)
        assert images.labels is None
        assert images.classes is None
        assert len(all_of(images)) == 8


def test_settings_out_of_range_are_refused(tmp_path: Path) -> None:
    for options in ({"stored_size": 0}, {"bad_share": 1.5}):
        with pytest.raises(ValueError, match=next(iter(options))):
            opened(tmp_path, **options)


def test_a_set_of_pixels_in_memory() -> None:
    pixels = torch.randint(0, 256, (5, 3, 4, 4), dtype=torch.uint8)
    pixels[4] = pixels[0]
    images = ImageSet.from_pixels(pixels, torch.arange(5) % 2, ("a", "b"))
    assert images.names == ["0", "1", "2", "3", "4"]
    assert torch.equal(all_of(images, 2), pixels)
    hashes = images.hashes()
    assert hashes[0] == hashes[4]
    assert len(set(hashes)) == 4


@pytest.mark.parametrize(("rank", "expected"), [(0, ["opened", "met"]), (1, ["met", "opened"])])
def test_the_first_process_decodes_before_the_others_open(
    rank: int, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "set", 2)
    happened = []
    monkeypatch.setattr(image_set, "world_size", lambda: 2)
    monkeypatch.setattr(image_set, "rank", lambda: rank)
    monkeypatch.setattr(image_set.dist, "barrier", lambda: happened.append("met"))
    found = image_set.hold
    monkeypatch.setattr(
        image_set, "hold", lambda *a, **k: happened.append("opened") or found(*a, **k)
    )
    opened(tmp_path / "set")
    assert happened == expected
    happened.clear()
    with pytest.raises(DataError):
        opened(tmp_path / "nowhere")
    assert happened == ["met"]  # a failure keeps nobody waiting


def test_a_set_on_the_cpu_is_left_where_it_is(tmp_path: Path) -> None:
    put(tmp_path / "set", 6)
    device = torch.device("cpu")
    for limit in (0.0, 4.0):
        images = opened(tmp_path / "set", memory_limit_gb=limit)
        there = images.on(device)
        assert torch.equal(all_of(there), all_of(images))
        assert there.skipped == images.skipped == []
        assert there.hashes() == images.hashes()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_held_set_makes_its_batches_on_the_gpu() -> None:
    pixels = torch.randint(0, 256, (6, 3, 9, 9), dtype=torch.uint8)
    images = ImageSet.from_pixels(pixels).on(torch.device("cuda"))
    found = all_of(images)
    assert found.is_cuda
    assert torch.equal(found.cpu(), pixels)
    assert images.hashes() == ImageSet.from_pixels(pixels).hashes()


def test_processes_on_one_machine_share_its_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert image_set._cpus() == 16
    for processes, share in (("1", 16), ("8", 2), ("64", 1)):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
        assert image_set._cpus() == share
