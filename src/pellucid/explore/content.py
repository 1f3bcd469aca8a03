"""What the page knows beyond its images: one tree of plain values, small enough to read."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import Tensor

from pellucid.answer.neighbours import median_of_random_pairs
from pellucid.explore import dimensions as of
from pellucid.explore.start import (
    Clarity,
    clarity,
    clearest,
    doubtful,
    pair_worth_reading,
)
from pellucid.representation.representation import Representation
from pellucid.text import valid

DIGITS = 6
"""Significant digits of stored statistics: more than are ever shown."""
MIN_SUPPORT = 10
"""Where a run does not say: the fewest active images of a dimension that is trusted."""


class Statistics(NamedTuple):
    """What was counted over all images."""

    found: of.Dimensions
    alike: of.Likeness | None
    classes: of.ClassUse | None
    gates: of.GateUse | None
    clear: Clarity | None
    min_support: int


def statistics(representation: Representation) -> Statistics:
    """Count everything once, over all images."""
    alike, classes = of.likeness(representation), of.class_use(representation)
    run = representation.run
    return Statistics(
        of.describe(representation),
        alike,
        classes,
        of.gate_use(representation),
        clarity(classes, alike),
        MIN_SUPPORT if run is None else run.recipe.evaluation.min_support,
    )


def content(
    representation: Representation, counted: Statistics, images: Tensor, *, file_names: bool
) -> dict[str, Any]:
    """The tree that the page reads, for the images with these indices.

    Keys that do not apply are None: a page without labels has no `classes`, one without gates no
    `gate`, and their views are then not there.
    """
    pair = pair_worth_reading(representation.z[images])
    labels = representation.labels
    use = counted.classes
    return {
        "label": valid(representation.label),
        "total": len(representation.z),
        "dimensions": representation.z.shape[1],
        "signed": representation.signed,
        "images": images.tolist(),
        "files": [valid(representation.names[i]) for i in images.tolist()] if file_names else None,
        "labels": None if use is None or labels is None else labels[images].tolist(),
        "classes": None if use is None else _class_names(representation, use),
        "names": {str(k): valid(name) for k, name in representation.dimension_names().items()},
        "dims": _columns(counted, len(representation.z)),
        "use": None if use is None else _use(use),
        "gate": _gate(representation, counted),
        "thresholds": {
            "always_on": of.ALWAYS_ON,
            "duplicate": of.DUPLICATE,
            "support": counted.min_support,
        },
        "alike_chance": None if counted.alike is None else _plain(counted.alike.chance),
        "clear": None if counted.clear is None else counted.clear.words,
        "start": {
            "clearest": clearest(counted.found, counted.clear, counted.min_support),
            "doubtful": doubtful(counted.found, counted.clear, counted.min_support),
            "pair": None if pair is None else [int(images[i]) for i in pair],
            "random_cosine": _plain(median_of_random_pairs(representation.z)),
        },
    }


def _class_names(representation: Representation, use: of.ClassUse) -> list[str]:
    named = [valid(name) for name in representation.classes or ()]
    return [*named, *(f"class {c}" for c in range(len(named), len(use.images)))]


def _columns(counted: Statistics, images: int) -> dict[str, Any]:
    """Statistics by name, each a list over dimensions."""
    found, use = counted.found, counted.classes
    doubles: list[list[int]] = [[] for _ in range(len(found.support))]
    for a, b in of.duplicates(found.cosine):
        doubles[a].append(b)
        doubles[b].append(a)
    return {
        "support": found.support.tolist(),
        "frequency": plain_list(found.frequency),
        "mean": plain_list(found.mean),
        "lowest": plain_list(found.lowest),
        "highest": plain_list(found.highest),
        "histogram": found.histogram.tolist(),
        "strata": found.strata.tolist(),
        "nearest": _pairs(of.nearest(found.cosine)),
        "together": _pairs(of.often_together(found, images, counted.min_support)),
        "duplicates": doubles,
        "alike": None if counted.alike is None else plain_list(counted.alike.value),
        "consistency": None if use is None else plain_list(use.consistency),
        "chance": None if use is None else plain_list(use.chance),
        "largest": None if use is None else use.largest.tolist(),
    }


def _use(use: of.ClassUse) -> dict[str, Any]:
    return {
        "images": use.images.tolist(),
        "counts": use.counts.tolist(),
        "mass": [plain_list(row, 4) for row in use.mass],
    }


def _gate(representation: Representation, counted: Statistics) -> dict[str, Any] | None:
    gates = counted.gates
    if gates is None:
        return None
    most = gates.removed.argsort(descending=True, stable=True)
    return {
        "threshold": representation.threshold,
        "prior": _setting(representation, "prior"),
        "weight": _weight(representation),
        "pi": plain_list(gates.pi),
        "open_rate": plain_list(gates.open_rate),
        "mean": plain_list(gates.mean),
        "closed": gates.closed.tolist(),
        "removed_median": _plain(gates.removed.median().item()),
        "removed_most": _plain(gates.removed[most[0]].item()),
    }


def _setting(representation: Representation, key: str) -> float | None:
    run = representation.run
    value = None if run is None else run.recipe.head.settings.get(key)
    return None if value is None else float(value)


def _weight(representation: Representation) -> float | None:
    run = representation.run
    return None if run is None else run.recipe.weights.get("gate_kl")


def _pairs(rows: Iterable[list[tuple[int, float]]]) -> list[list[list[float | int | None]]]:
    return [[[i, _plain(value, 4)] for i, value in row] for row in rows]


def plain_list(values: Tensor, digits: int = DIGITS) -> list[float | None]:
    """Numbers of a row as JSON takes them: what is not finite becomes None."""
    return [_plain(value, digits) for value in values.tolist()]


def _plain(value: float | None, digits: int = DIGITS) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")
