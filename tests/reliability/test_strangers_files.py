"""A run or a file from a stranger is read as data, or refused by its name; nothing in it is run."""

import io
import json
import os
import pickle
import random
import re
import shutil
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

from pellucid.cli import main
from pellucid.data.image_set import ImageSet
from pellucid.evaluate.extract import Features
from pellucid.evaluate.score import score
from pellucid.evaluate.store import write_features
from pellucid.recipe import resolve
from pellucid.representation import open_representation
from pellucid.run import RunError, start_run
from pellucid.text import read_json
from pellucid.train.skipped import list_skipped

IMAGES, DIMENSIONS = 12, 4


class Marker:
    """Pickled, this is code that makes a folder when it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def zipped(name, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def npy_of(values):
    file = io.BytesIO()
    np.save(file, values, allow_pickle=True)
    return file.getvalue()


def torch_file(values):
    file = io.BytesIO()
    torch.save(values, file)
    return file.getvalue()


def npy_header(text):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def safetensors_of(header, data=b"\0" * 64):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype="F32", shape=(2, 2), offsets=(0, 16)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def code(marker):
    """Files that hold code, whatever they are called."""
    bomb = pickle.dumps(Marker(marker))
    return {
        "a pickle": bomb,
        "an old pickle": pickle.dumps(Marker(marker), protocol=0),
        "a zip": zipped("z.npy", npy_of(np.array([Marker(marker)], dtype=object))),
        "a pickle in a zip": zipped("archive/data.pkl", bomb),
        "a PyTorch file": torch_file({"z": Marker(marker)}),
        "an array of objects": npy_of(np.array([Marker(marker)], dtype=object)),
    }


HOSTILE = {
    "nothing": b"",
    "no UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "deep lists": b"[" * 100_000,
    "deep sections": b'{"a":' * 100_000,
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "not a number": b'{"format": 1, "images": NaN}',
    "an infinite number": b'{"format": 1, "images": 1e999}',
    "a huge number": b'{"format": 1, "images": ' + b"9" * 5000 + b"}",
    "a large number": b'{"format": 1, "images": ' + b"9" * 40 + b"}",
    "a cut-off header": b"\xff\0\0\0\0\0\0\0{",
    "a huge header": struct.pack("<Q", 2**63 + 5) + b"{}",
    "a header of a gigabyte": struct.pack("<Q", 2**30) + b"{}",
    "a header that is no JSON": safetensors_of(b"{" * 50),
    "a deep header": safetensors_of(b'{"a":' * 50_000),
    "tensors that overlap": safetensors_of({"z": entry(), "h": entry(offsets=(8, 24))}),
    "a tensor beyond the end": safetensors_of({"z": entry(offsets=(0, 2**40))}),
    "offsets that go back": safetensors_of({"z": entry(offsets=(16, 0))}),
    "a shape that overflows": safetensors_of({"z": entry(shape=(2**62, 2**62))}),
    "an unknown type": safetensors_of({"z": entry(dtype="PICKLE")}),
    "no tensors": safetensors_of({}, b""),
    "an array too large": npy_header(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (10000000, 10000000)}\n"
    ),
    "a negative shape": npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2)}\n"),
    "a deep NumPy header": npy_header("-" * 9000 + "1\n"),
    "a call in a NumPy header": npy_header("__import__('os').getcwd()\n"),
    "brackets in a NumPy header": npy_header("(" * 9000 + "\n"),
    "a parquet footer alone": b"PAR1" + b"\xff" * 40 + struct.pack("<I", 40) + b"PAR1",
    "a parquet file of nothing": b"PAR1PAR1",
}

READ_BY = {
    "features/test.json": ("explore", "why", "search"),
    "features/test.safetensors": ("explore", "why", "search"),
    "features/thumbnails.safetensors": ("explore", "why", "search"),
    "recipe.json": ("explore", "why", "search", "compare"),
    "scores.json": ("explore", "why", "search", "compare"),
    "names.json": ("explore", "why", "search"),
}
"""The files of an evaluated run, and the verbs that read them."""


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """An evaluated run, as it comes in an archive."""
    folder = tmp_path_factory.mktemp("stranger") / "run"
    run = start_run(folder, resolve({"method": "simclr", "head": {"name": "signed"}}))
    generator = torch.Generator().manual_seed(0)
    z = torch.rand(IMAGES, DIMENSIONS, generator=generator)
    labels = torch.arange(IMAGES) % 2
    pixels = torch.randint(256, (IMAGES, 3, 8, 8), generator=generator, dtype=torch.uint8)
    images = ImageSet.from_pixels(pixels, labels, ("a", "b"), [f"{i}.png" for i in range(IMAGES)])
    write_features(
        run, Features(z + 1, z.clone(), z, z / 2, z * 2, labels), images, step=3, threshold=0.5
    )
    scored = {"density": score(0.5, chance=0.25, dimensions=4, support=9)}
    scores = {"step": 3, "settings": {}, "trained": scored, "untrained": scored, "notes": ["note"]}
    (folder / "scores.json").write_text(json.dumps(scores))
    (folder / "names.json").write_text('{"1": "stripes"}')
    return folder


def command(verb, given, out):
    """The words of a verb that reads a representation."""
    rest = {"explore": ["--out", out / "page.html"], "compare": ["--out", out]}
    rest |= {"why": ["0", "1", "--out", out / "why.png"], "search": ["0", "--out", out / "s.html"]}
    return [str(word) for word in (verb, given, *rest[verb])]


def assert_refused(arguments, file, capsys):
    status = main(arguments)
    said = capsys.readouterr()
    assert status == 1, said
    words = re.search(r"^error: .*", said.err, re.MULTILINE)
    assert words is not None, said
    assert str(file) in words[0]
    assert "Traceback" not in said.err


@pytest.mark.parametrize("file", READ_BY)
def test_a_file_of_a_run_that_is_something_else_is_refused(
    stranger, tmp_path, capsys, figure, file
):
    kinds = code(tmp_path / "ran") | HOSTILE
    run = shutil.copytree(stranger, tmp_path / "run")
    for content in kinds.values():
        (run / file).write_bytes(content)
        for verb in READ_BY[file]:
            assert_refused(command(verb, run, tmp_path / "out"), run / file, capsys)
    (run / file).unlink()
    os.mkfifo(run / file)  # opening it would wait for ever
    if file not in ("names.json", "recipe.json"):  # absent, where there is no file
        assert_refused(command(READ_BY[file][0], run, tmp_path / "out"), run / file, capsys)
    assert not (tmp_path / "ran").exists()
    figure("files of a run refused", file=file, cases=len(kinds) * len(READ_BY[file]))


WRONG_TENSORS = [
    {"z": torch.zeros(())},
    {"z": torch.zeros(IMAGES)},
    {"z": torch.zeros(IMAGES, 0)},
    {"z": torch.zeros(IMAGES, DIMENSIONS, 2)},
    {"z": torch.zeros(IMAGES, DIMENSIONS, dtype=torch.int64)},
    {"z": torch.zeros(IMAGES, DIMENSIONS, dtype=torch.bfloat16)},
    {"z": torch.full((IMAGES, DIMENSIONS), torch.nan)},
    {"h": torch.zeros(IMAGES + 1, DIMENSIONS)},
    {"u": torch.zeros(IMAGES, DIMENSIONS + 1)},
    {"gate": torch.full((IMAGES, DIMENSIONS), 1.5)},
    {"ungated": torch.full((IMAGES, DIMENSIONS), -torch.inf)},
    {"labels": torch.full((IMAGES,), 2)},
    {"labels": torch.full((IMAGES,), -2)},
    {"labels": torch.full((IMAGES,), 2**62)},
    {"labels": torch.zeros(IMAGES)},
]


@pytest.mark.parametrize("change", WRONG_TENSORS)
def test_tensors_that_do_not_fit(stranger, tmp_path, capsys, change):
    run = shutil.copytree(stranger, tmp_path / "run")
    file = run / "features" / "test.safetensors"
    save_file(load_file(file) | change, file)
    assert_refused(command("explore", run, tmp_path / "out"), run / "features" / "test.", capsys)


@pytest.mark.parametrize(
    "pixels",
    [
        torch.zeros(IMAGES, 3, 8, 8),
        torch.zeros(IMAGES, 1, 8, 8, dtype=torch.uint8),
        torch.zeros(IMAGES - 1, 3, 8, 8, dtype=torch.uint8),
        torch.zeros(IMAGES, 3, 8, 0, dtype=torch.uint8),
        torch.zeros(IMAGES, 3, 1, 30_000, dtype=torch.uint8),
    ],
)
def test_thumbnails_that_do_not_fit(stranger, tmp_path, capsys, pixels):
    run = shutil.copytree(stranger, tmp_path / "run")
    file = run / "features" / "thumbnails.safetensors"
    save_file({"pixels": pixels}, file)
    assert_refused(command("why", run, tmp_path / "out"), file, capsys)


WRONG_JSON = [
    ("features/test.json", {"images": "12"}),
    ("features/test.json", {"names": "abcdefghijkl"}),
    ("features/test.json", {"names": [1] * IMAGES}),
    ("features/test.json", {"names": ["a"]}),
    ("features/test.json", {"hashes": None}),
    ("features/test.json", {"classes": {"a": 1}}),
    ("features/test.json", {"classes": ["a"]}),
    ("features/test.json", {"step": "../../3"}),
    ("features/test.json", {"split": ["test"]}),
    ("features/test.json", {"threshold": 7}),
    ("features/test.json", {"threshold": True}),
    ("scores.json", {"trained": []}),
    ("scores.json", {"trained": {"density": 0.5}}),
    ("scores.json", {"trained": {"density": {"value": "0.5"}}}),
    ("scores.json", {"trained": {"density": {"value": 0.5, "reason": ["a"]}}}),
    ("scores.json", {"untrained": {"density": {"value": True}}}),
    ("scores.json", {"planted": {"consistency": {"object": {"value": "x"}}}}),
    ("scores.json", {"settings": [1]}),
    ("scores.json", {"settings": {"min_support": "many"}}),
    ("scores.json", {"step": "a"}),
    ("scores.json", {"notes": "note"}),
    ("names.json", {"4": "beyond"}),
    ("names.json", {"9" * 5000: "far beyond"}),
    ("names.json", {"../1": "elsewhere"}),
    ("names.json", {"1": ["a"]}),
]


@pytest.mark.parametrize(("name", "change"), WRONG_JSON)
def test_values_that_do_not_fit(stranger, tmp_path, capsys, name, change):
    run = shutil.copytree(stranger, tmp_path / "run")
    (run / name).write_text(json.dumps(json.loads((run / name).read_text()) | change))
    for verb in READ_BY[name]:
        assert_refused(command(verb, run, tmp_path / "out"), run / name, capsys)


def test_numbers_and_nesting_that_are_read(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(f'{{"a": [{2**63 - 1}, -{2**63 - 1}, 1e308, -0.0, "\\udcff"]}}')
    assert read_json(path) == {"a": [2**63 - 1, 1 - 2**63, 1e308, 0.0, "\udcff"]}
    path.write_text("[" * 300 + "]" * 300)
    assert str(read_json(path)) == "[" * 300 + "]" * 300
    path.write_text(f"[{2**63}]")
    with pytest.raises(ValueError, match="more than 64 bits, 9223372036854775808"):
        read_json(path)
    for number in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999"):
        path.write_text(f'{{"a": [{number}]}}')
        with pytest.raises(ValueError, match=f"{number}, which is no finite number"):
            read_json(path)
        assert read_json(path, undefined=True) == {"a": [None]}


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@A1", "\t=1", '"=1', " =1", "'\n-1"])
def test_no_name_of_a_skipped_image_is_a_formula(tmp_path, name):
    list_skipped(tmp_path, [(name, name)])
    lines = (tmp_path / "skipped.tsv").read_text().split("\n")
    assert len(lines) == 3
    for cell in lines[1].split("\t"):
        shown = cell.lstrip(" \"'") if cell[:1] != "'" else ""
        assert not shown.startswith(("=", "+", "-", "@"))


FEATURES = ("f.npy", "f.npz", "f.parquet")
LABELS = ("l.npy", "l.npz", "l.parquet", "l.csv", "l.tsv", "l.txt")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Files of features and labels that are read."""
    folder = tmp_path_factory.mktemp("good")
    z = np.random.default_rng(0).random((IMAGES, DIMENSIONS), dtype=np.float32)
    labels, names = np.arange(IMAGES) % 2, np.array([f"{i}.png" for i in range(IMAGES)])
    np.save(folder / "f.npy", z)
    np.savez_compressed(folder / "f.npz", z=z, labels=labels, names=names, h=z)
    columns = {"z": list(z), "label": labels, "file": names.tolist()}
    facts = json.dumps({"classes": ["a", "b"], "dimensions": DIMENSIONS, "threshold": 0.5})
    pq.write_table(pa.table(columns, metadata={b"pellucid": facts.encode()}), folder / "f.parquet")
    np.save(folder / "l.npy", labels)
    np.savez(folder / "l.npz", labels=labels)
    pq.write_table(pa.table({"label": labels}), folder / "l.parquet")
    lines = [f"class {label}" for label in labels]
    (folder / "l.txt").write_text("\n".join(lines))
    table = list(zip(["file", *names], ["label", *lines], strict=True))
    for ending, comma in (("csv", ","), ("tsv", "\t")):
        (folder / f"l.{ending}").write_text("\n".join(comma.join(row) for row in table))
    return folder


