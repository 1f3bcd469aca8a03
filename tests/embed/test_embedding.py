"""Features on disk: what is written, interrupted, resumed, refused and read back."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from pellucid.data.image_set import open_images
from pellucid.data.source import DataError
from pellucid.embed import Wanted, embed, extraction
from pellucid.evaluate.extract import Features, extract
from pellucid.representation.representation import open_representation
from pellucid.run import Run, RunError

ALL = ("z", "h", "gate", "ungated")
LAYOUTS = [{}, {"sparse": True}, {"files": "npy"}]
IDS = ["parquet", "sparse", "npy"]


def embedded(run: Run, data: Path, out: Path, **changes: Any) -> dict[str, Any]:
    given = {"batch": 4, "shard_rows": 8, "device": "cpu", "say": lambda _: None} | changes
    wanted = given.pop("wanted", Wanted(str(data)))
    return embed(run, wanted, out, **given)


def extracted(run: Run, data: Path) -> tuple[Features, Any]:
    images = open_images(str(data), "train", holdout=0.0)
    branch, _ = run.trained_branch()
    cpu = torch.device("cpu")
    return extract(branch, run.preprocess, images, device=cpu, precision="fp32", batch=4), images


def content(out: Path) -> dict[str, bytes]:
    """The files of a folder, but for its lock."""
    files = [p for p in sorted(out.rglob("*")) if p.is_file() and p.suffix != ".lock"]
    return {str(p.relative_to(out)): p.read_bytes() for p in files}


@pytest.mark.parametrize("layout", LAYOUTS, ids=IDS)
def test_what_is_written_is_what_evaluation_extracts(
    make_run: Callable[..., Run], folder: Path, tmp_path: Path, layout: dict[str, Any]
) -> None:
    run, out = make_run(), tmp_path / "out"
    manifest = embedded(run, folder, out, stages=ALL, **layout)
    features, images = extracted(run, folder)
    assert 0 < (features.z != 0).float().mean() < 0.6
    found = open_representation(out)
    assert torch.equal(found.z, features.z)
    assert torch.equal(found.h, features.h)
    assert torch.equal(found.gate, features.gate)
    assert torch.equal(found.ungated, features.ungated)
    assert torch.equal(found.labels, images.labels)
    assert torch.equal(found.closed, (features.z == 0) & (features.ungated != 0))
    assert found.closed.any()
    assert (found.names, found.classes) == (images.names, ("cat", "dog"))
    assert (found.label, found.origin, found.threshold) == ("out", out, 0.5)
    assert (found.run, found.scores, found.hashes, found.thumbnails) == (None, None, None, None)
    said = json.loads((out / "manifest.json").read_text())
    assert said == json.loads(json.dumps(manifest))
    expected = {
        "format": 1, "run": "a", "method": "bayesncl", "step": 8, "encoder": "resnet18-thin",
        "image_size": 8, "threshold": 0.5, "data": "photos", "split": "all", "images": 21,
        "classes": ["cat", "dog"], "precision": "fp32", "batch": 4, "stages": list(ALL),
        "complete": True, "rows": 21, "dimensions": 24, "features": features.h.shape[1],
        "skipped": [],
    }  # fmt: skip
    assert {key: said[key] for key in expected} == expected
    assert str(tmp_path) not in (out / "manifest.json").read_text()


def test_the_columns_of_a_shard(make_run: Callable[..., Run], folder: Path, tmp_path: Path) -> None:
    embedded(make_run(), folder, tmp_path / "dense")
    embedded(make_run(), folder, tmp_path / "sparse", sparse=True, stages=["z"])
    name = "features-00002-of-00003.parquet"
    dense = pq.read_table(tmp_path / "dense" / name)
    sparse = pq.read_table(tmp_path / "sparse" / name)
    lists = "fixed_size_list<element: float>"
    kinds = {field.name: str(field.type) for field in dense.schema}
    assert list(kinds) == ["file", "label", "z", "h", "gate"]
    assert (kinds["file"], kinds["label"], kinds["z"]) == ("string", "int64", f"{lists}[24]")
    assert {f.name: str(f.type) for f in sparse.schema} == {
        "file": "string", "label": "int64",
        "z_index": "list<element: int32>", "z_value": "list<element: float>",
    }  # fmt: skip
    assert len(dense) == 21 - 16
    whole = np.stack(dense["z"].to_pylist())
    for row, (places, values) in enumerate(
        zip(sparse["z_index"].to_pylist(), sparse["z_value"].to_pylist(), strict=True)
    ):
        assert places == np.flatnonzero(whole[row]).tolist()
        assert values == whole[row][places].tolist()
    alone = open_representation(tmp_path / "sparse" / name)  # a shard says what it holds
    assert torch.equal(alone.z, torch.from_numpy(whole).float())
    assert alone.classes == ("cat", "dog")


def test_arrays_are_npy_files_that_can_be_mapped(
    make_run: Callable[..., Run], folder: Path, tmp_path: Path
) -> None:
    run, out = make_run("signed", "signed"), tmp_path / "out"
    embedded(run, folder, out, files="npy")
    features, images = extracted(run, folder)
    assert sorted(content(out)) == ["files.json", "h.npy", "labels.npy", "manifest.json", "z.npy"]
    z = np.load(out / "z.npy", mmap_mode="r")
    assert (z.dtype, z.shape) == (np.float32, (21, 24))
    assert np.array_equal(z, features.z.numpy())
    assert np.load(out / "labels.npy").tolist() == images.labels.tolist()
    assert json.loads((out / "files.json").read_text()) == images.names
    assert open_representation(out).signed


class Killed(BaseException):
    pass


@pytest.mark.parametrize("layout", LAYOUTS, ids=IDS)
def test_killed_at_any_write_it_goes_on_to_the_same_bytes(
    make_run: Callable[..., Run],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    layout: dict[str, Any],
) -> None:
    run, sync, writes = make_run(), os.fsync, 0
    left: dict[Path, bytes] = {}

    def cut_off(at: int | None) -> None:
        nonlocal writes
        writes = 0

        def half_written(descriptor: int) -> None:
            nonlocal writes
            writes += 1
            if writes - 1 == at:
                path = Path(f"/proc/self/fd/{descriptor}").readlink()
                left[path] = path.read_bytes()[: path.stat().st_size // 2]
                raise Killed
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", half_written)

    cut_off(None)
    embedded(run, folder, tmp_path / "whole", **layout)
    whole, total = content(tmp_path / "whole"), writes
    assert total >= 5  # two manifests, three shards
    for at in range(total):
        out = tmp_path / f"killed-{at}"
        cut_off(at)
        with pytest.raises(Killed):
            embedded(run, folder, out, **layout)
        for path, half in left.items():
            path.write_bytes(half)  # who is killed leaves it, and tidies nothing
        left.clear()
        with pytest.raises(RunError, match=r"is unfinished|holds neither"):
            open_representation(out)
        cut_off(None)
        embedded(run, folder, out, **layout)
        assert content(out) == whole, f"killed at write {at} of {total}"


def test_killed_while_tidying_up(
    make_run: Callable[..., Run], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise Killed

    run = make_run()
    embedded(run, folder, tmp_path / "whole", files="npy")
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", killed)
        with pytest.raises(Killed):
            embedded(run, folder, tmp_path / "out", files="npy")
    embedded(run, folder, tmp_path / "out", files="npy")
    assert content(tmp_path / "out") == content(tmp_path / "whole")
    assert not (tmp_path / "out" / "parts").exists()


def counting(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The images of each extraction."""
    calls: list[list[int]] = []

    def counted(*given: Any, indices: torch.Tensor, **named: Any) -> Features:
        calls.append(indices.tolist())
        return extract(*given, indices=indices, **named)

    monkeypatch.setattr(extraction, "extract", counted)
    return calls


