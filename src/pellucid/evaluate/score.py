"""A score as scores.json holds it: a number, and what it takes to read it."""

import math
from typing import TypedDict


class Score(TypedDict):
    """One number, never without what it rests on. Numbers are None where they do not apply."""

    value: float | None
    """None when nothing could be scored; `reason` then says why."""
    chance: float | None
    """What the same statistic gives by luck."""
    low: float | None
    """Lower end of the 95 % interval over images."""
    high: float | None
    """Upper end of it."""
    dimensions: int | None
    """Dimensions scored."""
    support: int | None
    """The fewest active images of a scored dimension; for scores of whole images, their number."""
    reason: str | None
    """Why there is no value."""


Scores = dict[str, Score]
"""Scores by name; the names are those of listed at `pellucid.evaluate.evaluation.evaluate`."""


def score(
    value: float | None,
    *,
    chance: float | None = None,
    low: float | None = None,
    high: float | None = None,
    dimensions: int | None = None,
    support: int | None = None,
    reason: str = "no dimension could be scored",
) -> Score:
    """A score from plain numbers; what is not finite becomes None, and only then `reason` stays."""
    value = _finite(value)
    return Score(
        value=value,
        chance=_finite(chance),
        low=_finite(low),
        high=_finite(high),
        dimensions=dimensions,
        support=support,
        reason=reason if value is None else None,
    )


def unscored(names: tuple[str, ...], reason: str) -> Scores:
    """Scores that cannot be had, each with the reason."""
    return {name: score(None, reason=reason) for name in names}


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
