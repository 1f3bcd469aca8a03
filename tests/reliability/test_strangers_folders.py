"""A folder of features from a stranger names no file elsewhere, and no file that runs."""

import hashlib
import json
import os
import pickle
import random
import shutil
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torchvision import datasets

from pellucid.cli import main
from pellucid.data.known import KNOWN, open_source
from pellucid.data.source import DataError
from pellucid.embed.manifest import write_manifest
from pellucid.embed.shard import Layout, write_shard
from pellucid.evaluate.extract import Features
from pellucid.representation import open_representation
from pellucid.run import RunError

ROWS, DIMENSIONS = 6, 3
SETTINGS = {
    "format": 1, "files": "parquet", "layout": "dense", "stages": ["z", "h"], "split": "test",
    "classes": ["a", "b"], "threshold": None,
}  # fmt: skip


@pytest.fixture(params=["parquet", "npy"])
def features(request, tmp_path):
    """A finished folder in either layout, as it comes in an archive."""
    folder = tmp_path / "features"
    folder.mkdir()
    z = torch.rand(ROWS, DIMENSIONS, generator=torch.Generator().manual_seed(0))
    labels, names = torch.arange(ROWS) % 2, [f"{row}.png" for row in range(ROWS)]
    result = {"rows": ROWS, "dimensions": DIMENSIONS, "features": DIMENSIONS, "skipped": []}
    if request.param == "parquet":
        shard = folder / "features-00000-of-00001.parquet"
        layout = Layout(("z", "h"), sparse=False, text=True)
        write_shard(shard, Features(z, z, z, None, z, labels), names, layout, {})
        result |= {"shards": [{"file": shard.name, "rows": ROWS}], "arrays": []}
    else:
        for name, values in {"z": z, "h": z, "labels": labels}.items():
            np.save(folder / f"{name}.npy", values.numpy())
        (folder / "files.json").write_text(json.dumps(names))
        arrays = ["z.npy", "h.npy", "labels.npy", "files.json"]
        result |= {"shards": [], "arrays": arrays}
    write_manifest(folder, SETTINGS | {"files": request.param}, **result)
    return folder


