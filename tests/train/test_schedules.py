"""The learning rate's share of its peak."""

import math

import pytest

from pellucid.train.schedules import warmup_cosine


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, 1 / 4),
        (1, 2 / 4),
        (3, 1.0),
        (4, 1.0),
        (12, 0.5),  # half of the 16 steps after the warm-up
        (8, (1 + math.sqrt(0.5)) / 2),
        (19, (1 - math.cos(math.pi / 16)) / 2),
    ],
)
def test_closed_form_of_twenty_steps_with_four_of_warm_up(step, expected):
    assert warmup_cosine(step, 20, 4) == pytest.approx(expected, abs=1e-12)


def test_it_rises_then_falls_and_never_reaches_nothing():
    rates = [warmup_cosine(step, 100, 10) for step in range(100)]
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert min(rates) > 0
    assert max(rates) == 1


@pytest.mark.parametrize(("steps", "warmup"), [(5, 0), (1, 0), (1, 1), (5, 5)])
def test_edges_start_without_a_zero(steps, warmup):
    rates = [warmup_cosine(step, steps, warmup) for step in range(steps)]
    assert all(0 < rate <= 1 for rate in rates)
    assert max(rates) == 1
