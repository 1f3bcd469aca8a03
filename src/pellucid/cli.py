"""The command line: `pellucid VERB ...`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:  # a verb imports what it needs: what draws and scores is slow to load
    from pellucid.recipe import Recipe

HINT = """\
examples:
  pellucid pretrain bayesncl scenes --out runs/bayesncl      built-in data, about a minute
  pellucid evaluate runs/bayesncl                            scores.json and a table
  pellucid compare runs/ncl runs/bayesncl                    one table of several runs
  pellucid list methods                                      what can be named
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; 0 when it did what was asked, 1 for an error in words, 2 for bad usage."""
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
        errors.print("error: ", style="bold red", end="")
        errors.print(str(error), markup=False)
        return 1
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

    pretrain = _verb(
        verbs,
        "pretrain",
        _pretrain,
        "train a method on images; goes on where it was cut off",
        "pellucid pretrain ncl scenes train.epochs=2 --out runs/try\n"
        "  pellucid pretrain bayesncl cifar10 small data.root=PATH head.prior=0.3 --out runs/b",
    )
    _add_recipe(pretrain)
    pretrain.add_argument(
        "--out", type=Path, help="the run directory to write (default: runs/METHOD-DATA-SIZE-SEED)"
    )
    _add_data_flags(pretrain)

    preview = _verb(
        verbs,
        "preview",
        _preview,
        "what a recipe would do: views, parameters, FLOPs, time to the end",
        "pellucid preview bayesncl scenes --out preview.png",
    )
    _add_recipe(preview)
    preview.add_argument("--out", type=Path, default=Path("preview.png"), help="the sheet of views")
    _add_data_flags(preview)

    evaluate = _verb(
        verbs,
        "evaluate",
        _evaluate,
        "score a run: interpretability on z, usefulness on h",
        "pellucid evaluate runs/try",
    )
    evaluate.add_argument("run", type=Path, help="a run directory of `pellucid pretrain`")
    _add_data_flags(evaluate)

    compare = _verb(
        verbs,
        "compare",
        _compare,
        "one table of several evaluated runs, and a figure",
        "pellucid compare runs/simclr runs/ncl runs/bayesncl --out comparison",
    )
    compare.add_argument("runs", type=Path, nargs="+", help="run directories with scores.json")
    compare.add_argument("--out", type=Path, help="folder for compare.md, compare.csv, compare.png")

    listing = _verb(verbs, "list", _list, "what can be named", "pellucid list heads")
    listing.add_argument("kind", choices=["methods", "data", "sizes", *_KINDS], metavar="KIND",
                         help=f"methods, data, sizes, {', '.join(_KINDS)}")  # fmt: skip
    return parser


_KINDS = ("heads", "frameworks", "transforms", "regularisers", "optimisers", "encoders")


def _verb(
    verbs: object, name: str, run: object, about: str, example: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(  # type: ignore[attr-defined]
        name,
        help=about,
        description=about[0].upper() + about[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(verb=run)
    return parser


def _add_recipe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("method", help="see `pellucid list methods`")
    parser.add_argument("data", help="a known set (`pellucid list data`) or a path to images")
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="SIZE | key=value",
        help="`small` (two cores, minutes) or `paper` (default), and settings such as "
        "train.seed=1, head.prior=0.3, data.root=PATH",
    )


def _add_data_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="auto", help="auto (default), cpu, cuda, cuda:1")
    parser.add_argument("--download", action="store_true", help="fetch a known set by torchvision")
    parser.add_argument("--strict", action="store_true", help="refuse at the first bad file")


def _size(options: argparse.Namespace) -> tuple[str, list[str]]:
    from pellucid.recipe import PAPER

    settings = list(options.settings)
    size = settings.pop(0) if settings and "=" not in settings[0] else PAPER
    return size, settings


def _recipe(options: argparse.Namespace) -> "Recipe":
    from pellucid.recipe import compose

    size, settings = _size(options)
    return compose(options.method, options.data, size, settings)


def _default_folder(options: argparse.Namespace, seed: int) -> Path:
    data = Path(options.data).resolve().name
    return Path("runs") / f"{options.method}-{data}-{_size(options)[0]}-{seed}"


def _pretrain(options: argparse.Namespace) -> None:
    from pellucid.pretraining import pretrain

    recipe = _recipe(options)
    pretrain(
        recipe,
        options.out or _default_folder(options, recipe.train.seed),
        device=options.device,
        download=options.download,
        strict=options.strict,
        say=_say,
    )


def _preview(options: argparse.Namespace) -> None:
    from pellucid.preview import preview

    preview(
        _recipe(options),
        options.out,
        device=options.device,
        download=options.download,
        strict=options.strict,
        say=_say,
    )


def _evaluate(options: argparse.Namespace) -> None:
    from pellucid.evaluate.evaluation import evaluate
    from pellucid.evaluate.table import print_scores
    from pellucid.run import open_run

    scores = evaluate(
        open_run(options.run),
        device=options.device,
        download=options.download,
        strict=options.strict,
        say=_say,
    )
    print_scores(scores, Console())


def _compare(options: argparse.Namespace) -> None:
    from pellucid.evaluate.compare import compare

    compare(options.runs, Console(), options.out)


def _list(options: argparse.Namespace) -> None:
    from pellucid.listing import describe

    for name, about in describe(options.kind):
        print(f"{name:20} {about}".rstrip())


def _say(line: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(line)


if __name__ == "__main__":
    sys.exit(main())