def change(folder, **changes):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def assert_refused(folder, words, capsys):
    out = folder.parent / "page.html"
    assert main(["explore", str(folder), "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {folder}"), said
    assert words in said
    assert not out.exists()


def test_the_folder_is_read(features):
    assert open_representation(features).z.shape == (ROWS, DIMENSIONS)
    assert open_representation(features).classes == ("a", "b")


ELSEWHERE = ["../x.parquet", "/tmp/x.parquet", "a/b", "a\\b", "C:\\x", "C:x", "..", ".", "", "a\0b"]


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("key", ["shards", "arrays"])
def test_a_name_of_another_folder_is_refused(features, capsys, key, name):
    change(features, **{key: [{"file": name, "rows": ROWS}] if key == "shards" else [name]})
    assert_refused(features, "is no file of the folder", capsys)


def test_a_link_out_of_the_folder_is_refused(features, capsys):
    for path in sorted(features.iterdir()):
        if path.name == "manifest.json":
            continue
        outside = path.rename(features.parent / path.name)
        path.symlink_to(outside)
        assert_refused(features, f"{path.name} is a link out of its folder", capsys)
        path.unlink()
        inside = outside.rename(features / "elsewhere")
        path.symlink_to(inside.name)  # a link within it is a file like any other
        assert len(open_representation(features).z) == ROWS
        path.unlink()
        inside.rename(path)


WRONG = [
    {"stages": ["z", "../../z"]},
    {"stages": ["h"]},
    {"stages": "z"},
    {"stages": [["z"]]},
    {"files": "pickle"},
    {"layout": 3},
    {"rows": 10**9},
    {"rows": -1},
    {"rows": "6"},
    {"rows": True},
    {"rows": 0},
    {"dimensions": 10**9},
    {"dimensions": 2},
    {"features": None},
    {"features": 2.0},
    {"classes": "ab"},
    {"classes": [1, 2]},
    {"classes": ["a"]},
    {"threshold": "0.5"},
    {"skipped": 3},
    {"shards": {"file": "a"}},
    {"shards": ["a"]},
    {"shards": [{"file": 3, "rows": 6}]},
    {"shards": [{"file": "a.parquet", "rows": -6}]},
    {"shards": [{"file": "missing.parquet", "rows": 6}], "files": "parquet"},
    {"shards": [], "files": "parquet"},
    {"arrays": [3]},
    {"format": 2},
    {"complete": False},
]


@pytest.mark.parametrize("changes", WRONG)
def test_a_manifest_that_does_not_fit(features, capsys, changes):
    change(features, **changes)
    assert_refused(features, "", capsys)


def test_a_manifest_lacks_a_key(features, capsys):
    whole = json.loads((features / "manifest.json").read_text())
    for key in ("files", "layout", "stages", "classes", "threshold", "rows", "shards", "skipped"):
        (features / "manifest.json").write_text(json.dumps(whole))
        less = {name: value for name, value in whole.items() if name != key}
        (features / "manifest.json").write_text(json.dumps(less))
        assert_refused(features, f"{key} is missing", capsys)


def test_other_columns_and_arrays_are_refused(features, capsys):
    if (features / "z.npy").exists():
        for name, values in {"labels": np.zeros(2), "h": np.array(["a"] * ROWS)}.items():
            kept = (features / f"{name}.npy").read_bytes()
            np.save(features / f"{name}.npy", values)
            assert_refused(features, "", capsys)
            (features / f"{name}.npy").write_bytes(kept)
        (features / "files.json").write_text('{"a": 1}')
        assert_refused(features, "files.json is no list of names", capsys)
        (features / "z.npy").unlink()
        os.mkfifo(features / "z.npy")  # opening it would wait for ever
        assert_refused(features, "z.npy cannot be read (it is no file)", capsys)
        return
    shard = features / "features-00000-of-00001.parquet"
    whole = pq.read_table(shard)
    for name, values in {
        "label": pa.array(["a"] * ROWS),
        "h": pa.array([1.0] * ROWS),
        "z": pa.array([["a", "b", "c"]] * ROWS),
        "file": pa.array([None] * ROWS, pa.string()),
    }.items():
        pq.write_table(whole.set_column(whole.schema.get_field_index(name), name, values), shard)
        assert_refused(features, "names no image" if name == "file" else name, capsys)
    pq.write_table(whole.drop_columns(["h"]), shard)
    assert_refused(features, f"{shard.name}: column h cannot be read", capsys)


def test_a_damaged_manifest_is_read_or_refused(features, tries, figure):
    path, dice, refused, count = features / "manifest.json", random.Random(0), 0, tries(40, 3000)
    content = path.read_bytes()
    for _ in range(count):
        changed = bytearray(content)
        for _ in range(dice.randint(1, 3)):
            place = dice.randrange(len(changed))
            changed[place : place + dice.randint(0, 3)] = dice.choice(
                [
                    b"",
                    b"0",
                    b"-",
                    b"null",
                    b"[",
                    b"]",
                    b'"',
                    b"9" * 20,
                    b"NaN",
                    b"{}",
                    b"true",
                    b"\xff",
                ]
            )
        path.write_bytes(bytes(changed))
        try:
            assert open_representation(features).z.shape == (ROWS, DIMENSIONS)
        except RunError as error:
            assert str(features) in str(error)  # noqa: PT017
            refused += 1
    assert refused > 0
    figure("damaged manifests", cases=count, refused=refused)


class Marker:
    """Pickled, this is code that makes a folder when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_an_extension_type_runs_no_code(tmp_path):
    field = pa.field(
        "z",
        pa.list_(pa.float32()),
        metadata={
            "ARROW:extension:name": "arrow.py_extension_type",
            "ARROW:extension:metadata": pickle.dumps(Marker(tmp_path / "ran")),
        },
    )
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table([pa.array([[1.0], [2.0]])], schema=pa.schema([field])), path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyarrow says that it does not know the type
        assert open_representation(path).z.tolist() == [[1.0], [2.0]]
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def cifar(tmp_path, monkeypatch):
    """Files in CIFAR-10's layout that torchvision takes for the right ones, by their checksums."""
    folder = tmp_path / KNOWN["cifar10"].folder
    folder.mkdir()
    batch = {"data": np.zeros((2, 3072), np.uint8), "labels": [0, 1]}
    names = [f"data_batch_{number}" for number in range(1, 6)]
    for name in [*names, "test_batch"]:
        (folder / name).write_bytes(pickle.dumps(batch))
    classes = {"label_names": [f"class {number}" for number in range(10)]}
    (folder / "batches.meta").write_bytes(pickle.dumps(classes))
    sums = {path.name: hashlib.md5(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    of = datasets.CIFAR10
    monkeypatch.setattr(of, "train_list", [[name, sums[name]] for name in names])
    monkeypatch.setattr(of, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(of, "meta", of.meta | {"md5": sums["batches.meta"]})
    return folder


def test_torchvisions_pickles_are_loaded_only_with_the_right_checksum(cifar, tmp_path):
    assert len(open_source("cifar10", "train", root=tmp_path)) == 10
    bomb, ran = pickle.dumps(Marker(tmp_path / "ran")), tmp_path / "ran"
    for path in sorted(cifar.iterdir()):
        kept = path.read_bytes()
        for content in (bomb, bomb + kept, kept + bomb):
            path.write_bytes(content)
            for split in ("train", "test"):
                with pytest.raises(DataError, match=r"cifar10 in .* is damaged"):
                    open_source("cifar10", split, root=tmp_path)
        path.write_bytes(kept)
        assert not ran.exists()
    assert len(open_source("cifar10", "test", root=tmp_path)) == 2
    pickle.loads(bomb)  # what would have happened
    assert ran.is_dir()
    shutil.rmtree(ran)
