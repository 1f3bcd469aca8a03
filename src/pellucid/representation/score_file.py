"""scores.json of a run, checked before it is shown: the run may come from a stranger."""

from collections.abc import Iterator, Mapping
from typing import Any

from pellucid.run import SCORES, Run, RunError
from pellucid.text import read_json

NUMBERS = ("value", "chance", "low", "high", "dimensions", "support")
COUNTS = ("dimensions", "min_support", "scored_images", "scored_images_labelled", "classes")
"""Settings that are read as numbers."""


def read_scores(run: Run) -> dict[str, Any] | None:
    """What scores.json holds; None where the run has none. An old file may lack any score.

    Raises:
        RunError: it cannot be read, or holds something else than scores.
    """
    path, again = run.folder / SCORES, f"run `pellucid evaluate {run.folder}` again"
    try:
        scores = read_json(path, undefined=True)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}): {again}") from error
    if not isinstance(scores, dict) or not isinstance(scores.get("trained"), dict):
        raise RunError(f"{path} holds no scores of a trained branch: {again}")
    for wrong in _wrong(scores):
        raise RunError(f"{path} is damaged ({wrong}): {again}")
    return scores


def _wrong(scores: Mapping[str, Any]) -> Iterator[str]:
    """What is not as evaluation writes it, in words."""
    for name in ("untrained", "settings"):
        if not isinstance(scores.get(name) or {}, dict):
            yield f"{name} is no section"
            return
    planted = scores.get("planted") or {}
    by = planted.get("consistency") if isinstance(planted, dict) else None
    sections = {
        "trained": scores["trained"],
        "untrained": scores.get("untrained") or {},
        "planted.consistency": by if isinstance(by, dict) else {},
    }
    for section, found in sections.items():
        for name, score in found.items():
            yield from _wrong_score(f"{section}.{name}", score)
    if type(scores.get("step", 0)) is not int:
        yield f"step is {scores['step']!r}, no integer"
    notes = scores.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        yield "notes are no texts"
    for name in COUNTS:
        value = (scores.get("settings") or {}).get(name, 0)
        if type(value) is not int or value < 0:
            yield f"settings.{name} is {value!r}, no count"


def _wrong_score(where: str, score: Any) -> Iterator[str]:
    if not isinstance(score, dict) or "value" not in score:
        yield f"{where} is no score with a value"
        return
    for name in NUMBERS:
        value = score.get(name)
        if value is not None and type(value) not in (int, float):
            yield f"{where}.{name} is {value!r}, no number"
    if not isinstance(score.get("reason", ""), str | None):
        yield f"{where}.reason is no text"
