"""A representation, wherever it was made: its images, its dimensions' names, and its like."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from pellucid.data.image_set import ImageSet, open_images
from pellucid.evaluate.extract import Features
from pellucid.evaluate.store import write_features
from pellucid.recipe import resolve
from pellucid.representation.representation import (
    LONGEST_NAME,
    Representation,
    open_representation,
    same_images,
    write_names,
)
from pellucid.run import Run, RunError, start_run

NAMES = ["cat/0.png", "cat/1.png", "dog/0.png", "dog/1.png"]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two images of each of two classes, each of one colour."""
    for number, name in enumerate(NAMES):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 4), (50 * number, 0, 0)).save(path)
    return tmp_path / "photos"


def saved(folder: Path, name: str = "mine.npz", **arrays: Any) -> Path:
    folder.mkdir(exist_ok=True)
    np.savez(folder / name, **{"z": np.eye(4, 3)} | arrays)
    return folder / name


def of(**changes: Any) -> Representation:
    plain = Representation("a", Path("a.npy"), torch.eye(3), ["x", "y", "z"])
    return dataclasses.replace(plain, **changes)


def evaluated(folder: Path) -> tuple[Run, Features]:
    run = start_run(folder, resolve({"head": {"name": "signed"}}))
    u = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    features = Features(u.clone(), u.clone(), u, None, u.clone(), torch.tensor([0, 0, 1, -1]))
    pixels = torch.arange(4, dtype=torch.uint8)[:, None, None, None].expand(4, 3, 2, 2).contiguous()
    images = ImageSet.from_pixels(pixels, features.labels, ("cat", "dog"), NAMES)
    write_features(run, features, images, step=7)
    return run, features


