import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from torchvision import datasets

from pellucid.data.decode import decode
from pellucid.data.known import KNOWN, cache_folder, open_source
from pellucid.data.source import DataError


def table(count: int, classes: int, **more: Any) -> pa.Table:
    out = io.BytesIO()
    Image.new("RGB", (4, 4)).save(out, "PNG")
    return pa.table(
        {"img": [out.getvalue()] * count, "label": [i % classes for i in range(count)], **more}
    )


def write(path: Path, content: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, path)


def test_a_name_finds_its_parquet_files_among_others(tmp_path: Path) -> None:
    for split, count in (("train", 20), ("test", 10)):
        file = f"{split}-00000-of-00001.parquet"
        write(tmp_path / "cifar10" / "plain_text" / file, table(count, 10))
        fine = {"fine_label": [i % 100 for i in range(10 * count)]}
        write(tmp_path / "cifar100" / "data" / file, table(10 * count, 10, **fine))
    ten = open_source("cifar10", "train", root=tmp_path)
    assert (len(ten), len(ten.classes or ())) == (20, 10)
    hundred = open_source("cifar100", "test", root=str(tmp_path))
    assert (len(hundred), len(hundred.classes or ())) == (100, 100)
    coarse = open_source("cifar100", "test", root=tmp_path, label_column="label")
    assert len(coarse.classes or ()) == 10
    assert len(open_source("cifar10", "train", root=tmp_path / "cifar10" / "plain_text")) == 20
    with pytest.raises(DataError, match="several sets of parquet files"):
        open_source(str(tmp_path), "train")
    write(tmp_path / "x" / "train.parquet", table(200, 100))
    with pytest.raises(DataError, match=r"cifar10 has 10 classes, and what is in .* 100"):
        open_source("cifar10", "train", root=tmp_path / "x", holdout=0.0)


def test_stl10_trains_on_its_unlabelled_images_too(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", table(10, 10))
    write(tmp_path / "test.parquet", table(10, 10))
    write(tmp_path / "unlabeled.parquet", table(5, 1))
    train = open_source("stl10", "train", root=tmp_path)
    assert train.labels is not None
    assert train.labels.tolist() == [*range(10), *[-1] * 5]
    assert len(open_source("stl10", "test", root=tmp_path)) == 10


def torchvision_cifar10(root: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Files in torchvision's layout, of two batches and a test batch, with their own checksums."""
    folder = root / KNOWN["cifar10"].folder
    folder.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (30, 3 * 32 * 32), dtype=np.uint8)

    def put(name: str, content: object) -> list[str]:
        data = pickle.dumps(content)
        (folder / name).write_bytes(data)
        return [name, hashlib.md5(data).hexdigest()]

    batches = [
        put(f"batch_{i}", {"data": pixels[10 * i : 10 * i + 10], "labels": list(range(10))})
        for i in range(3)
    ]
    meta = put("batches.meta", {"label_names": [f"kind {i}" for i in range(10)]})
    monkeypatch.setattr(datasets.CIFAR10, "train_list", batches[:2])
    monkeypatch.setattr(datasets.CIFAR10, "test_list", batches[2:])
    described = {"filename": meta[0], "key": "label_names", "md5": meta[1]}
    monkeypatch.setattr(datasets.CIFAR10, "meta", described)
    return pixels.reshape(30, 3, 32, 32).transpose(0, 2, 3, 1)


@pytest.mark.parametrize("download", [False, True])
def test_torchvisions_own_files_are_read_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, download: bool
) -> None:
    pixels = torchvision_cifar10(tmp_path, monkeypatch)
    train = open_source("cifar10", "train", root=tmp_path, download=download)
    test = open_source("cifar10", "test", root=tmp_path)
    assert (len(train), len(test)) == (20, 10)
    assert train.classes == tuple(f"kind {i}" for i in range(10))
    sent = pickle.loads(pickle.dumps(train.read))
    for source, read, start in ((train, sent, 0), (test, test.read, 20)):
        assert source.labels is not None
        for i in (0, len(source) - 1):
            assert np.array_equal(decode(read(i), source.names[i]), pixels[start + i])
    assert train.fingerprint != test.fingerprint


def test_torchvisions_damaged_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torchvision_cifar10(tmp_path, monkeypatch)
    (tmp_path / KNOWN["cifar10"].folder / "batch_0").write_bytes(b"x")
    with pytest.raises(DataError, match=f"cifar10 in {tmp_path} is damaged"):
        open_source("cifar10", "train", root=tmp_path)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "stl10"])
def test_a_set_that_is_not_there_says_both_ways(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for root in (None, tmp_path):
        with pytest.raises(DataError, match=f"{name} is not in {tmp_path}.*root.*download"):
            open_source(name, "train", root=root)


def test_imagenet_needs_a_root(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"imagenet100 cannot be fetched: set data\.root"):
        open_source("imagenet100", "train", download=True)
    with pytest.raises(DataError, match="is no folder"):
        open_source("imagenet", "train", root=tmp_path / "nowhere")
    for kind in range(100):
        for split in ("train", "val"):
            path = tmp_path / split / f"n{kind:08}" / "1.JPEG"
            path.parent.mkdir(parents=True)
            Image.new("RGB", (2, 2)).save(path, "JPEG")
    source = open_source("imagenet100", "test", root=tmp_path)
    assert source.names[7] == "val/n00000007/1.JPEG"
    with pytest.raises(DataError, match="imagenet has 1000 classes"):
        open_source("imagenet", "train", root=tmp_path)


def test_an_unknown_name_gets_the_near_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"cifar-10 is no known.*did you mean cifar10"):
        open_source("cifar-10", "train")
    with pytest.raises(DataError, match=r"Known: cifar10, cifar100, stl10, imagenet100, imagenet"):
        open_source("/nowhere/at/all", "train")
    with pytest.raises(ValueError, match="train or test, not 'val'"):
        open_source("cifar10", "val")
    (tmp_path / "set.zip").write_bytes(b"x")
    with pytest.raises(DataError, match=r"set\.zip is a file"):
        open_source("set.zip", "train")


def test_images_beside_a_table_without_a_split_are_the_set(tmp_path: Path) -> None:
    Image.new("RGB", (2, 2)).save(tmp_path / "a.png")
    write(tmp_path / "metadata.parquet", pa.table({"file_name": ["a.png"]}))
    assert open_source(str(tmp_path), "train", holdout=0.0).names == ["a.png"]
    with pytest.raises(DataError, match=r"metadata\.parquet; remove"):
        open_source(str(tmp_path), "train", strict=True)
    (tmp_path / "a.png").unlink()
    write(tmp_path / "metadata.parquet", table(4, 2))
    assert len(open_source("", "train", root=tmp_path, holdout=0.0)) == 4


def test_the_cache_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder(tmp_path) == tmp_path
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "pellucid"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == Path.home() / ".cache" / "pellucid"
