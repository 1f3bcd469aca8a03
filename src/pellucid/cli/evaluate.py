"""`pellucid evaluate`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from pellucid.cli.verb import add_data_flags, add_verb, say

if TYPE_CHECKING:
    from pellucid.cli.verb import Verbs


def add(verbs: "Verbs") -> None:
    """Give the verb its place and its options."""
    parser = add_verb(
        verbs,
        "evaluate",
        run,
        "score a run: interpretability on z, usefulness on h",
        "pellucid evaluate runs/try",
    )
    parser.add_argument("run", type=Path, help="a run directory of `pellucid pretrain`")
    add_data_flags(parser)


def run(options: argparse.Namespace) -> None:
    """Evaluate, and print the table."""
    from pellucid.evaluate.evaluation import evaluate
    from pellucid.evaluate.table import print_scores
    from pellucid.run import open_run

    scores = evaluate(
        open_run(options.run),
        device=options.device,
        download=options.download,
        strict=options.strict,
        say=say,
    )
    if scores:  # under torchrun, the first process has them
        print_scores(scores, Console())
