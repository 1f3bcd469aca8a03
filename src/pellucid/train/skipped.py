"""The list of files that could not be read, kept with a run."""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from pellucid import distributed
from pellucid.data.image_set import ImageSet
from pellucid.text import as_cell, one_line, valid
from pellucid.train.whole import write_text

SKIPPED = "skipped.tsv"


def list_skipped(run: Path, skipped: Iterable[tuple[str, str]]) -> None:
    """Add the names and reasons of unreadable images to those that `skipped.tsv` lists already.

    A streamed set meets its bad files while it trains, and an earlier start met some of them.
    """
    path = run / SKIPPED
    header, lines = "file\treason", set[str]()
    if path.exists():
        lines = set(path.read_text("utf-8").splitlines()[1:])
    added = {"\t".join(as_cell(one_line(valid(part))) for part in pair) for pair in skipped}
    if added - lines:
        write_text(path, "".join(f"{line}\n" for line in [header, *sorted(lines | added)]))


@contextlib.contextmanager
def skipped_listed(run: Path, images: ImageSet) -> Iterator[None]:
    """Training, after which the unreadable images that this process met are listed, come what may.

    During it, all processes' are listed with each checkpoint.
    """
    try:
        yield
    finally:
        if distributed.rank() == 0:
            with contextlib.suppress(OSError):  # what ended the training is what must be told
                list_skipped(run, images.skipped)
