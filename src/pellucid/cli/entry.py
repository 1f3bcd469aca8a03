"""The entrance: options to a verb, errors to words and an exit status."""

import argparse
from collections.abc import Sequence

from rich.console import Console

from pellucid.cli import compare, embed, evaluate, explore, listing, pretrain, preview, search, why
from pellucid.text import for_terminal

HINT = """\
examples:
  pellucid pretrain bayesncl scenes --out runs/bayesncl      built-in data, about a minute
  pellucid evaluate runs/bayesncl                            scores.json and a table
  pellucid compare runs/ncl runs/bayesncl                    one table of several runs
  pellucid why runs/bayesncl 412 88                          why two images are similar
  pellucid search runs/bayesncl photo.jpg                    the nearest images, and why
  pellucid list methods                                      what can be named
"""

VERBS = (pretrain, preview, evaluate, compare, explore, embed, why, search, listing)
"""In the order of the help. A verb imports what it needs when it runs: scoring is slow to load."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; 0 when it did what was asked, 1 for an error in words, 2 for bad usage.

    A training that was stopped ends as shells report its signal: 143 (SIGTERM) or 130 (Ctrl-C).
    """
    options = _parse(arguments)
    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        options.verb(options)
    except KeyboardInterrupt:
        errors.print("interrupted", style="red")
        return 130
    except (ValueError, RuntimeError, OSError) as error:
        if options.traceback:
            raise
        status = getattr(error, "exit_status", None)
        if status is None:  # else it was asked to stop, which is no error
            errors.print("error: ", style="bold red", end="")
        errors.print(for_terminal(str(error)), markup=False)
        return 1 if status is None else int(status)
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; settings may stand before and after flags, which argparse alone refuses."""
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if rest and (not hasattr(options, "settings") or any(word[:1] == "-" for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        options.settings = [*options.settings, *rest]
    return options


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pellucid",
        description="Image representations learnt without labels whose dimensions people can read.",
        epilog=HINT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--traceback", action="store_true", help="show where an error came from")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    for verb in VERBS:
        verb.add(verbs)
    return parser
