"""`pellucid search`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from pellucid.cli.representation import add_representation, representation_of
from pellucid.cli.verb import add_device, add_verb, say

if TYPE_CHECKING:
    from pellucid.cli.verb import Verbs


def add(verbs: "Verbs") -> None:
    """Give the verb its place and its options."""
    parser = add_verb(
        verbs,
        "search",
        run,
        "the images most similar to one, and the dimensions that make them so",
        "pellucid search runs/bayesncl photo.jpg",
        "pellucid search runs/bayesncl 412 --with-dim 17 --without-dim 3 88 --out found.png",
    )
    add_representation(parser)
    parser.add_argument(
        "image", metavar="IMAGE", help="an image: its number from 0, its name, or a file"
    )
    parser.add_argument("--top", type=int, default=10, help="images to show (10)")
    for flag, about in (
        ("--with-dim", "only images with these dimensions active"),
        ("--without-dim", "only images with none of these active"),
    ):
        parser.add_argument(
            flag, type=int, nargs="+", action="extend", default=[], metavar="K", help=about
        )
    add_device(parser)
    parser.add_argument("--out", type=Path, help="draw a figure: FILE.png or FILE.html")


def run(options: argparse.Namespace) -> None:
    """Search."""
    from pellucid.answer.search import search

    search(
        representation_of(options),
        options.image,
        Console(),
        top=options.top,
        with_dims=options.with_dim,
        without_dims=options.without_dim,
        device=options.device,
        out=options.out,
        say=say,
    )
