import os
import pickle
from pathlib import Path

import pytest
from PIL import Image

from pellucid.data.folder import open_folder
from pellucid.data.source import DataError, Source
from pellucid.data.walk import list_folder


def put(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (len(name), 0, 0)).save(path, "PNG")


def by_name(source: Source) -> dict[str, str]:
    """Each image's class name."""
    assert source.labels is not None
    assert source.classes is not None
    pairs = zip(source.names, source.labels.tolist(), strict=True)
    return {name: source.classes[label] for name, label in pairs}


def both(root: Path, **options: object) -> tuple[Source, Source]:
    return open_folder(root, "train", **options), open_folder(root, "test", **options)


def test_class_folders_beside_the_usual_litter(tmp_path: Path) -> None:
    put(tmp_path, *[f"{kind}/{i}.png" for kind in ("cat", "dog") for i in range(10)])
    put(tmp_path, "._a.jpg", "cat/.hidden.png", ".git/x.png", "__MACOSX/cat/._0.png", "loose.jpg")
    (tmp_path / ".DS_Store").write_bytes(b"x")
    (tmp_path / "Thumbs.db").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    train, test = both(tmp_path, holdout=0.25)
    assert train.classes == test.classes == ("cat", "dog")
    assert {**by_name(train), **by_name(test)} == {
        f"{kind}/{i}.png": kind for kind in ("cat", "dog") for i in range(10)
    }
    assert (len(train), len(test)) == (15, 5)
    notes = "\n".join(train.notes)
    assert "2 stray files skipped: loose.jpg, notes.txt" in notes
    assert "class folder 'empty' holds no image" in notes
    assert "6 hidden files ignored" in notes
    assert "no held-out split: 5 of 20" in notes
    with pytest.raises(DataError, match=r"(?s)'empty'.*notes\.txt"):
        open_folder(tmp_path, "train", strict=True)


def test_hidden_files_are_no_reason_to_refuse(tmp_path: Path) -> None:
    put(tmp_path, "a/1.png", "b/1.png", ".DS_Store")
    assert len(open_folder(tmp_path, "train", strict=True, holdout=0.0)) == 2


@pytest.mark.parametrize("held_out", ["test", "val", "valid", "validation", "Test"])
def test_split_folders(tmp_path: Path, held_out: str) -> None:
    put(
        tmp_path,
        "train/b/1.png",
        "train/c/deep/2.png",
        f"{held_out}/a/3.png",
        f"{held_out}/c/4.png",
    )
    train, test = both(tmp_path)
    # A class that only one split has does not shift the others' numbers.
    assert train.classes == test.classes == ("a", "b", "c")
    assert by_name(train) == {"train/b/1.png": "b", "train/c/deep/2.png": "c"}
    assert by_name(test) == {f"{held_out}/a/3.png": "a", f"{held_out}/c/4.png": "c"}
    assert not train.notes


def test_a_held_out_split_with_labels_goes_first(tmp_path: Path) -> None:
    put(tmp_path, "train/a/1.png", "train/b/1.png", "test/1.png", "val/a/2.png", "val/b/2.png")
    assert set(by_name(open_folder(tmp_path, "test"))) == {"val/a/2.png", "val/b/2.png"}


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    put(tmp_path, *[f"{i}.png" for i in range(9)], "more/10.png", "more/deep/11.png")
    train, test = both(tmp_path)
    assert train.labels is None
    assert train.classes is None
    assert (len(train), len(test)) == (10, 1)
    assert not set(train.names) & set(test.names)


def test_one_subfolder_is_no_class_and_many_loose_images_outweigh_two(tmp_path: Path) -> None:
    put(tmp_path / "one", "images/1.png", "images/2.png")
    put(tmp_path / "loose", "1.png", "2.png", "3.png", "a/4.png", "b/5.png")
    for name, count in (("one", 2), ("loose", 5)):
        source = open_folder(tmp_path / name, "train", holdout=0.0)
        assert source.labels is None
        assert len(source) == count


def test_hold_out_is_a_partition_that_does_not_change(tmp_path: Path) -> None:
    put(tmp_path, *[f"{i:02}.png" for i in range(40)])
    train, test = both(tmp_path, holdout=0.3)
    assert sorted(train.names + test.names) == [f"{i:02}.png" for i in range(40)]
    assert len(test) == 12
    assert test.names == sorted(test.names)
    assert test.names != [f"{i:02}.png" for i in range(12)]
    assert open_folder(tmp_path, "test", holdout=0.3).names == test.names
    assert train.fingerprint != test.fingerprint
    with pytest.raises(DataError, match=r"holdout=0\.0"):
        open_folder(tmp_path, "test", holdout=0.0)
    with pytest.raises(ValueError, match="share"):
        open_folder(tmp_path, "train", holdout=1.0)


