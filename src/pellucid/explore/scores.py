"""The score table of the page: every number as scores.json has it, beside what it takes to read."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from pellucid.evaluate.table import MEANINGS, number

UNDEFINED = "not defined"
WORDS = {"higher": "higher is better", "lower": "lower is better", "neither": "neither is better"}
SIGNS = {"higher": "↑", "lower": "↓", "neither": ""}


MAIN = (
    *("semantic_consistency", "semantic_consistency_published", "semantic_entropy_normalised"),
    *("monosemanticity", "retrieval_at_1", "knn", "linear_probe_top1"),
)
LABEL_FREE = frozenset(
    {"activation_rate", "density", "effective_rank", "orthogonality", "monosemanticity"}
)
"""What can be scored without labels."""


class ScoreRow(NamedTuple):
    """One line of the table, in words."""

    key: str
    """The name in scores.json."""
    label: str
    meaning: str
    sign: str
    better: str
    value: str
    interval: str
    chance: str
    untrained: str
    other: str
    """The same score of the run that is compared with; empty without one."""
    difference: str
    """This one less the other."""
    dimensions: str
    support: str
    main: bool
    """Shown at once; the others on demand."""
    doubtful: bool
    """A dimension with fewer active images than the metrics' own least was scored."""
    reason: str


def score_rows(
    scores: Mapping[str, Any] | None,
    other: Mapping[str, Any] | None = None,
    *,
    labelled: bool = True,
) -> list[ScoreRow]:
    """A row for each score that scores.json holds; without labels, for those that need none."""
    if scores is None:
        return []
    least = (scores.get("settings") or {}).get("min_support", 0)
    theirs = {} if other is None else other["trained"]
    rows, parent = [], ""
    for name, meaning in MEANINGS.items():
        label = meaning.label.strip()
        if label == meaning.label:
            parent = label.partition(" P@")[0]
        else:  # the terminal's table indents what belongs to the row above
            label = f"{parent}, {label}"
        score = scores["trained"].get(name)
        if score is None or not (labelled or name in LABEL_FREE):
            continue
        untrained = (scores.get("untrained") or {}).get(name) or {}
        second = (theirs.get(name) or {}).get("value")
        low, high = (_shown(score.get(end)) for end in ("low", "high"))
        support = score.get("support")
        rows.append(
            ScoreRow(
                key=name,
                label=label,
                meaning=meaning.words,
                sign=SIGNS[meaning.better],
                better=WORDS[meaning.better],
                value=_shown(score["value"]) or UNDEFINED,
                interval=f"{low} to {high}" if low and high else "",
                chance=_shown(score.get("chance")),
                untrained=_shown(untrained.get("value")),
                other=_shown(second),
                difference=_difference(score["value"], second),
                dimensions=_shown(score.get("dimensions")),
                support=_shown(support),
                main=name in MAIN,
                doubtful=support is not None and support < least,
                reason=score.get("reason") or "",
            )
        )
    return rows


def _shown(value: float | int | None) -> str:
    return "" if value is None or not math.isfinite(value) else number(value)


def _difference(value: float | None, other: float | None) -> str:
    if value is None or other is None or not math.isfinite(value - other):
        return ""
    return f"{value - other:+.3f}".replace("-", "−")