def test_an_evaluated_run(tmp_path: Path) -> None:
    run, features = evaluated(tmp_path / "run")
    found = open_representation(run.folder)
    assert torch.equal(found.z, features.z)
    assert torch.equal(found.labels, features.labels)
    assert (found.label, found.names, found.classes) == ("run", NAMES, ("cat", "dog"))
    assert (found.gate, found.ungated, found.closed, found.scores) == (None, None, None, None)
    assert found.run.folder == run.folder
    assert found.signed
    assert found.thumbnails()[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    (run.folder / "scores.json").write_text("{")
    with pytest.raises(RunError, match=r"scores\.json cannot be read .* again"):
        open_representation(run.folder)


def test_a_run_knows_its_own_labels_and_images(tmp_path: Path, photos: Path) -> None:
    run, _ = evaluated(tmp_path / "run")
    with pytest.raises(RunError, match="is a run, which knows its own images: leave out"):
        open_representation(run.folder, images=photos)
    with pytest.raises(RunError, match="is a run, which knows its own labels: leave out"):
        open_representation(run.folder, labels=photos)


def test_a_bare_file(tmp_path: Path) -> None:
    path = tmp_path / "clip.v2.npy"
    np.save(path, np.eye(3))
    found = open_representation(path)
    assert (found.label, found.origin, found.names) == ("clip.v2", path, ["0", "1", "2"])
    assert (found.labels, found.classes, found.h, found.gate) == (None, None, None, None)
    assert (found.hashes, found.thumbnails, found.run, found.scores) == (None, None, None, None)
    assert not found.signed
    assert not found.named
    assert found.notes == [
        "clip.v2.npy names no images: beside others its rows are taken in their order"
    ]


def test_what_is_neither(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is no run directory and no folder of `pellucid embed`"):
        open_representation(tmp_path)
    with pytest.raises(RunError, match=r"there is no .*nowhere: give a run directory"):
        open_representation(tmp_path / "nowhere")


def test_images_by_name_in_the_order_of_the_file(tmp_path: Path, photos: Path) -> None:
    order = [3, 0, 2]
    names = np.array([NAMES[i] for i in order])
    found = open_representation(saved(tmp_path / "f", z=np.eye(3), names=names), images=photos)
    assert found.names == names.tolist()
    assert found.thumbnails().shape == (3, 3, 4, 6)
    assert found.thumbnails()[:, 0, 0, 0].tolist() == [50 * i for i in order]
    hashes = open_images(str(photos), "train", holdout=0.0).hashes()
    assert found.hashes == [hashes[i] for i in order]
    assert (found.labels.tolist(), found.classes) == ([1, 0, 1], ("cat", "dog"))
    assert "1 images of photos have no features" in found.notes


def test_images_in_sorted_order_where_the_file_names_none(tmp_path: Path, photos: Path) -> None:
    found = open_representation(saved(tmp_path / "f"), images=photos)
    assert found.names == NAMES
    assert found.labels.tolist() == [0, 0, 1, 1]
    assert "mine.npz names no images: taken in the sorted order of photos" in found.notes
    (photos / "dog" / "1.png").write_bytes(b"no image")
    with pytest.raises(RunError, match=r"has 4 images without names, and .* holds 3 that can be"):
        open_representation(saved(tmp_path / "f"), images=photos)


def test_images_that_are_not_there(tmp_path: Path, photos: Path) -> None:
    path = saved(tmp_path / "f", names=np.array([*NAMES[:3], "photos/dog/1.png"]))
    with pytest.raises(
        RunError,
        match=r"lacks 1 of the 4 images of .*, first 'photos/dog/1.png'; its names are such as "
        "'cat/0.png': give the folder that the names are relative to",
    ):
        open_representation(path, images=photos)
    with pytest.raises(RunError, match=r"images of .* cannot be read: .*nowhere"):
        open_representation(path, images=tmp_path / "nowhere")


def test_unreadable_images_matter_only_where_they_have_features(
    tmp_path: Path, photos: Path
) -> None:
    (photos / "dog" / "1.png").write_bytes(b"no image")
    path = saved(tmp_path / "f", z=np.eye(3), names=np.array(NAMES[:3]))
    assert open_representation(path, images=photos).names == NAMES[:3]
    path = saved(tmp_path / "f", names=np.array(NAMES))
    with pytest.raises(RunError, match=r"lacks 1 of the 4 images of .*, first 'dog/1.png'"):
        open_representation(path, images=photos)


def test_given_labels_go_before_those_of_the_file_and_of_folders(
    tmp_path: Path, photos: Path
) -> None:
    own = saved(tmp_path / "f", labels=np.array([0, 1, 2, 3]))
    assert open_representation(own, images=photos).labels.tolist() == [0, 1, 2, 3]
    (tmp_path / "given.txt").write_text("b\na\na\nb\n")
    found = open_representation(own, images=photos, labels=tmp_path / "given.txt")
    assert (found.labels.tolist(), found.classes) == ([1, 0, 0, 1], ("a", "b"))
    assert "labels are those of given.txt, not of mine.npz" in found.notes


def test_labels_are_matched_with_the_names_of_the_images(tmp_path: Path, photos: Path) -> None:
    rows = "".join(f"{name},{number}\n" for number, name in reversed(list(enumerate(NAMES))))
    (tmp_path / "given.csv").write_text(f"file,label\n{rows}")
    found = open_representation(saved(tmp_path / "f"), images=photos, labels=tmp_path / "given.csv")
    assert found.labels.tolist() == [0, 1, 2, 3]


def test_where_hard_gates_took_something_away() -> None:
    gate, ungated = torch.tensor([[0.4, 0.5, 0.6]]), torch.tensor([[1.0, 0.0, 2.0]])
    gated = {"z": torch.tensor([[0.0, 0.0, 2.0]]), "names": ["x"], "gate": gate, "ungated": ungated}
    assert of(**gated, threshold=0.5).closed.tolist() == [[True, False, False]]
    assert of(**gated).closed is None
    assert of(**gated | {"ungated": None}, threshold=0.5).closed is None


def test_an_image_by_its_name_or_number() -> None:
    found = of(names=["2", "y", "0"])
    assert [found.position(text) for text in ("y", "1", "2", "0")] == [1, 1, 0, 2]  # names first
    for text in ("3", "-1", "", "Y", "1.0", "\u0661", " 1"):
        with pytest.raises(RunError, match=r"a has no image .*: give a number from 0 to 2, a name"):
            found.position(text)


def test_names_of_dimensions_are_kept_beside_a_file_and_inside_a_folder(tmp_path: Path) -> None:
    for origin, place in (
        (tmp_path / "a.npy", tmp_path / "a.npy.names.json"),
        (tmp_path, tmp_path / "names.json"),
    ):
        found = of(origin=origin)
        assert found.dimension_names() == {}
        written = tmp_path / "from-the-page.json"
        written.write_text(json.dumps({"2": " stripes ", "0": "ü 猫", "1": "  "}))
        assert found.keep_names(written) == {0: "ü 猫", 2: "stripes"}
        assert found.names_file() == place
        assert found.dimension_names() == {0: "ü 猫", 2: "stripes"}
        write_names(place, {1: "x" * 500})
        assert found.dimension_names() == {1: "x" * LONGEST_NAME}
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[1]", 'must hold names by dimension, such as {"17": "stripes"}'),
        ('{"0": 1}', "must hold names by dimension"),
        ('{"3": "a"}', "names dimension '3'; there are 0 to 2"),
        ('{"-1": "a"}', "names dimension '-1'"),
        ('{"\\u0661": "a"}', "names dimension '\u0661'"),
        ('{"one": "a"}', "names dimension 'one'"),
    ],
)
def test_damaged_names_are_refused_and_not_kept(tmp_path: Path, text: str, words: str) -> None:
    found = of(origin=tmp_path)
    (tmp_path / "new.json").write_text(text)
    with pytest.raises(RunError) as refused:
        found.keep_names(tmp_path / "new.json")
    assert words in str(refused.value)
    assert not found.names_file().exists()
    (tmp_path / "names.json").write_text(text)
    with pytest.raises(RunError):
        found.dimension_names()
    with pytest.raises(RunError, match="cannot be read"):
        found.keep_names(tmp_path / "nowhere.json")


def test_the_same_images() -> None:
    hashes = ["p", "q", "r"]
    same_images(of(), of(label="b"))
    same_images(of(hashes=hashes), of(hashes=hashes, names=["1", "2", "3"]))  # by content
    same_images(of(hashes=hashes), of(names=["0", "1", "2"], named=False))  # by number alone
    same_images(of(hashes=hashes), of())  # by name, where one knows no content
    with pytest.raises(RunError, match="a and b are of different images: 3 and 2 of them"):
        same_images(of(), of(label="b", z=torch.eye(2), names=["x", "y"]))
    with pytest.raises(RunError, match="2 of 3 differ in name, first 'y', 'z'"):
        same_images(of(), of(names=["x", "z", "y"]))
    with pytest.raises(RunError, match="1 of 3 differ in content, first 'z'"):
        same_images(of(hashes=hashes), of(hashes=["p", "q", "s"]))
