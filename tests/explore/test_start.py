from pathlib import Path

import numpy as np
import pytest
import torch

from pellucid.explore.dimensions import ClassUse, Likeness, class_use, describe, likeness
from pellucid.explore.start import (
    SHOWN,
    Clarity,
    clarity,
    clearest,
    doubtful,
    pair_worth_reading,
)
from pellucid.representation.representation import Representation

NAN = float("nan")


def representation(z, **more):
    names = [str(i) for i in range(len(z))]
    return Representation("made", Path("made.npy"), z, names, **more)


def active_on(*supports, images=100):
    """Statistics of dimensions that are active on so many images."""
    z = torch.zeros(images, len(supports))
    for k, support in enumerate(supports):
        z[:support, k] = 1
    return describe(representation(z))


def clear(*margins):
    return Clarity(torch.tensor(margins, dtype=torch.float64), "made")


def test_clearest_are_those_furthest_above_chance_of_those_that_count():
    #  0 dead, 1 too rare, 2 always on, 3 and 6 tie, 4 not scored
    found = active_on(0, 9, 95, 50, 50, 10, 50, 90)
    order = clearest(found, clear(0.9, 0.9, 0.9, 0.3, NAN, 0.5, 0.3, -0.1), min_support=10)
    assert order == [5, 3, 6, 7]


def test_doubtful_are_the_rare_the_constant_and_those_at_chance():
    found = active_on(0, 9, 95, 50, 50, 10, 50, 90)
    order = doubtful(found, clear(-0.9, 0.9, 0.8, 0.3, NAN, 0.5, -0.2, 0.4), min_support=10)
    assert order == [2, 1, 6, 4, 3, 7]


def test_no_margin_puts_a_trusted_dimension_below_a_rare_one():
    order = doubtful(active_on(50, 9), clear(-1.9, 1.0), min_support=10)
    assert order == [1, 0]


def test_without_a_measure_rare_and_constant_come_first():
    found = active_on(50, 0, 95, 50, 3)
    assert clearest(found, None, min_support=10) == []
    assert doubtful(found, None, min_support=10) == [2, 4, 0, 3]


def test_as_many_as_are_shown():
    found = active_on(*[50] * 20)
    margins = clear(*[(7 * k) % 20 / 20 for k in range(20)])
    values = [round(margins.margin[k].item() * 20) for k in clearest(found, margins, 10)]
    assert values == list(range(19, 19 - SHOWN, -1))
    values = [round(margins.margin[k].item() * 20) for k in doubtful(found, margins, 10)]
    assert values == list(range(SHOWN))


def test_clarity_is_consistency_or_else_likeness_above_chance():
    z = torch.rand(30, 3, generator=torch.Generator().manual_seed(0)).sub(0.5).relu()
    labels = torch.arange(30) % 3
    source = representation(z, labels=labels, h=z)
    use, alike = class_use(source), likeness(source)
    assert isinstance(use, ClassUse)
    assert isinstance(alike, Likeness)
    by_class = clarity(use, alike)
    assert by_class.margin.tolist() == pytest.approx((use.consistency - use.chance).tolist())
    assert "class" in by_class.words
    by_likeness = clarity(None, alike)
    assert by_likeness.margin.tolist() == pytest.approx((alike.value - alike.chance).tolist())
    assert "class" not in by_likeness.words
    assert clarity(None, None) is None
    assert clarity(None, Likeness(torch.tensor([NAN]), None)) is None


def unit(z):
    rows = z.double().numpy()
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)


def best_pair(z):
    """By loops: for each image its nearest up to 0.98, and of these the largest third share."""
    rows = unit(z)
    found = []
    for i, row in enumerate(rows):
        others = [(rows[j] @ row, -j) for j in range(len(rows)) if j != i]
        others = [(c, j) for c, j in others if 0 < c <= 0.98]
        if others:
            cosine, j = max(others)
            shares = sorted(row * rows[-j] / cosine, reverse=True)
            found.append((shares[min(3, len(row)) - 1], i, -j))
    return max(found, default=None)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_pair_has_the_largest_third_reason(seed, signed):
    z = torch.randn(40, 8, generator=torch.Generator().manual_seed(seed))
    z = z if signed else (z - 0.3).relu()
    z[5] = z[6]  # equal images need no explanation
    z[11] = 0
    third, i, j = best_pair(z)
    a, b = pair_worth_reading(z)
    rows = unit(z)
    # Another pair only where it is just as good: 5 and 6 are the same to all others.
    assert rows[a] @ rows[b] == pytest.approx(rows[i] @ rows[j], rel=1e-5)
    shares = sorted(rows[a] * rows[b] / (rows[a] @ rows[b]), reverse=True)
    assert shares[2] == pytest.approx(third, rel=1e-5)


def test_three_reasons_beat_one():
    z = torch.tensor(
        [
            [1.0, 1.0, 1.0, 0.0, 0.9],
            [1.0, 1.0, 1.0, 0.9, 0.0],
            [0.0, 0.1, 0.0, 9.0, 4.0],
            [0.0, 0.0, 0.1, 9.0, -4.0],
        ]
    ).relu()
    assert pair_worth_reading(z) in {(0, 1), (1, 0)}


def test_no_pair_without_two_images_that_share_something():
    assert pair_worth_reading(torch.zeros(5, 3)) is None
    assert pair_worth_reading(torch.eye(3)) is None
    assert pair_worth_reading(torch.ones(1, 3)) is None
    assert pair_worth_reading(torch.ones(6, 3)) is None  # all equal


def test_few_dimensions_are_reasons_enough():
    z = torch.tensor([[1.0, 0.5], [0.5, 1.0], [0.0, 0.0]])
    assert set(pair_worth_reading(z)) == {0, 1}


def test_a_pair_of_many_images():
    z = torch.zeros(2_000, 4)
    z[:, 0] = torch.arange(2_000) % 2  # half of them alike, half of them zero
    z[:, 1] = torch.linspace(1, 60, 2_000) * z[:, 0]
    a, b = pair_worth_reading(z)
    assert a != b
    assert z[a].any()
    assert z[b].any()
