"""METHOD DATA [SIZE] [key=value ...]: how a recipe is named on the command line."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # composing imports every part that a recipe can name
    from pellucid.recipe import Recipe


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """The words that name a recipe."""
    parser.add_argument("method", help="see `pellucid list methods`")
    parser.add_argument("data", help="a known set (`pellucid list data`) or a path to images")
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="SIZE | key=value",
        help="`small` (two cores, minutes) or `paper` (default), and settings such as "
        "train.seed=1, head.prior=0.3, data.root=PATH",
    )


def composed(options: argparse.Namespace) -> "Recipe":
    """The recipe that was named."""
    from pellucid.recipe import compose

    size, settings = _size(options)
    return compose(options.method, options.data, size, settings)


def default_folder(options: argparse.Namespace, seed: int) -> Path:
    """Where a run goes when no folder is named."""
    data = Path(options.data).resolve().name
    return Path("runs") / f"{options.method}-{data}-{_size(options)[0]}-{seed}"


def _size(options: argparse.Namespace) -> tuple[str, list[str]]:
    from pellucid.recipe import PAPER

    settings = list(options.settings)
    size = settings.pop(0) if settings and "=" not in settings[0] else PAPER
    return size, settings
