"""The traces of a run: values in metrics.jsonl, the clock in timing.jsonl, a line for the eye."""

import json
import math
import time
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor

from pellucid import distributed
from pellucid.train.finite import NotFiniteError
from pellucid.train.observe import alarms
from pellucid.train.whole import sync, write_text
from pellucid.types import Terms

METRICS, TIMING = "metrics.jsonl", "timing.jsonl"
QUIET_SECONDS = 30.0
"""Without a terminal, a line is printed this often."""


class Log:
    """Collects a run's values on the device and writes them every `every` steps.

    Values hold nothing of the clock, so that an interrupted and resumed run writes the same
    metrics.jsonl as an undisturbed one.

    Args:
        run: the run directory.
        every: steps between lines.
        start: the step that training starts from; later lines of an earlier start are dropped.
        steps: of the whole training.
        batch: images of a step.
        writes: False on ranks that only check.
        settled: the step from which a collapse is worth a warning.
    """

    def __init__(
        self,
        run: Path,
        every: int,
        start: int,
        steps: int,
        batch: int,
        writes: bool,
        settled: int = 0,
    ) -> None:
        self.run, self.every, self.steps, self.batch, self.writes = run, every, steps, batch, writes
        self.settled = settled
        self.warned: set[str] = set()
        self.pending: list[tuple[int, Terms]] = []
        self.unchecked: list[tuple[int, Terms]] = []
        self.flushed_at, self.flushed_step = time.perf_counter(), start
        self.printed_at = time.perf_counter()
        self.console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} steps"),
            TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not (writes and self.console.is_terminal),
        )
        self.task = self.bar.add_task("training", total=steps, completed=start, speed="")
        if writes:
            _keep_until(run / METRICS, start)
            _keep_until(run / TIMING, start)

    def __enter__(self) -> "Log":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def due(self, step: int, lines: int = 1) -> bool:
        """Whether the step ends a window, or every so many of them (0: never), or the training.

        Only then are the costlier values worth computing.
        """
        return lines > 0 and ((step + 1) % (lines * self.every) == 0 or step + 1 == self.steps)

    def add(self, step: int, values: Terms, gradients: Terms) -> None:
        """Take a step's values before the step is taken, so that it can still be refused.

        Args:
            step: its number.
            values: what the window's line will hold the means of.
            gradients: norms that are only checked, and logged as one, `grad_norm`.

        Raises:
            NotFiniteError: on the CPU, a value or a gradient is not finite.
        """
        whole = torch.stack(list(gradients.values())).norm()
        values = {name: value.detach() for name, value in values.items()} | {"grad_norm": whole}
        self.pending.append((step, values))
        self.unchecked.append((step, values | gradients))
        if whole.device.type == "cpu":  # where looking at a value waits for nothing
            self.check()

    def check(self) -> None:
        """Look at what has not been looked at: on a GPU the only wait for it.

        Raises:
            NotFiniteError: of the first step with a value that is not finite.
        """
        names, table = _table(self.unchecked)
        own = [
            (step, dict(zip(names, row.tolist(), strict=True)))
            for (step, _), row in zip(self.unchecked, table, strict=True)
            if not bool(torch.isfinite(row).all())
        ]
        (anywhere,) = distributed.largest(len(own))
        if anywhere:  # on all processes, so that none waits for the one that stops
            raise NotFiniteError(*min(distributed.collect(own[:1]), key=itemgetter(0)))
        self.unchecked = []

    def end_step(self, step: int, extra: Terms, rates: Mapping[str, float]) -> None:
        """Note that a step was taken; at the end of a window check it, and write its line.

        Raises:
            NotFiniteError: a value of the window is not finite.
        """
        self.bar.update(self.task, completed=step + 1)
        if not self.due(step):
            return
        self.check()
        names, table = _table(self.pending)
        means = dict(zip(names, table.double().mean(dim=0).tolist(), strict=True))
        line = {"step": step + 1, **means, **{n: v.item() for n, v in extra.items()}}
        self.pending = []
        self._write(step + 1, {**line, **rates})
        if step >= self.settled:
            for words in alarms(line):
                self._warn_once(step + 1, words)

    def _warn_once(self, step: int, words: str) -> None:
        kind = words.partition(":")[0]
        if kind not in self.warned:
            self.warned.add(kind)
            self.console.print(f"warning: step {step}: {words}", style="yellow", markup=False)

    def state(self) -> dict[str, Tensor]:
        """The window that is still open, so that a resumed run closes it with the same means."""
        return {
            f"log/{step}/{name}": value
            for step, values in self.pending
            for name, value in values.items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take up the window that was open when the checkpoint was written."""
        window: dict[int, Terms] = {}
        for key, value in tensors.items():
            if key.startswith("log/"):
                _, step, name = key.split("/")
                window.setdefault(int(step), {})[name] = value
        self.pending = sorted(window.items())

    def sync(self) -> None:
        """Wait until the lines are on the disk: a checkpoint must not know more than they."""
        for path in (self.run / METRICS, self.run / TIMING):
            if self.writes and path.exists():
                sync(path)

    def _write(self, step: int, line: Mapping[str, float | int]) -> None:
        now = time.perf_counter()
        seconds, taken = now - self.flushed_at, step - self.flushed_step
        speed = self.batch * taken / seconds
        self.flushed_at, self.flushed_step = now, step
        if not self.writes:
            return
        _append(self.run / METRICS, line)
        _append(self.run / TIMING, {"step": step, "seconds": seconds, "images_per_second": speed})
        self.bar.update(self.task, speed=f"{speed:,.0f} images/s")
        if self.bar.disable and (now - self.printed_at > QUIET_SECONDS or step == self.steps):
            self.printed_at = now
            left = (self.steps - step) * seconds / taken
            values = "  ".join(f"{n} {v:.4g}" for n, v in line.items() if n != "step")
            self.console.print(
                f"step {step}/{self.steps}  {speed:,.0f} images/s  {_clock(left)} left  {values}",
                highlight=False,
                soft_wrap=True,
            )


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a JSON-lines file with their steps; a half-written last line is left out."""
    lines: list[dict[str, Any]] = []
    if path.exists():
        for text in path.read_text("utf-8", errors="replace").splitlines():
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                break
            if not isinstance(line, dict) or not isinstance(line.get("step"), int):
                break
            lines.append(line)
    return lines


def _append(path: Path, line: Mapping[str, float | int]) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dict(line)) + "\n")
    except OSError as error:
        error.filename = str(path)  # a full disk is reported without a name
        raise


def _table(window: list[tuple[int, Terms]]) -> tuple[list[str], Tensor]:
    """The names of a window's values, and the values [steps, names] on the CPU."""
    if not window:
        return [], torch.zeros(0, 0)
    newest = window[-1][1]  # a restored window has lost the order of its names
    names = [n for n in newest if all(n in values for _, values in window)]
    device = newest[names[0]].device
    rows = [torch.stack([values[n].float().to(device) for n in names]) for _, values in window]
    return names, torch.stack(rows).cpu()


def _keep_until(path: Path, step: int) -> None:
    if path.exists():
        kept = [line for line in read_lines(path) if line["step"] <= step]
        write_text(path, "".join(json.dumps(line) + "\n" for line in kept))


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
