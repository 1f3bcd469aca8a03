import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.explore import dimensions as module
from pellucid.explore.dimensions import (
    ALWAYS_ON,
    BINS,
    DUPLICATE,
    STRATA,
    class_use,
    describe,
    duplicates,
    gate_use,
    likeness,
    nearest,
    often_together,
)
from pellucid.metrics.activity import shuffled
from pellucid.representation.representation import Representation

ACTIVE = 1e-5


def representation(z, **more):
    names = [str(i) for i in range(len(z))]
    return Representation("made", Path("made.npy"), z, names, **more)


def planted(seed, *, signed=False, images=60, columns=14):
    """Random columns, and those of every kind that counting may trip over."""
    z = torch.randn(images, columns, generator=torch.Generator().manual_seed(seed))
    z = z if signed else (z - 0.5).relu()
    z[:, 0] = 0  # dead
    z[:, 1] = z[:, 2] + 1  # always on
    z[:, 4] = 3 * z[:, 3]  # says the same
    z[:, 5] = z.norm(dim=1) * 2e-6  # never active, never 0
    z[:, 6] = torch.where(torch.arange(images) == 11, 1.0, 0.0)  # on one image
    if signed:
        z[:, 8] = -z[:, 7].abs()  # below 0 alone
    z[9] = 0  # nothing at all
    z[20:25] *= 1e-20  # rows are scaled, however small
    return z


def unit_and_active(z):
    unit = z.double().numpy()
    length = np.sqrt((unit * unit).sum(axis=1, keepdims=True))
    unit = np.divide(unit, length, out=np.zeros_like(unit), where=length > 0)
    return unit, np.abs(unit) > ACTIVE


def counted(values, low, high, bins):
    """A histogram of equal intervals, the last one closed."""
    out = [0] * bins
    for value in values:
        out[min(bins - 1, int((value - low) / (high - low) * bins))] += 1
    return out


CASES = [(seed, signed) for seed in range(4) for signed in (False, True)]


@pytest.mark.parametrize(("seed", "signed"), CASES)
@pytest.mark.parametrize("block", [4096, 7])
def test_every_statistic_is_that_of_a_loop(seed, signed, block, monkeypatch):
    monkeypatch.setattr(module, "ROWS", block)
    z = planted(seed, signed=signed)
    found = describe(representation(z))
    unit, active = unit_and_active(z)
    for k in range(z.shape[1]):
        values = [unit[i, k] for i in range(len(z)) if active[i, k]]
        assert found.support[k] == len(values)
        assert found.frequency[k] == pytest.approx(len(values) / len(z), rel=1e-12)
        if not values:
            assert all(math.isnan(x[k]) for x in (found.mean, found.lowest, found.highest))
            assert found.histogram[k].sum() == found.strata[k].sum() == 0
            continue
        sizes = [abs(v) for v in values]
        assert found.mean[k].item() == pytest.approx(sum(sizes) / len(sizes), rel=1e-6)
        assert found.lowest[k].item() == pytest.approx(min(values), rel=1e-6)
        assert found.highest[k].item() == pytest.approx(max(values), rel=1e-6)
        low, high = min(*values, 0), max(*values, 0)
        assert found.histogram[k].tolist() == counted(values, low, high, BINS), k
        assert found.strata[k].tolist() == counted(sizes, 0, max(sizes), STRATA), k


@pytest.mark.parametrize(("seed", "signed"), CASES)
def test_pairs_of_columns_are_those_of_a_loop(seed, signed, monkeypatch):
    monkeypatch.setattr(module, "ROWS", 13)
    z = planted(seed, signed=signed)
    found = describe(representation(z))
    unit, active = unit_and_active(z)
    live = active.any(axis=0)
    for a in range(z.shape[1]):
        for b in range(z.shape[1]):
            assert found.together[a, b] == sum(active[:, a] & active[:, b])
            expected = 0.0
            if live[a] and live[b]:
                x, y = unit[:, a], unit[:, b]
                expected = (x @ y) / math.sqrt((x @ x) * (y @ y))
            assert found.cosine[a, b].item() == pytest.approx(expected, abs=2e-6), (a, b)


VALUES = st.sampled_from([0.0, 0.0, 1e-7, 1e-3, 0.5, 1.0, 3.0, -0.4])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=1, max_size=9))
def test_counts_add_up(rows):
    z = torch.tensor(rows)
    found = describe(representation(z))
    _, active = unit_and_active(z)
    assert found.support.tolist() == active.sum(axis=0).tolist()
    assert torch.equal(found.histogram.sum(dim=1), found.support)
    assert torch.equal(found.strata.sum(dim=1), found.support)
    assert torch.equal(found.together.diagonal(), found.support)
    live = found.support > 0
    assert found.cosine.diagonal()[live].tolist() == pytest.approx([1.0] * int(live.sum()))
    assert torch.isfinite(found.cosine).all()
    assert torch.isnan(found.mean).equal(~live)
    # The strongest image of a dimension is in its last interval.
    assert (found.strata[live, -1] > 0).all()


