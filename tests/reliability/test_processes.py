"""Two processes under torchrun: what one does, and what becomes of both when one fails."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pellucid.train import checkpoint
from pellucid.train.log import read_lines

SCRIPT = Path(__file__).with_name("faulty_rank.py")


def torchrun(*arguments, cache, rank=0, step=0, kind="none"):
    """The exit status of two processes of a command, and all that they said."""
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", str(SCRIPT), str(rank), str(step), kind),
            *map(str, arguments),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def arguments(photographs, tiny):
    return ["pretrain", "ie-simclr", photographs, "small", *tiny, "train.epochs=3", "--device=cpu"]


@pytest.fixture(scope="module")
def two(tmp_path_factory, arguments):
    """A run of two processes, and where it cached its images."""
    folder = tmp_path_factory.mktemp("two")
    status, said = torchrun(*arguments, "--out", folder / "run", cache=folder)
    assert status == 0, said
    return folder


def test_a_run_of_two_processes_says_everything_once(two):
    lines = read_lines(two / "run" / "metrics.jsonl")
    assert [line["step"] for line in lines] == [3, 6]
    assert checkpoint.newest(two / "run")[0] == 6


def test_evaluation_by_two_processes_gives_the_scores_of_one(two, commands):
    """Ten test images and eighteen training images, each on one of the processes."""
    run = two / "run"
    status, said = torchrun("evaluate", run, "--device=cpu", cache=two)
    assert status == 0, said
    scores, features = (
        (run / "scores.json").read_bytes(),
        load_file(run / "features" / "test.safetensors"),
    )
    assert commands("evaluate", run, "--device=cpu", folder=run).status == 0
    assert (run / "scores.json").read_bytes() == scores
    for name, value in load_file(run / "features" / "test.safetensors").items():
        assert torch.equal(value, features[name]), name
    assert json.loads(scores)["settings"]["scored_images"] == 10


FAILURES = {
    # The rank that fails, how, what must be said, and the step of the newest checkpoint then.
    "killed by the system": (1, "kill", r"Signal 9|SIGKILL", 3),
    "an error of the second": (1, "raise", r"error: photograph\.jpg is gone", 3),
    "an error of the first": (0, "raise", r"error: photograph\.jpg is gone", 3),
    "one is asked to stop": (1, "term", r"stopped by SIGTERM and saved at step 4 of 6", 4),
    "numbers go wrong on the second": (1, "nan", r"not finite at step 3 of 6: loss=nan", 3),
}


QUICK = ("killed by the system", "numbers go wrong on the second")


@pytest.mark.parametrize("failure", FAILURES if os.environ.get("PELLUCID_SOAK") else QUICK)
def test_a_process_that_fails_ends_the_others_and_the_run_goes_on_on_one(
    tmp_path, two, arguments, commands, figure, failure
):
    rank, kind, words, saved = FAILURES[failure]
    run = tmp_path / "run"
    status, said = torchrun(*arguments, "--out", run, cache=two, rank=rank, step=3, kind=kind)
    assert status != 0
    assert re.search(words, said), said
    if kind in ("kill", "raise"):
        assert "another process ended, and this one with it" in said
        cause = said[said.index("Root Cause") :]
        assert f"rank      : {rank} (" in cause, "torchrun must report who failed"
    assert checkpoint.newest(run)[0] == saved
    if kind == "nan":
        assert (run / "failure" / "state.json").exists()
        assert "nan" in json.loads((run / "failure" / "state.json").read_text())["values"]["loss"]
    last = commands(*arguments, "--out", run, folder=run)
    assert last.status == 0, last.said
    assert checkpoint.newest(run)[0] == 6
    metrics = read_lines(run / "metrics.jsonl")
    undisturbed = read_lines(two / "run" / "metrics.jsonl")
    assert metrics[0] == undisturbed[0]  # the same views and order, whoever trains
    # Batch norm then sees whole batches in place of halves, so the rest is alike and not equal.
    assert metrics[1]["loss"] == pytest.approx(undisturbed[1]["loss"], rel=0.2)
    figure("a rank that fails", failure=failure, saved=saved, resumed_on_one=True)
