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
        "one table of representations of the same images, a figure, and which dimensions recur",
        "pellucid compare runs/simclr runs/ncl runs/bayesncl --out comparison",
        "pellucid compare runs/ncl-seed0 runs/ncl-seed1 --out seeds   # which dimensions recur",
        "pellucid compare runs/ncl features.npy --labels labels.csv --images photos/",
    )
    parser.add_argument(
        "paths",
        metavar="RUN",
        type=Path,
        nargs="+",
        help="evaluated run directories, folders of `pellucid embed`, or npy, npz, parquet files",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="folder for compare.md, compare.csv, compare.png, dimensions.csv, dimensions.png",
    )
    parser.add_argument("--labels", type=Path, help="of the files: a file with a class an image")
    parser.add_argument("--images", type=Path, help="of the files: the folder of their images")


def run(options: argparse.Namespace) -> None:
    """Compare."""
    from pellucid.compare.compare import compare

    compare(options.paths, Console(), options.out, labels=options.labels, images=options.images)