def test_only_what_is_missing_or_damaged_is_written(
    make_run: Callable[..., Run], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out, said = make_run(), tmp_path / "out", list[str]()
    embedded(run, folder, out)
    whole, calls = content(out), counting(monkeypatch)
    embedded(run, folder, out, say=said.append)
    assert (calls, said) == ([], [f"{out} is finished: nothing to do"])

    (out / "features-00001-of-00003.parquet").unlink()
    embedded(run, folder, out, say=said.append)
    assert calls == [list(range(8, 16))]
    assert "2 of 3 shards are there already" in said
    assert content(out) == whole

    calls.clear()
    shard = out / "features-00000-of-00003.parquet"
    shard.write_bytes(shard.read_bytes()[:-100])
    (out / "features-00002-of-00003.parquet").unlink()
    embedded(run, folder, out)
    assert calls == [list(range(8)), list(range(16, 21))]
    assert content(out) == whole


def test_a_shard_of_other_settings_is_not_taken(
    make_run: Callable[..., Run], folder: Path, tmp_path: Path
) -> None:
    one, other = make_run("a"), make_run("b", seed=1)
    embedded(one, folder, tmp_path / "a")
    embedded(other, folder, tmp_path / "b")
    whole, name = content(tmp_path / "a"), "features-00001-of-00003.parquet"
    (tmp_path / "a" / name).write_bytes((tmp_path / "b" / name).read_bytes())
    (tmp_path / "a" / "features-00000-of-00003.parquet").unlink()
    embedded(one, folder, tmp_path / "a")
    assert content(tmp_path / "a") == whole


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"run": "b"}, 'run: "a" there, "b" asked; weights: "'),
        ({"data": "renamed"}, 'data: "photos" there, "renamed" asked'),
        ({"data": "fewer"}, "images: 21 there, 20 asked"),
        ({"data": "changed/photos"}, "images_digest: "),
        ({"batch": 5}, "batch: 4 there, 5 asked"),
        ({"shard_rows": 9}, "shard_rows: 8 there, 9 asked"),
        ({"sparse": True}, 'layout: "dense" there, "sparse" asked'),
        ({"files": "npy"}, 'files: "parquet" there, "npy" asked'),
        ({"stages": ["z"]}, 'stages: ["z", "h", "gate"] there, ["z"] asked'),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_folder_of_something_else_is_refused(
    make_run: Callable[..., Run],
    put_images: Callable[..., None],
    folder: Path,
    tmp_path: Path,
    change: dict[str, Any],
    words: str,
) -> None:
    embedded(make_run(), folder, tmp_path / "out")
    before = content(tmp_path / "out")
    run = make_run(change.pop("run", "a"), seed=1 if "run: " in words else 0)
    name = change.pop("data", "photos")
    if name != "photos":
        names = [f"{'cat' if i % 3 else 'dog'}/{i:02d}.png" for i in range(21)]
        names = names[: 20 if name == "fewer" else 21]
        put_images(tmp_path / name, *names, seed=int("/" in name))
    with pytest.raises(RunError, match="holds features of something else") as refused:
        embedded(run, tmp_path / name, tmp_path / "out", **change)
    assert words in str(refused.value)
    assert content(tmp_path / "out") == before