def test_long_and_foreign_names_are_read(tmp_path: Path) -> None:
    name = f"données/{'x' * 100}/{'y' * 100}/{'z' * 90}/猫 é.png"
    put(tmp_path, name, "a b/c.PNG")
    source = open_folder(tmp_path, "train", holdout=0.0)
    assert source.names == ["a b/c.PNG", name]
    assert source.read(1) == (tmp_path / name).read_bytes()
    assert pickle.loads(pickle.dumps(source.read))(1) == source.read(1)


def test_what_is_no_file_is_skipped_and_counted(tmp_path: Path) -> None:
    put(tmp_path, "a/1.png", "b/1.png", "elsewhere/2.png")
    (tmp_path / "a" / "folder.jpg").mkdir()
    (tmp_path / "a" / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    (tmp_path / "a" / "up").symlink_to(tmp_path)  # no way to go round for ever
    strays = list_folder(tmp_path).strays
    assert any("folder.jpg" in stray for stray in strays)
    assert any("gone.jpg (a broken link)" in stray for stray in strays)
    assert len(strays) == 2
    linked = tmp_path.parent / f"{tmp_path.name}-linked"
    linked.mkdir()
    for kind in ("a", "b"):
        (linked / kind).symlink_to(tmp_path / kind)
    assert "a/1.png" in open_folder(linked, "train", holdout=0.0).names


def test_links_in_a_circle_and_pipes_are_skipped_by_name(tmp_path: Path) -> None:
    put(tmp_path, "1.png", "2.png")
    (tmp_path / "itself.jpg").symlink_to("itself.jpg")
    (tmp_path / "to.jpg").symlink_to("fro.jpg")
    (tmp_path / "fro.jpg").symlink_to("to.jpg")
    os.mkfifo(tmp_path / "pipe.jpg")  # reading it would wait for ever
    listing = list_folder(tmp_path)
    assert listing.names == ["1.png", "2.png"]
    assert [stray.partition(" ")[0] for stray in listing.strays] == [
        *("fro.jpg", "itself.jpg", "pipe.jpg", "to.jpg")
    ]
    assert listing.strays[2] == "pipe.jpg (no file)"
    with pytest.raises(DataError, match=r"itself\.jpg"):
        open_folder(tmp_path, "train", strict=True)


def test_a_file_that_goes_while_the_folder_is_listed_is_a_stray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "1.png", "2.png")
    scan = os.scandir

    class Gone:
        """An entry whose file was there when the folder was read, and is no more."""

        def __init__(self, entry: os.DirEntry[str]) -> None:
            self.name, self.path = entry.name, entry.path

        def is_dir(self) -> bool:
            return False

        def is_file(self) -> bool:
            return True

        def stat(self) -> os.stat_result:
            raise FileNotFoundError(2, "No such file or directory", self.path)

    def scanned(folder: str) -> list[object]:
        return [Gone(entry) if entry.name == "2.png" else entry for entry in scan(folder)]

    monkeypatch.setattr("pellucid.data.walk.os.scandir", scanned)
    listing = list_folder(tmp_path)
    monkeypatch.undo()
    assert listing.names == ["1.png"]
    assert listing.strays == ["2.png (No such file or directory)"]


def test_a_path_longer_than_the_system_opens_is_a_stray(tmp_path: Path) -> None:
    put(tmp_path, "1.png")
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):  # each made from within the one above, for the whole path is too long
        os.mkdir("d" * 250, dir_fd=here)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    listing = list_folder(tmp_path)
    assert listing.names == ["1.png"]
    assert len(listing.strays) == 1
    assert listing.strays[0].endswith("/ (File name too long)")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_files_are_skipped(tmp_path: Path) -> None:
    put(tmp_path, "1.png", "2.png")
    (tmp_path / "2.png").chmod(0)
    source = open_folder(tmp_path, "train", holdout=0.0)
    assert source.names == ["1.png"]
    assert "2.png (not readable)" in source.notes[0]


def test_the_fingerprint_follows_the_files(tmp_path: Path) -> None:
    put(tmp_path, "1.png", "2.png")
    seen = {open_folder(tmp_path, "train", holdout=0.0).fingerprint}
    assert {open_folder(tmp_path, "train", holdout=0.0).fingerprint} == seen
    (tmp_path / "2.png").rename(tmp_path / "3.png")
    seen.add(open_folder(tmp_path, "train", holdout=0.0).fingerprint)
    os.utime(tmp_path / "3.png", (1, 1))
    seen.add(open_folder(tmp_path, "train", holdout=0.0).fingerprint)
    assert len(seen) == 3


def test_a_folder_without_images_says_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "readme.md").write_text("x")
    with pytest.raises(DataError, match=r"holds no image: 1 other file, 1 folder .*photos"):
        open_folder(tmp_path, "train")