@pytest.mark.parametrize("name", [*FEATURES, *LABELS[:3]])
def test_features_and_labels_that_are_something_else_are_refused(
    good, tmp_path, capsys, figure, name
):
    kinds = code(tmp_path / "ran") | HOSTILE
    file = tmp_path / name
    given = [str(file)] if name in FEATURES else [str(good / "f.npy"), "--labels", str(file)]
    for content in kinds.values():
        file.write_bytes(content)
        out = str(tmp_path / "page.html")
        assert_refused(["explore", *given, "--out", out], file, capsys)
    assert not (tmp_path / "ran").exists()
    figure("files of features or labels refused", file=name, cases=len(kinds))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("l.txt", b"\xff\n"),
        ("l.txt", b"9" * 5000),
        ("l.csv", b'label\n"' + b"a" * 200_000 + b'"\n'),
        ("l.csv", b'label\n"cut off'),
        ("l.tsv", b"label\n-5\n"),
        ("l.csv", b"label\n" + b"1\n" * (IMAGES - 1) + b"99999999999999999999\n"),
    ],
)
def test_labels_in_text_that_are_refused(good, tmp_path, capsys, name, content):
    (tmp_path / name).write_bytes(content)
    given = ["explore", str(good / "f.npy"), "--labels", str(tmp_path / name)]
    assert_refused([*given, "--out", str(tmp_path / "p.html")], tmp_path / name, capsys)


