"""A kept listing equals the walk, and is not believed once anything has changed."""

import os
from pathlib import Path

import pytest
from PIL import Image

from pellucid.data import remember, walk
from pellucid.data.image_set import open_images
from pellucid.data.remember import remembered
from pellucid.data.source import DataError
from pellucid.data.walk import Listing, list_folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remember, "LARGE", 4)
    monkeypatch.setattr(remember, "_SETTLED", -60)  # as if nothing had changed for a while


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "set"
    for name in ("train/a/1.png", "train/a/é 2.jpg", "train/b/deep/3.png", "train/b/4.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"image")
    os.close(os.open(os.fsencode(root / "train") + b"/a/\xff.png", os.O_CREAT))
    (root / "train/empty").mkdir()
    (root / "train/notes.txt").touch()
    (root / "train/.hidden").touch()
    return root


def walks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []

    def walked(root: Path, prefix: str = "") -> Listing:
        seen.append(prefix)
        return list_folder(root, prefix)

    monkeypatch.setattr(remember, "list_folder", walked)
    return seen


def test_the_second_listing_is_the_first_without_a_walk(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, cache = walks(monkeypatch), tmp_path / "cache"
    first = remembered(root, "train/", cache)
    assert first == list_folder(root, "train/")
    assert len(first.names) == 5
    assert remembered(root, "train/", cache) == first
    assert seen == ["train/"]
    whole = remembered(root, "", cache)  # another prefix is another listing
    assert whole == list_folder(root)
    assert seen == ["train/", ""]
    assert not list(cache.glob("*.writing"))


@pytest.mark.parametrize(
    "change",
    [
        "add",
        "add back",
        "add deep",
        "remove",
        "rename",
        "rewrite",
        "touch",
        "damage",
        "cut",
        "other",
    ],
)
def test_whatever_has_changed_is_seen(
    change: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    first = remembered(root, "train/", cache)
    kept = next(cache.iterdir())
    if change == "add":
        (root / "train/a/5.png").touch()
    elif change == "add back":  # as an archive does that holds the folder's time
        before = (root / "train/a").stat()
        (root / "train/a/5.png").touch()
        os.utime(root / "train/a", ns=(before.st_atime_ns, before.st_mtime_ns))
    elif change == "add deep":
        (root / "train/b/deep/er").mkdir()
    elif change == "remove":
        (root / "train/a/1.png").unlink()
    elif change == "rename":
        (root / "train/a/1.png").rename(root / "train/a/9.png")
    elif change == "rewrite":
        (root / "train/a/1.png").write_bytes(b"another image")
    elif change == "touch":
        os.utime(root / "train/a/1.png", (1e9, 1e9))
    elif change == "damage":
        data = kept.read_bytes()
        kept.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
    elif change == "cut":
        kept.write_bytes(kept.read_bytes()[:40])
    elif change == "other":
        kept.write_bytes(b'["no", "listing"]\n')
    seen = walks(monkeypatch)
    again = remembered(root, "train/", cache)
    assert seen == ["train/"]
    assert again == list_folder(root, "train/")
    assert (again == first) == (change in ("damage", "cut", "other"))


def test_small_unsettled_and_uncached_folders_are_walked_every_time(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, cache = walks(monkeypatch), tmp_path / "cache"
    for _ in range(2):
        remembered(root, "train/", None)
        remembered(root, "train/b/", cache)
    monkeypatch.setattr(remember, "_SETTLED", 2.0)  # the folders are younger
    for _ in range(2):
        remembered(root, "train/", cache)
    assert seen == ["train/", "train/b/", "train/", "train/b/", "train/", "train/"]
    assert not list(cache.glob("*.listing"))


def test_what_may_mend_itself_is_looked_for_every_time(root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (root / "train/c").symlink_to(tmp_path / "other disk")
    assert remembered(root, "train/", cache).strays == [
        "train/c (a broken link)",
        "train/notes.txt",
    ]
    (tmp_path / "other disk").mkdir()
    (tmp_path / "other disk/5.png").touch()
    assert "train/c/5.png" in remembered(root, "train/", cache).names


def test_images_that_are_mended_in_place_are_read(root: Path, tmp_path: Path) -> None:
    pixels = Image.effect_noise((8, 8), 50).convert("RGB")
    for path in (root / "train").rglob("*.*g"):
        pixels.save(path)
    broken = root / "train/b/4.png"
    whole = broken.read_bytes()
    broken.write_bytes(whole[:60])
    cache = tmp_path / "cache"
    with pytest.raises(DataError, match=r"b/4\.png"):
        open_images(str(root), "train", holdout=0.0, cache_dir=cache)
    broken.write_bytes(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remember, "CHECKED", 1)  # as if it were one of a million
        assert len(open_images(str(root), "train", holdout=0.0, cache_dir=cache)) == 5


def test_a_format_that_is_read_since_is_listed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    assert "train/notes.txt" in remembered(root, "train/", cache).strays
    for module in (remember, walk):
        monkeypatch.setattr(module, "image_endings", lambda: frozenset({".png", ".jpg", ".txt"}))
    assert "train/notes.txt" in remembered(root, "train/", cache).names


def test_a_cache_that_cannot_be_written_does_no_harm(root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.write_text("a file")
    assert remembered(root, "train/", cache) == list_folder(root, "train/")
