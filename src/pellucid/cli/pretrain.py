"""`pellucid pretrain`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.cli.recipe import add_recipe, composed, default_folder
from pellucid.cli.verb import add_data_flags, add_verb, say

if TYPE_CHECKING:
    from pellucid.cli.verb import Verbs


def add(verbs: "Verbs") -> None:
    """Give the verb its place and its options."""
    parser = add_verb(
        verbs,
        "pretrain",
        run,
        "train a method on images; goes on where it was cut off",
        "pellucid pretrain ncl scenes train.epochs=2 --out runs/try",
        "pellucid pretrain bayesncl cifar10 small data.root=PATH head.prior=0.3 --out runs/b",
    )
    add_recipe(parser)
    parser.add_argument(
        "--out", type=Path, help="the run directory to write (default: runs/METHOD-DATA-SIZE-SEED)"
    )
    add_data_flags(parser)


def run(options: argparse.Namespace) -> None:
    """Pretrain."""
    from pellucid.pretraining import pretrain

    recipe = composed(options)
    pretrain(
        recipe,
        options.out or default_folder(options, recipe.train.seed),
        device=options.device,
        download=options.download,
        strict=options.strict,
        say=say,
    )