def test_a_path_is_shown_to_people_and_given_to_scripts(good, tmp_path, capsys, monkeypatch):
    out = tmp_path / "\x1b[31m\u202e.html"
    given = ["explore", str(good / "f.npz"), "--no-images", "--out", str(out)]
    assert main(given) == 0
    assert capsys.readouterr().out == f"{out}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(given) == 0
    assert capsys.readouterr().out == f"{tmp_path}/\\x1b[31m\\u202e.html\n"


LISTS = {"z": [[1.0], [2.0]]}


@pytest.mark.parametrize(
    ("columns", "facts"),
    [
        (LISTS, {"dimensions": "7", "classes": "ab"}),
        (LISTS, {"threshold": 7}),
        (LISTS | {"label": [0, 1]}, {"classes": "ab"}),
        ({"z_index": [[0], [1]], "z_value": [[1.0], [1.0]]}, {"dimensions": 10**12}),
        ({"z_index": [[0], [10**8]], "z_value": [[1.0], [1.0]]}, {}),
        ({"z_index": [[0], [-1]], "z_value": [[1.0], [1.0]]}, {}),
        ({"z_index": [[0.5], [1.0]], "z_value": [[1.0], [1.0]]}, {}),
        ({"z_index": [[0], [None]], "z_value": [[1.0], [1.0]]}, {}),
        ({"z": [[[1.0]], [[2.0]]]}, {}),
        ({"z": [[{"a": 1}], [{"a": 2}]]}, {}),
        ({"z": [["1"], ["2"]]}, {}),
        (LISTS | {"label": [10**15, 1]}, {}),
    ],
)
def test_parquet_that_does_not_fit(tmp_path, columns, facts):
    path = tmp_path / "f.parquet"
    metadata = {b"pellucid": json.dumps(facts).encode()}
    pq.write_table(pa.table(columns, metadata=metadata), path)
    with pytest.raises(RunError, match=str(path)):
        open_representation(path)


