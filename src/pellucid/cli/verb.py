"""What verbs share: their place in the parser, the flags of images, and a line for the user."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console

from pellucid.text import for_terminal

if TYPE_CHECKING:
    Verbs = argparse._SubParsersAction[argparse.ArgumentParser]
Run = Callable[[argparse.Namespace], None]


def add_verb(
    verbs: "Verbs", name: str, run: Run, about: str, *examples: str
) -> argparse.ArgumentParser:
    """A verb with its help, which ends with examples; `run` is called with its options."""
    parser = verbs.add_parser(
        name,
        help=about,
        description=about[0].upper() + about[1:] + ".",
        epilog="\n  ".join(["example:" if len(examples) == 1 else "examples:", *examples]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(verb=run)
    return parser


def add_device(parser: argparse.ArgumentParser) -> None:
    """Where to compute."""
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda, cuda:1")


def add_data_flags(parser: argparse.ArgumentParser) -> None:
    """Where to compute, and how to treat images."""
    add_device(parser)
    parser.add_argument("--download", action="store_true", help="fetch a known set by torchvision")
    parser.add_argument("--strict", action="store_true", help="refuse at the first bad file")


def say(line: str) -> None:
    """Print a line for the user, beside what a verb prints as its result."""
    Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(for_terminal(line))
