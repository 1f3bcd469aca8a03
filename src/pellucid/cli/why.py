"""`pellucid why`."""

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
        "why",
        run,
        "why two images are similar, dimension by dimension",
        "pellucid why runs/bayesncl 412 88",
        "pellucid why runs/bayesncl a.jpg b.jpg --out why.png",
    )
    add_representation(parser)
    about = "an image: its number from 0, its name, or a file"
    parser.add_argument("a", metavar="A", help=about)
    parser.add_argument("b", metavar="B", help="another")
    parser.add_argument("--top", type=int, default=8, help="dimensions to show (8)")
    parser.add_argument(
        "--rarity", action="store_true", help="also weigh each dimension by how rare it is"
    )
    add_device(parser)
    parser.add_argument("--out", type=Path, help="draw a figure: FILE.png or FILE.html")


def run(options: argparse.Namespace) -> None:
    """Explain."""
    from pellucid.answer.why import why

    why(
        representation_of(options),
        options.a,
        options.b,
        Console(),
        top=options.top,
        rarity=options.rarity,
        device=options.device,
        out=options.out,
        say=say,
    )
