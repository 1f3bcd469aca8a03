"""What the verbs that read a representation share: how it is given."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pellucid.representation.representation import Representation


def add_representation(parser: argparse.ArgumentParser) -> None:
    """The representation, before any other positional argument, and what it may lack."""
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="an evaluated run, or a file of features"
    )
    parser.add_argument("--labels", type=Path, help="of a file of features: one class an image")
    parser.add_argument("--images", type=Path, help="of a file of features: the folder of images")


def representation_of(options: argparse.Namespace) -> "Representation":
    """The representation that the options name."""
    from pellucid.representation.representation import open_representation

    return open_representation(options.run, labels=options.labels, images=options.images)
