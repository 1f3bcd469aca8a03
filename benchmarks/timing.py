"""How benchmarks here measure: contestants take turns in one run, and what is reported is a ratio.

A busy moment of the machine then falls on all alike. A figure is the median of its rounds, with the
slowest and the fastest; a ratio is taken round by round before its median is.
"""

import argparse
import contextlib
import importlib.metadata
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from pellucid.train.device import hardware

VERSIONS = (
    "numpy",
    "pillow",
    "pyarrow",
    "scikit-learn",
    "timm",
    "torchvision",
    "lightly",
    "kornia",
)


def take_turns(
    contestants: Mapping[str, Callable[[], Any]], rounds: int, *, warm: int = 1
) -> dict[str, list[float]]:
    """Seconds of each round of each contestant, the rounds interleaved; `warm` are not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(warm + rounds):
        for name, run in contestants.items():
            began = time.perf_counter()
            run()
            if number >= warm:
                seconds[name].append(time.perf_counter() - began)
    return seconds


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and most."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def rates(seconds: Sequence[float], items: float) -> dict[str, float]:
    """Items a second: median, slowest and fastest round."""
    return spread([items / s for s in seconds])


def ratio(over: Sequence[float], under: Sequence[float]) -> dict[str, float]:
    """Of two contestants' seconds, round by round."""
    return spread([a / b for a, b in zip(over, under, strict=True)])


def wait(device: torch.device) -> None:
    """Until a GPU has done what was queued for it: a clock read earlier is too early."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Another number of torch's threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--out", type=Path, help="a JSON file to write the figures into as well")
    return made


def report(figures: Mapping[str, Any], out: Path | None, device: str = "cpu") -> None:
    """Print the figures with hardware and versions, and write them where asked."""
    found = {}
    for package in VERSIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    facts = {"hardware": hardware(torch.device(device)), "versions": found, **figures}
    text = json.dumps(_rounded(facts), indent=1)
    print(text)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        unfinished = out.with_name(f"{out.name}.writing")
        unfinished.write_text(text + "\n")
        unfinished.replace(out)


def _rounded(tree: Any) -> Any:
    """Four digits are more than a clock knows."""
    if isinstance(tree, float):
        return float(f"{tree:.4g}")
    if isinstance(tree, Mapping):
        return {key: _rounded(value) for key, value in tree.items()}
    return [_rounded(value) for value in tree] if isinstance(tree, (list, tuple)) else tree
