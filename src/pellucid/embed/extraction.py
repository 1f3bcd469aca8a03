"""Images through a branch, shard by shard."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from pellucid import distributed
from pellucid.embed.shard import write_shard
from pellucid.embed.work import Work
from pellucid.evaluate.extract import Features, extract


def write_shards(work: Work, shards: Sequence[tuple[Path, Tensor]]) -> None:
    """Extract and write shards, one after the other, each by its file and its images' indices."""
    images, place = work.subject.images, work.subject.place
    with _bar(sum(len(part) for _, part in shards)) as advance:

        def preprocess(pixels: Tensor) -> Tensor:
            advance(len(pixels))
            return work.run.preprocess(pixels)

        for path, part in shards:
            features = extract(
                work.branch,
                preprocess,
                images,
                device=work.device,
                precision=work.settings["precision"],
                batch=work.settings["batch"],
                indices=part,
            )
            # A streamed set shows another image in the place of an unreadable one.
            reasons = {name: reason.replace(place, "") for name, reason in images.skipped}
            names = [images.names[i] for i in part]
            skipped = [(name, reasons[name]) for name in names if name in reasons]
            if skipped:
                kept = torch.tensor(
                    [i for i, name in enumerate(names) if name not in reasons], dtype=torch.int64
                )
                features = _rows(features, kept)
                names = [name for name in names if name not in reasons]
            facts = {
                "key": work.key,
                "run": work.run.name,
                "dimensions": features.z.shape[1],
                "features": features.h.shape[1],
                "classes": work.settings["classes"],
                "threshold": work.settings["threshold"],
                "skipped": skipped,
            }
            write_shard(path, features, names, work.layout, facts)


def _rows(features: Features, kept: Tensor) -> Features:
    """Some rows of features."""
    parts = {name: value[kept] for name, value in features._asdict().items() if value is not None}
    return features._replace(**parts)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    """A bar with the time left, which only a terminal of the first process shows."""
    console = Console(stderr=True)
    shown = console.is_terminal and distributed.rank() == 0
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not shown
    ) as bar:
        task = bar.add_task("embedding", total=total)
        yield lambda count: bar.advance(task, count)