def test_a_later_checkpoint_is_refused(
    make_run: Callable[..., Run], folder: Path, tmp_path: Path
) -> None:
    run = make_run()
    embedded(run, folder, tmp_path / "out")
    (run.folder / "checkpoint" / "00000008").rename(run.folder / "checkpoint" / "00000016")
    state = run.folder / "checkpoint" / "00000016" / "state.json"
    state.write_text(state.read_text().replace('"step": 8', '"step": 16'))
    with pytest.raises(RunError, match="step: 8 there, 16 asked"):
        embedded(run, folder, tmp_path / "out")


def test_other_folders_are_left_alone(
    make_run: Callable[..., Run], folder: Path, tmp_path: Path
) -> None:
    run = make_run()
    with pytest.raises(RunError, match=r"is not empty and holds no manifest.json \(but 'cat'\)"):
        embedded(run, folder, folder)
    with pytest.raises(RunError, match=r"\.json'\); choose another --out|'checkpoint'"):
        embedded(run, folder, run.folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="is a file"):
        embedded(run, folder, tmp_path / "file")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "manifest.json").write_text('{"name": "a web page"}')
    with pytest.raises(RunError, match="has format None, this version reads 1"):
        embedded(run, folder, tmp_path / "odd")
    (tmp_path / "odd" / "manifest.json").write_text("{")
    with pytest.raises(RunError, match=r"manifest\.json cannot be read"):
        embedded(run, folder, tmp_path / "odd")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stages": ["z", "u"]}, "there is no 'u' to write: choose of z, h, gate, ungated"),
        ({"stages": ["h"]}, "z is what the folder is read for"),
        ({"stages": ["z", "gate"]}, "has no gates to write: its head is signed"),
        ({"sparse": True, "files": "npy"}, "an npy file is dense"),
        ({"batch": 0}, "must be at least 1, not 0"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(
    make_run: Callable[..., Run], folder: Path, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(RunError, match=words):
        embedded(make_run(head="signed"), folder, tmp_path / "out", **change)
    assert not (tmp_path / "out").exists()


def test_a_diverged_run_leaves_no_shard(
    make_run: Callable[..., Run], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    branch, step = run.trained_branch()
    with torch.no_grad():
        next(branch.projector.parameters())[0] = float("nan")
    monkeypatch.setattr(Run, "trained_branch", lambda _: (branch, step))
    with pytest.raises(ValueError, match="u is not finite on 8 of 8 images"):
        embedded(run, folder, tmp_path / "out")
    assert list(content(tmp_path / "out")) == ["manifest.json"]


def test_hostile_names_come_back(
    make_run: Callable[..., Run], put_images: Callable[..., None], tmp_path: Path
) -> None:
    names = [
        "a\nb.png", "ü 猫.png", "a\\udcff.png", "</script>.png",
        "," + "x" * 200 + "/" + "y" * 240 + ".png", " .png",
        '"quoted".png', "\x1b[31m.png", b"\xff\xfe.png",
    ]  # fmt: skip
    for number, chosen in enumerate((names, names[:-1])):
        root = tmp_path / f"photos-{number}"
        put_images(root, *chosen)
        for layout, name in zip(LAYOUTS, IDS, strict=True):
            out = tmp_path / f"{name}-{number}"
            manifest = embedded(make_run(), root, out, **layout)
            assert manifest["file_names"] == ("bytes" if number == 0 else "text")
            texts = [n if isinstance(n, str) else os.fsdecode(n) for n in chosen]
            found = open_representation(out, images=root)
            assert sorted(found.names) == sorted(texts)
            assert all((root / name).is_file() for name in found.names)
            assert len(found.thumbnails()) == len(texts)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS, ids=IDS)
def test_unreadable_images_are_left_out_and_listed(
    make_run: Callable[..., Run],
    folder: Path,
    tmp_path: Path,
    streamed: bool,
    layout: dict[str, Any],
) -> None:
    readable, _ = extracted(make_run(), folder)
    bad = [0, 7, 8, 20]  # the first and the last of all, and the first and the last of a shard
    names = open_images(str(folder), "train", holdout=0.0).names
    for index in bad[:3]:
        (folder / names[index]).write_bytes(b"\x89PNG\r\n")
    (folder / names[20]).write_bytes(b"")
    limit = {"memory_limit_gb": 1e-9} if streamed else {}
    run, out = make_run("b", **limit, stored_size=8), tmp_path / "out"
    with pytest.raises(DataError, match="cannot be read, and at most 0 may be"):
        embedded(run, folder, tmp_path / "no", **layout)
    wanted = Wanted(str(folder), bad_share=0.25)
    manifest = embedded(run, folder, out, wanted=wanted, **layout)
    assert manifest["rows"] == 17
    assert manifest["images"] == (21 if streamed else 17)
    assert [entry["file"] for entry in manifest["skipped"]] == [names[i] for i in bad]
    assert manifest["skipped"][-1]["reason"] == "empty: 0 bytes"
    found = open_representation(out)
    kept = [i for i in range(21) if i not in bad]
    assert found.names == [names[i] for i in kept]
    assert found.labels.tolist() == [readable.labels[i] for i in kept]
    torch.testing.assert_close(found.z, readable.z[kept], atol=1e-5, rtol=1e-5)
    assert "4 unreadable images are left out: see manifest.json" in found.notes


def test_a_reason_does_not_name_the_place(
    make_run: Callable[..., Run], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = open_images(str(folder), "train", holdout=0.0).names[3]
    read = Path.read_bytes

    def refused(path: Path) -> bytes:
        if path == folder / name:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refused)
    (folder / name).touch()  # so that the cache is not taken
    manifest = embedded(
        make_run(), folder, tmp_path / "out", wanted=Wanted(str(folder), bad_share=0.1)
    )
    [entry] = manifest["skipped"]
    assert entry["file"] == name
    assert entry["reason"] == "cannot be read: Permission denied"


def test_which_split(
    make_run: Callable[..., Run], put_images: Callable[..., None], folder: Path, tmp_path: Path
) -> None:
    run = make_run()
    put_images(tmp_path / "both", *[f"train/{i}.png" for i in range(5)], "test/9.png")

    def split(name: str, asked: str | None = None) -> tuple[str, int]:
        wanted = Wanted(name, split=asked)
        made = embedded(run, folder, tmp_path / f"out-{Path(name).name}-{asked}", wanted=wanted)
        return made["split"], made["rows"]

    both = str(tmp_path / "both")
    assert split(both) == ("test", 1)
    assert split(both, "train") == ("train", 5)
    assert split(str(folder)) == ("all", 21)  # none is held back
    assert split(str(folder), "train") == ("all", 21)
    with pytest.raises(DataError, match="no held-out split"):
        split(str(folder), "test")
    found = open_representation(tmp_path / "out-both-None", images=tmp_path / "both")
    assert found.names == ["test/9.png"]


def test_a_set_without_labels(
    make_run: Callable[..., Run], put_images: Callable[..., None], tmp_path: Path
) -> None:
    put_images(tmp_path / "flat", "b.png", "a.png")
    for layout, name in zip(LAYOUTS, IDS, strict=True):
        embedded(make_run(), tmp_path / "flat", tmp_path / name, **layout)
        found = open_representation(tmp_path / name)
        assert (found.names, found.labels, found.classes) == (["a.png", "b.png"], None, None)
