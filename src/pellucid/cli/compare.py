"""`pellucid compare`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from pellucid.cli.verb import add_verb

if TYPE_CHECKING:
    from pellucid.cli.verb import Verbs


def add(verbs: "Verbs") -> None:
    """Give the verb its place and its options."""
    parser = add_verb(
        verbs,
        "compare",
        run,
        "one table of several evaluated runs, and a figure",
        "pellucid compare runs/simclr runs/ncl runs/bayesncl --out comparison",
    )
    parser.add_argument("runs", type=Path, nargs="+", help="run directories with scores.json")
    parser.add_argument("--out", type=Path, help="folder for compare.md, compare.csv, compare.png")


def run(options: argparse.Namespace) -> None:
    """Compare."""
    from pellucid.evaluate.compare import compare

    compare(options.runs, Console(), options.out)