def test_intervals_of_a_column_that_is_below_zero():
    z = torch.zeros(3, 2)
    z[:, 1] = 1
    z[:, 0] = torch.tensor([-1.0, -0.5, -0.01])
    found = describe(representation(z))
    assert found.lowest[0].item() == pytest.approx(-math.sqrt(0.5))
    assert found.highest[0].item() == pytest.approx(-0.01, rel=1e-3)
    bars = found.histogram[0].tolist()
    assert (bars[0], bars[-1]) == (1, 1)  # from the lowest, to 0
    assert found.strata[0].tolist() == [1, 0, 1, 1]


def test_duplicates_are_pairs_once_from_the_threshold_on():
    cosine = torch.tensor(
        [[1.0, DUPLICATE, 0.2, -1.0], [DUPLICATE, 1.0, 0.94, 0.0], [0.2, 0.94, 1.0, 0.99],
         [-1.0, 0.0, 0.99, 1.0]],
        dtype=torch.float64,
    )  # fmt: skip
    assert duplicates(cosine) == [(0, 1), (2, 3)]
    found = describe(representation(planted(0)))
    assert duplicates(found.cosine) == [(3, 4)]
    assert (found.frequency > ALWAYS_ON).nonzero().flatten().tolist() == [1]


@pytest.mark.parametrize(("seed", "signed"), CASES)
@pytest.mark.parametrize("most", [1, 5, 50])
def test_nearest_columns_are_sorted_ties_by_number(seed, signed, most):
    found = describe(representation(planted(seed, signed=signed)))
    cosine = found.cosine.clone()
    cosine[7, 10] = cosine[7, 12] = 0.875  # a tie
    before = cosine.clone()
    rows = nearest(cosine, most)
    for k, row in enumerate(rows):
        others = [(-cosine[k, j].item(), j) for j in range(len(cosine)) if j != k]
        assert row == [(j, -v) for v, j in sorted(others) if v < 0][:most]
    assert torch.equal(cosine, before)
    assert rows[0] == []  # dead


def test_of_many_ties_the_first_are_taken():
    cosine = torch.full((500, 500), 0.5, dtype=torch.float64)
    rows = nearest(cosine, 3)
    assert rows[0] == [(1, 0.5), (2, 0.5), (3, 0.5)]
    assert rows[400] == [(0, 0.5), (1, 0.5), (2, 0.5)]


@pytest.mark.parametrize(("seed", "signed"), CASES)
@pytest.mark.parametrize("least", [1, 3, 8])
def test_lifts_are_those_of_a_loop(seed, signed, least):
    z = planted(seed, signed=signed)
    found = describe(representation(z))
    _, active = unit_and_active(z)
    rows = often_together(found, len(z), least, most=4)
    some = 0
    for a, row in enumerate(rows):
        expected = []
        for b in range(z.shape[1]):
            both = int((active[:, a] & active[:, b]).sum())
            if a == b or both < least:
                continue
            lift = (both / len(z)) / (active[:, a].mean() * active[:, b].mean())
            if lift > 1 + 1e-9:
                expected.append((-lift, b))
        expected = sorted(expected)[:4]
        # Lifts that tie in exact arithmetic may stand either way round: values first.
        row = [(b, lift) for b, lift in row if lift > 1 + 1e-9]
        assert [lift for _, lift in row] == pytest.approx([-v for v, _ in expected])
        for b, lift in row:
            both = int((active[:, a] & active[:, b]).sum())
            assert both >= least
            assert lift == pytest.approx(len(z) * both / active[:, a].sum() / active[:, b].sum())
        some += len(row)
    assert some > 0


def test_no_support_at_all_is_no_company():
    found = describe(representation(torch.eye(4)))
    assert often_together(found, 4, 0) == [[], [], [], []]


def labelled(seed, images=60):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 4, (images,), generator=generator)
    labels[labels == 2] = 3  # a class without images
    labels[torch.rand(images, generator=generator) < 0.3] = -1
    return labels


