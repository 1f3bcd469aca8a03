"""Properties that are tried many times: a few times in `make test`, long in `make soak`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

FIGURES = os.environ.get("PELLUCID_SOAK")
"""The file that `make soak` collects figures in; its presence asks for the long form."""


@pytest.fixture(scope="session")
def tries():
    """`tries(short, long)`: how often to try something in this form of the tests."""
    return lambda short, long: long if FIGURES else short


@pytest.fixture(scope="session")
def figure():
    """`figure(what, **numbers)` keeps what a test counted, for `make soak` to print."""

    def keep(what, **numbers):
        if FIGURES:
            with Path(FIGURES).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"what": what, **numbers}) + "\n")

    return keep


class Commands:
    """`pellucid` commands in children of one process (see harness.py), with or without a fault."""

    def __init__(self, folder):
        script = Path(__file__).with_name("harness.py")
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",  # a fork loses all threads but one
            "XDG_CACHE_HOME": str(folder / "cache"),
        }
        self.process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __call__(self, *arguments, folder, fault=None):
        """Run a command that works on a folder: its exit status, its changes, what it said."""
        job = {"arguments": list(map(str, arguments)), "folder": str(folder), "fault": fault}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return Outcome(**json.loads(self.process.stdout.readline()))


class Outcome(NamedTuple):
    status: int
    changes: int
    said: str


@pytest.fixture(scope="session")
def commands(tmp_path_factory):
    made = Commands(tmp_path_factory.mktemp("commands"))
    yield made
    made.process.stdin.close()
    made.process.wait()
    made.process.stdout.close()


@pytest.fixture(scope="session")
def photographs(tmp_path_factory):
    """A folder of small images in two classes, with a test split."""
    root = tmp_path_factory.mktemp("photographs")
    generator = np.random.default_rng(0)
    for split, count in (("train", 9), ("test", 5)):
        for number, kind in enumerate(("stripes", "checks")):
            (root / split / kind).mkdir(parents=True)
            for index in range(count):
                pixels = generator.integers(0, 100, (8, 8, 3), dtype=np.uint8)
                pixels[::2, :: 1 + number] += 150
                Image.fromarray(pixels).save(root / split / kind / f"{index}.png")
    return root


TINY = [
    *("views.size=8", "projector.hidden=16", "projector.dimensions=8", "evaluation.min_support=1"),
    *("train.batch=8", "train.accumulate=2", "train.epochs=4", "train.warmup_epochs=1"),
    *("train.log_every=3", "train.precision=fp32", "train.checkpoint_minutes=0"),
]


@pytest.fixture(scope="session")
def tiny():
    """Settings of a run of eight steps that take a moment and leave a checkpoint each."""
    return TINY
