"""`pellucid list`."""

import argparse
from typing import TYPE_CHECKING

from pellucid.cli.verb import add_verb

if TYPE_CHECKING:
    from pellucid.cli.verb import Verbs

KINDS = (
    *("methods", "data", "sizes"),
    *("heads", "frameworks", "transforms", "regularisers", "optimisers", "encoders"),
)


def add(verbs: "Verbs") -> None:
    """Give the verb its place and its options."""
    parser = add_verb(verbs, "list", run, "what can be named", "pellucid list heads")
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))


def run(options: argparse.Namespace) -> None:
    """Print a line about each entry of the kind."""
    from pellucid.listing import describe

    for name, about in describe(options.kind):
        print(f"{name:20} {about}".rstrip())
