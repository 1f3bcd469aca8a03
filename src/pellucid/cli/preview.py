"""`pellucid preview`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.cli.recipe import add_recipe, composed
from pellucid.cli.verb import add_data_flags, add_verb, say

if TYPE_CHECKING:
    from pellucid.cli.verb import Verbs


def add(verbs: "Verbs") -> None:
    """Give the verb its place and its options."""
    parser = add_verb(
        verbs,
        "preview",
        run,
        "what a recipe would do: views, parameters, FLOPs, time to the end",
        "pellucid preview bayesncl scenes --out preview.png",
    )
    add_recipe(parser)
    parser.add_argument("--out", type=Path, default=Path("preview.png"), help="the sheet of views")
    add_data_flags(parser)


def run(options: argparse.Namespace) -> None:
    """Preview."""
    from pellucid.preview import preview

    preview(
        composed(options),
        options.out,
        device=options.device,
        download=options.download,
        strict=options.strict,
        say=say,
    )
