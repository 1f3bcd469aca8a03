"""Properties that are tried many times: a few times in `make test`, long in `make soak`."""

import json
import os
from pathlib import Path

import pytest

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
