"""Pretraining on folders and tables as people have them: it trains, or says what is wrong."""

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pellucid.train import checkpoint

QUICK = ["train.epochs=1", "train.accumulate=1", "train.batch=4"]


def picture(number=0, size=(8, 8)):
    generator = np.random.default_rng(number)
    return Image.fromarray(generator.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def encoded(number=0, kind="PNG"):
    out = io.BytesIO()
    picture(number).save(out, kind)
    return out.getvalue()


def flat(root, count=12):
    root.mkdir()
    for number in range(count):
        picture(number).save(root / f"{number}.png")


def broken_links_and_a_folder_named_as_an_image(root):
    flat(root)
    (root / "gone.jpg").symlink_to(root / "nowhere.jpg")
    (root / "x.jpg").mkdir()


def names_of_every_kind(root):
    flat(root, 6)
    picture(7).save(root / "ねこ 写真 é.png")
    picture(8).save(root / f"{'n' * 251}.png")
    deep = root / ("d" * 150) / ("e" * 150)
    deep.mkdir(parents=True)
    picture(9).save(deep / "deep.png")
    picture(10).save(root / "[red]=cmd|' tab\tnew\nline\x1b[31m.png")
    (root / os.fsdecode(b"\xff\xfe.png")).write_bytes(encoded(11))


def two_pixels_and_twenty_thousand(root):
    flat(root)
    picture(1, (2, 2)).save(root / "small.png")
    picture(2, (20_000, 10)).save(root / "wide.png")
    picture(3, (10, 20_000)).save(root / "tall.png")


def awkward_kinds(root):
    """Kinds that a decoder must turn into RGB."""
    flat(root, 2)
    grey = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000
    Image.fromarray(grey).save(root / "sixteen.png")
    Image.fromarray(grey).save(root / "sixteen.tif")
    picture().convert("CMYK").save(root / "print.jpg")
    picture().convert("L").save(root / "grey.jpg")
    picture().convert("P").save(root / "palette.png", transparency=3)
    picture().convert("RGBA").save(root / "clear.webp")
    picture().convert("1").save(root / "bilevel.tif", compression="group4")
    picture().save(root / "moving.gif", save_all=True, append_images=[picture(1)])
    picture().save(root / "webp_named.png", format="WEBP")
    exif = Image.Exif()
    exif[0x0112] = 6
    picture().save(root / "turned.jpg", exif=exif)


def one_class(root):
    (root / "only").mkdir(parents=True)
    for number in range(12):
        picture(number).save(root / "only" / f"{number}.png")


def table(labels, kind):
    def write(root):
        root.mkdir()
        images = pa.array([{"bytes": encoded(n), "path": None} for n in range(len(labels))])
        columns = {"image": images, "label": pa.array(labels, kind)}
        pq.write_table(pa.table(columns), root / "train-00000-of-00001.parquet")

    return write


def table_without_labels(root):
    root.mkdir()
    images = pa.array([{"bytes": encoded(n), "path": None} for n in range(12)])
    pq.write_table(pa.table({"image": images}), root / "train-00000-of-00001.parquet")


def table_whose_test_split_has_no_labels(root):
    table([0, 1] * 6, pa.int64())(root)
    table([-1] * 6, pa.int64())(root / "more")
    shutil.move(
        root / "more" / "train-00000-of-00001.parquet", root / "test-00000-of-00001.parquet"
    )
    (root / "more").rmdir()


TRAINS = {
    "broken links, a folder named x.jpg": broken_links_and_a_folder_named_as_an_image,
    "long, foreign and hostile names": names_of_every_kind,
    "2 x 2 and 20,000 x 10 pixels": two_pixels_and_twenty_thousand,
    "every colour mode": awkward_kinds,
    "one class": one_class,
    "five images at batch 4": lambda root: flat(root, 6),
    "nine at batch 4": lambda root: flat(root, 10),
    "labels of -1": table([0, 1, -1] * 4, pa.int64()),
    "missing labels": table([0, 1, None] * 4, pa.int64()),
    "whole labels as floats": table([0.0, 1.0, float("nan")] * 4, pa.float64()),
    "true and false": table([True, False] * 6, pa.bool_()),
    "a categorical": table(["cat", "dog"] * 6, pa.dictionary(pa.int32(), pa.string())),
    "no labels": table_without_labels,
    "a test split without labels": table_whose_test_split_has_no_labels,
}


@pytest.mark.parametrize("kind", TRAINS)
def test_it_trains_and_evaluates(tmp_path, commands, tiny, figure, kind):
    data, run = tmp_path / "data", tmp_path / "run"
    TRAINS[kind](data)
    settings = [*tiny, *QUICK]
    ended = commands("pretrain", "ncl", data, "small", *settings, "--out", run, folder=run)
    assert ended.status == 0, ended.said
    assert checkpoint.newest(run)[0] >= 1
    ended = commands("evaluate", run, folder=run)
    assert ended.status == 0, ended.said
    assert "\x1b[31m.png" not in ended.said
    figure("images as people have them", kind=kind, trains=True)


def empty(root):
    root.mkdir()


def only_other_files(root):
    root.mkdir()
    (root / ".DS_Store").write_bytes(b"\0")
    (root / "notes.txt").write_text("no image")


def one_image(root):
    flat(root, 1)


def mostly_bad(root):
    flat(root, 12)
    (root / "cut.jpg").write_bytes(encoded(1, "JPEG")[:-40])


REFUSED = {
    "an empty folder": (empty, [], r"data holds no image: nothing there"),
    "no image in it": (only_other_files, [], r"holds no image: 1 other file, 1 hidden file there"),
    "one image": (one_image, [], r"has 1 training images?, fewer than train\.batch=4"),
    "too many bad files": (mostly_bad, [], r"1 of \d+ images cannot be read.*cut\.jpg \("),
    "one bad file, strict": (mostly_bad, ["data.bad_share=0.5", "--strict"], r"cut\.jpg \("),
    "labels between classes": (table([0.5, 1.0] * 6, pa.float64()), [], r"column label holds 0\.5"),
    "a folder that is not there": (None, [], r"unknown data set or path '.*/data'"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_it_is_refused_with_what_is_wrong(tmp_path, commands, tiny, figure, kind):
    write, extra, words = REFUSED[kind]
    data, run = tmp_path / "data", tmp_path / "run"
    if write:
        write(data)
    settings = [*tiny, *QUICK, "data.holdout=0", *extra]
    ended = commands("pretrain", "ncl", data, "small", *settings, "--out", run, folder=run)
    assert ended.status == 1, ended.said
    assert re.search(words, " ".join(ended.said.split())), ended.said
    assert "Traceback" not in ended.said
    assert not run.exists()
    figure("images as people have them", kind=kind, refused=True)


def test_bad_files_within_the_share_are_counted_and_listed(tmp_path, commands, tiny):
    data, run = tmp_path / "data", tmp_path / "run"
    flat(data, 20)
    (data / "=cut\x1b[31m.jpg").write_bytes(encoded(1, "JPEG")[:-40])
    (data / "empty.jpg").write_bytes(b"")
    settings = [*tiny, *QUICK, "data.bad_share=0.1", "data.holdout=0"]
    for streamed in ([], ["data.memory_limit_gb=0"]):
        ended = commands(
            "pretrain", "ncl", data, "small", *settings, *streamed, "--out", run, folder=run
        )
        assert ended.status == 0, ended.said
        lines = (run / "skipped.tsv").read_text("utf-8").splitlines()
        assert lines[0] == "file\treason"
        assert [line.split("\t")[0] for line in lines[1:]] == ["'=cut\\x1b[31m.jpg", "empty.jpg"]
        assert lines[2].split("\t")[1] == "empty: 0 bytes"
        shutil.rmtree(run)


def command(*arguments):
    code = "import sys; from pellucid.cli import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", code, *map(str, arguments)]


@pytest.fixture
def streaming(tmp_path, tiny):
    """A command that trains for long on a set whose readers are processes, and its folders."""
    data, run = tmp_path / "data", tmp_path / "run"
    flat(data, 40)
    settings = [
        *tiny,
        "train.epochs=2000",
        "data.memory_limit_gb=0",
        "data.bad_share=0.2",
        "data.holdout=0",
    ]
    return command("pretrain", "ncl", data, "small", *settings, "--out", run), data, run


def start(arguments, tmp_path, steps, run):
    process = subprocess.Popen(
        arguments,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that a signal can go to it and its readers together
        env={**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    ends = time.monotonic() + 120
    while not checkpoint.written(run) or int(checkpoint.written(run)[-1].name) < steps:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < ends
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_all_processes_of_a_streaming_run_saves_it(tmp_path, streaming, number):
    arguments, _, run = streaming
    process = start(arguments, tmp_path, 2, run)
    os.killpg(process.pid, number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number, said
    assert f"stopped by {number.name} and saved at step" in said
    assert checkpoint.newest(run)[0] >= 2


def test_files_that_change_or_vanish_while_a_streaming_run_reads_them_are_counted(
    tmp_path, streaming
):
    arguments, data, run = streaming
    process = start(arguments, tmp_path, 2, run)
    (data / "3.png").unlink()
    (data / "4.png").write_bytes(b"changed")
    (data / "5.png").unlink()
    (data / "5.png").mkdir()
    ends = time.monotonic() + 60
    while (
        not (run / "skipped.tsv").exists()
        or len((run / "skipped.tsv").read_text().splitlines()) < 4
    ):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < ends
        time.sleep(0.05)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 143, said
    listed = dict(line.split("\t") for line in (run / "skipped.tsv").read_text().splitlines())
    assert listed["3.png"] == "cannot be read: No such file or directory"
    assert listed["4.png"].startswith("no image of a format")
    assert listed["5.png"] == "cannot be read: Is a directory"


def test_beyond_the_share_a_streaming_run_stops_and_keeps_what_it_saved(tmp_path, streaming):
    arguments, data, run = streaming
    process = start(arguments, tmp_path, 2, run)
    for number in range(12):
        (data / f"{number}.png").unlink()
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "images cannot be read, and at most" in said
    assert ".png (cannot be read: No such file or directory)" in said
    assert checkpoint.newest(run)[0] >= 2
    assert len((run / "skipped.tsv").read_text().splitlines()) > 8


def test_images_that_have_changed_since_a_run_began_are_told(tmp_path, commands, tiny):
    data, run = tmp_path / "data", tmp_path / "run"
    flat(data, 20)
    arguments = ["pretrain", "ncl", data, "small", *tiny, "data.holdout=0", "--out", run]
    fault = {"kind": "term", "change": 20}
    assert commands(*arguments, folder=run, fault=fault).status == 143
    (data / "0.png").unlink()
    ended = commands(*arguments, folder=run)
    assert ended.status == 0, ended.said
    assert "images have changed since this run began (20 then, 19 now)" in ended.said
