import io
from typing import Any

import pytest
from rich.console import Console

from pellucid.evaluate.score import score, unscored
from pellucid.evaluate.table import MEANINGS, number, print_scores


def scores(**changes: Any) -> dict[str, Any]:
    full = score(0.5, chance=0.1, low=0.4, high=0.6, dimensions=200, support=12)
    sizes = {"encoder": 700_000, "projector": 1_000, "head": 5, "total": 701_005}
    found = {
        "run": "try", "method": "ncl", "step": 960,
        "settings": {
            "data": "cifar10", "scored_images": 10_000, "scored_split": "test",
            "dimensions": 256, "features": 128,
        },
        "trained": dict.fromkeys(MEANINGS, full),
        "untrained": dict.fromkeys(MEANINGS, score(0.25)),
        "cost": {"parameters": sizes, "flops": sizes},
        "timing": {"seconds": 61.2, "seconds_a_step": 0.0637},
        "notes": ["a [note]"],
    }  # fmt: skip
    return found | changes


def shown(found: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=200)
    print_scores(found, console)
    return console.file.getvalue()


def row(text: str, label: str) -> str:
    return next(line for line in text.splitlines() if label in line)


def test_every_score_stands_with_what_it_rests_on() -> None:
    text = shown(scores())
    assert "try: ncl on cifar10, 10,000 test images, step 960" in text
    for meaning in MEANINGS.values():
        assert meaning.label.strip() in text
        assert meaning.words in text
    for part in ("↑", "0.500", "0.400–0.600", "0.100", "0.250", "200", "12"):
        assert part in row(text, "semantic consistency")
    assert "↓" in row(text, "semantic entropy")
    assert "↑" not in row(text, "activation rate")
    assert "a [note]" in text
    assert "encoder 700,000 (0.7), projector 1,000 (0.0), head 5 (0.0)" in text
    assert "training: 61 s, 64 ms a step" in text


def test_a_missing_score_is_a_dash_with_its_reason() -> None:
    found = scores()
    missing = unscored(("knn", "linear_probe_top1"), "the training images have no labels")
    text = shown(found | {"trained": found["trained"] | missing})
    assert "–" in row(text, "kNN on h")
    labels = ", ".join(MEANINGS[name].label for name in missing)
    assert f"no {labels}: the training images have no labels" in text


def test_scores_that_were_not_asked_for_have_no_row() -> None:
    found = scores(timing={"seconds": None, "seconds_a_step": None})
    found["trained"] = {"density": found["trained"]["density"]}
    text = shown(found)
    assert "kNN" not in text
    assert "training:" not in text
    assert "density" in text


def test_planted_truth_and_conflict_have_lines_where_they_are_known() -> None:
    assert "background" not in shown(scores(planted=None, gradient_conflict={"reason": "none"}))
    consistency = {"value": 0.75, "chance": 0.3}
    planted = {
        "dimensions": {"object": 12, "background": 34, "neither": 5},
        "consistency": {"object": consistency, "background": consistency | {"value": 0.875}},
        "gate": None,
    }
    quartiles = {"median": 0.031, "lower_quartile": 0.011, "upper_quartile": 0.077}
    conflict = {"reason": None, "dimensions": 222, "gradient": {"ratio": quartiles}}
    text = shown(scores(planted=planted, gradient_conflict=conflict))
    for part in ("object 12", "34", "0.750", "0.875", "0.031", "0.011", "0.077", "222 dimensions"):
        assert part in text
    assert "gates open" not in text


def test_a_name_is_no_markup() -> None:
    assert "[red]x[/red]: ncl" in shown(scores(run="[red]x[/red]"))


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (3, "3"), (12_345, "12,345"), (0.12345, "0.123"), (0.0, "0.000"),
     (9.9, "9.900"), (123.45, "123.5"), (-0.5, "-0.500")],
)  # fmt: skip
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text