def damaged(dice, content):
    """The content with some bytes changed, lost, doubled or cut off."""
    changed = bytearray(content)
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(changed) + 1)
        kind = dice.choice(("set", "flip", "drop", "double", "cut"))
        if kind == "set":
            changed[place : place + 1] = bytes([dice.choice((0, 1, 127, 128, 255))])
        elif kind == "flip" and place < len(changed):
            changed[place] ^= 1 << dice.randrange(8)
        elif kind == "drop":
            del changed[place : place + dice.randint(1, 9)]
        elif kind == "double":
            changed[place:place] = changed[place : place + dice.randint(1, 9)]
        elif dice.random() < 0.2:
            del changed[place:]
    return bytes(changed)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("name", [*FEATURES, *LABELS])
def test_damaged_features_and_labels_are_read_or_refused(good, tmp_path, tries, figure, name):
    dice, content, refused = random.Random(name), (good / name).read_bytes(), 0
    features = tmp_path / name if name in FEATURES else good / "f.npz"
    labels = None if name in FEATURES else tmp_path / name
    count = tries(25, 2000)
    for _ in range(count):
        (tmp_path / name).write_bytes(damaged(dice, content))
        try:
            found = open_representation(features, labels=labels)
        except RunError as error:
            assert str(tmp_path / name) in str(error)  # noqa: PT017
            refused += 1
        else:
            assert bool(found.z.isfinite().all())
            assert len(found.names) == len(found.z)
    assert refused > 0
    figure("damaged files of features", file=name, cases=count, refused=refused)


@pytest.mark.parametrize("name", READ_BY)
def test_a_damaged_run_is_read_or_refused(stranger, tmp_path, tries, figure, name):
    dice, refused, count = random.Random(name), 0, tries(25, 1000)
    run = shutil.copytree(stranger, tmp_path / "run")
    content = (run / name).read_bytes()
    for _ in range(count):
        (run / name).write_bytes(damaged(dice, content))
        try:
            found = open_representation(run)
            assert len(found.names) == len(found.z) == len(found.thumbnails())
            assert all(k < DIMENSIONS for k in found.dimension_names())
        except RunError as error:
            assert str(run) in str(error)  # noqa: PT017
            refused += 1
    assert refused > 0
    figure("damaged files of a run", file=name, cases=count, refused=refused)
