from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.explore.dimensions import describe
from pellucid.explore.health import BARS, Bars, health
from pellucid.representation.representation import Representation


def of(z):
    names = [str(i) for i in range(len(z))]
    return health(z, describe(Representation("made", Path("made.npy"), z, names)))


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 40).flatmap(
        lambda k: st.lists(
            st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.0]), min_size=k, max_size=k),
            min_size=1,
            max_size=12,
        )
    )
)
def test_counts_are_those_of_loops(rows):
    found = of(torch.tensor(rows))
    images, k = len(rows), len(rows[0])
    columns = list(zip(*rows, strict=True))
    support = [sum(v > 0 for v in column) for column in columns]
    each = sorted(sum(v > 0 for v in row) for row in rows)
    assert found.dimensions == k
    assert (found.live, found.dead) == (sum(s > 0 for s in support), sum(s == 0 for s in support))
    assert found.always_on == sum(10 * s > 9 * images for s in support)
    assert (found.fewest, found.most) == (each[0], each[-1])
    assert found.median == each[(images - 1) // 2]
    assert found.none == each.count(0)
    often, active = found.bars
    counts = [0] * BARS
    for s in support:
        if s:
            counts[min(BARS - 1, s * BARS // images)] += 1
    assert often.counts == counts
    span = each[-1] - each[0] + 1
    bars = min(BARS, span)
    counts = [0] * bars
    for n in each:
        counts[(n - each[0]) * bars // span] += 1
    assert active.counts == counts
    assert sum(active.counts) == images
    assert (active.low, active.high) == (str(each[0]), str(each[-1]))


def test_duplicates_are_named():
    z = torch.eye(6)
    z[:, 4] = z[:, 1] * 2
    assert of(z).duplicates == [(1, 4)]


def test_a_dead_model_has_a_state_too():
    found = of(torch.zeros(5, 3))
    assert (found.live, found.dead, found.none, found.most) == (0, 3, 5, 0)
    assert found.bars[0].counts == [0] * BARS
    assert found.bars[0].heights == [0.0] * BARS
    assert found.bars[1].counts == [5]


def test_faint_values_are_not_active():
    z = torch.eye(4)
    z[:, 0] += 5e-6
    found = of(z)
    assert (found.fewest, found.most) == (1, 1)


def test_always_on_is_above_the_threshold():
    z = torch.ones(10, 3)
    z[0, 0] = 0  # on 9 of 10
    found = of(z)
    assert found.always_on == 2


def test_heights_are_in_per_cent_of_the_highest():
    bars = Bars("t", [0, 1, 4, 3], "0", "1", "images")
    assert bars.heights == pytest.approx([0, 25, 100, 75])
    assert Bars("t", [], "0", "1", "images").heights == []