@pytest.mark.parametrize(("seed", "signed"), CASES)
def test_class_use_is_that_of_a_loop_over_labelled_images(seed, signed, monkeypatch):
    monkeypatch.setattr(module, "ROWS", 11)
    z, labels = planted(seed, signed=signed), labelled(seed)
    use = class_use(representation(z, labels=labels, classes=("a", "b", "c", "d", "e")))
    unit, active = unit_and_active(z)
    sizes = [sum(labels.numpy() == c) for c in range(5)]
    assert use.images.tolist() == sizes
    known = labels >= 0

    def shares(of):
        """Largest balanced share and its class; None for a dimension that is on nowhere."""
        out = []
        for k in range(z.shape[1]):
            rates = [
                sum(active[i, k] for i in range(len(z)) if of[i] == c) / sizes[c]
                if sizes[c]
                else 0.0
                for c in range(5)
            ]
            total = sum(rates)
            out.append((max(rates) / total, rates.index(max(rates))) if total else None)
        return out

    expected, by_luck = shares(labels.tolist()), []
    for order in shuffled(labels[known], 0, 10):
        again = labels.clone()
        again[known] = order
        by_luck.append(shares(again.tolist()))
    for k in range(z.shape[1]):
        for c in range(5):
            own = [i for i in range(len(z)) if labels[i] == c]
            assert use.counts[k, c] == sum(active[i, k] for i in own)
            mean = sum(unit[i, k] for i in own) / len(own) if own else 0.0
            assert use.mass[k, c].item() == pytest.approx(mean, abs=1e-7)
        if expected[k] is None:
            assert math.isnan(use.consistency[k])
            assert use.largest[k] == -1
        else:
            value, largest = expected[k]
            assert use.consistency[k].item() == pytest.approx(value)
            assert use.largest[k] == largest
            luck = sum(draw[k][0] for draw in by_luck) / 10
            assert use.chance[k].item() == pytest.approx(luck)


def test_class_use_without_names_counts_classes_that_are_there():
    z = torch.eye(3)
    use = class_use(representation(z, labels=torch.tensor([4, -1, 1])))
    assert use.images.tolist() == [0, 1, 0, 0, 1]
    assert use.counts.tolist() == [[0, 0, 0, 0, 1], [0] * 5, [0, 1, 0, 0, 0]]


def test_no_labels_no_class_use():
    z = torch.eye(3)
    assert class_use(representation(z)) is None
    assert class_use(representation(z, labels=torch.tensor([-1, -1, -1]), classes=("a",))) is None


@pytest.mark.parametrize(("seed", "signed"), CASES)
def test_likeness_is_the_weighted_mean_over_pairs(seed, signed):
    z = planted(seed, signed=signed, images=25)
    z[:, 7] = 0
    z[[4, 17], 7] = 1  # the two images of one pair
    h = torch.randn(25, 6, generator=torch.Generator().manual_seed(seed + 50))
    h[3] = 0
    found = likeness(representation(z, h=h))
    unit, active = unit_and_active(z)
    features, _ = unit_and_active(h)
    pairs = [(i, j) for i in range(25) for j in range(25) if i != j]
    chance = sum(features[i] @ features[j] for i, j in pairs) / len(pairs)
    assert found.chance == pytest.approx(chance, abs=1e-7)
    for k in range(z.shape[1]):
        if active[:, k].sum() < 2:
            assert math.isnan(found.value[k])
            continue
        weights = [abs(unit[i, k] * unit[j, k]) for i, j in pairs]
        like = sum(
            w * (features[i] @ features[j]) for w, (i, j) in zip(weights, pairs, strict=True)
        )
        assert found.value[k].item() == pytest.approx(like / sum(weights), abs=1e-6)


def test_likeness_needs_features():
    assert likeness(representation(torch.eye(3))) is None


@pytest.mark.parametrize("threshold", [0.5, 0.2, None])
def test_gate_use_is_that_of_a_loop(threshold):
    generator = torch.Generator().manual_seed(3)
    ungated = (torch.randn(40, 6, generator=generator) - 0.3).relu()
    ungated[5] = 0
    ungated[6] *= 1e-18  # |row|^2 is below the smallest number of fp32
    gate = torch.rand(40, 6, generator=generator)
    gate[7] = 0  # all closed
    gate[8] = 0.5  # at the threshold, which is closed
    bar = 0.5 if threshold is None else threshold
    z = ungated * gate if threshold is None else ungated * (gate > bar)
    use = gate_use(representation(z, ungated=ungated, gate=gate, threshold=threshold))
    for k in range(6):
        on = [i for i in range(40) if ungated[i, k] > 0]
        opened = [i for i in range(40) if gate[i, k] > bar]
        assert use.pi[k].item() == pytest.approx(len(on) / 40)
        assert use.open_rate[k].item() == pytest.approx(len(opened) / 40)
        assert use.mean[k].item() == pytest.approx(sum(gate[:, k].tolist()) / 40)
        assert use.closed[k] == len(set(on) - set(opened))
    for i in range(40):
        before = sum(v * v for v in ungated[i].tolist())
        after = sum(v * v for v in z[i].tolist())
        expected = 1 - after / before if before else 0.0
        assert use.removed[i].item() == pytest.approx(expected, abs=1e-9), i
    assert use.removed[5] == 0
    assert use.removed[7] == 1


def test_no_gate_no_gate_use():
    z = torch.eye(3)
    assert gate_use(representation(z)) is None
    assert gate_use(representation(z, gate=z)) is None
