"""Why are these two images similar? The answer in print, and as a figure."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from pellucid.answer.why_answer import TOP, Why, answer_why, rare
from pellucid.answer.why_figure import draw
from pellucid.answer.why_table import print_rarity, print_why
from pellucid.answer.write import checked_out
from pellucid.representation.representation import Representation


def why(
    representation: Representation,
    a: str,
    b: str,
    console: Console,
    *,
    top: int = TOP,
    rarity: bool = False,
    device: str = "auto",
    out: Path | None = None,
    say: Callable[[str], None] = print,
) -> Why:
    """Explain the similarity of two images: print a table and, with `out`, draw a figure.

    Args:
        representation: in whose dimensions.
        a: an image of it by name or number, or the path of an image file.
        b: another.
        console: where to print.
        top: dimensions to show one by one, at least 1.
        rarity: also print the contributions over how frequent the dimensions are.
        device: where the branch runs, for a file.
        out: a PNG or an HTML file to write.
        say: takes a line for the user.

    Raises:
        RunError: an image is not there or cannot be read, or `out` ends in something else.
    """
    checked_out(out)
    answer = answer_why(representation, a, b, top=top, device=device)
    print_why(answer, console)
    if rarity:
        print_rarity(answer, rare(answer), top, console)
    if out is not None:
        draw(answer, out)
        say(f"written to {out}")
    return answer
