"""The images most similar to one: in print, and as a figure."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from pellucid.answer.search_answer import TOP, Found, find_similar
from pellucid.answer.search_figure import draw
from pellucid.answer.search_table import print_found
from pellucid.answer.write import checked_out
from pellucid.representation.representation import Representation


def search(
    representation: Representation,
    image: str,
    console: Console,
    *,
    top: int = TOP,
    with_dims: Sequence[int] = (),
    without_dims: Sequence[int] = (),
    device: str = "auto",
    out: Path | None = None,
    say: Callable[[str], None] = print,
) -> Found:
    """Find the images with the largest cosine: print a table and, with `out`, draw a figure.

    Args:
        representation: the images to search.
        image: one of them by name or number, or the path of an image file.
        console: where to print.
        top: how many, at least 1.
        with_dims: dimensions that must be active on an image that is found.
        without_dims: dimensions that must not be.
        device: where the branch runs, for a file.
        out: a PNG or an HTML file to write.
        say: takes a line for the user.

    Raises:
        RunError: the image is not there or cannot be read, a dimension is not there or asked
            for and excluded, or `out` ends in something else.
    """
    checked_out(out)
    answer = find_similar(
        representation,
        image,
        top=top,
        with_dims=with_dims,
        without_dims=without_dims,
        device=device,
    )
    print_found(answer, console)
    if out is not None:
        draw(answer, out)
        say(f"written to {out}")
    return answer
