from fractions import Fraction

import numpy as np
import pytest
import torch

from pellucid.answer import neighbours as module
from pellucid.answer.neighbours import Neighbours, median_of_random_pairs
from pellucid.metrics.activity import active_entries


def exact_order(z, query, allowed):
    """By sign(d) d^2 / |row|^2 in exact fractions, which orders rows as their cosine does."""
    keys = []
    for i in allowed:
        row = [Fraction(v) for v in z[i].tolist()]
        asked = [Fraction(v) for v in query.tolist()]
        dot = sum((a * b for a, b in zip(row, asked, strict=True)), Fraction(0))
        length = sum((a * a for a in row), Fraction(0))
        if length:
            keys.append((-dot * abs(dot) / length, i))
    return [i for _, i in sorted(keys)]


def exact_cosines(z, query, left_out=None):
    z, query = z.double().numpy().copy(), query.double().numpy().copy()
    if left_out is not None:
        z[:, left_out] = 0
        query[left_out] = 0
    with np.errstate(invalid="ignore"):
        return z @ query / np.linalg.norm(z, axis=1) / np.linalg.norm(query)


def sparse(n, k, seed=0, *, signed=False):
    z = torch.randn(n, k, generator=torch.Generator().manual_seed(seed))
    return z if signed else (z - 0.8).relu()


@pytest.fixture
def hard():
    """Near ties below what fp32 tells apart, exact duplicates, parallel rows and zero rows."""
    z = sparse(300, 16, signed=True)
    base = z[0]
    for i in range(20, 60):  # each turned from the base by a little more or less than the others
        z[i] = base
        z[i, 3] = torch.nextafter(base[3], torch.tensor(torch.inf)) if i % 2 else base[3]
        z[i, 5] = base[5] * (1 + 2**-22 * (i % 7))
    z[60:70] = base * 4
    z[70:80] = base * 3
    z[80] = 0
    z[299] = 0
    return z


@pytest.mark.parametrize("top", [1, 5, 40, 80, 298])
def test_the_order_is_that_of_exact_arithmetic(hard, top):
    index = Neighbours(hard)
    for query in (0, 25, 26, 61, 150):
        others = [i for i in range(len(hard)) if i != query]
        found = index.nearest(hard[query], top, itself=query)
        cosines = exact_cosines(hard, hard[query])
        for one in found:
            assert one.cosine == pytest.approx(cosines[one.image], abs=1e-14)
        # Near-ties closer than 12 decimals count as ties, which stand in the order of images.
        key = {i: -round(float(cosines[i]), 12) for i in others if i not in (80, 299)}
        assert [one.image for one in found] == sorted(key, key=lambda i: (key[i], i))[:top]


def test_near_ties_that_fp32_swaps_are_in_order():
    # cos = 1 / sqrt(1 + e^2): for e of 1e-4 and less, fp32 sees 1 or one of its few neighbours.
    away = torch.linspace(2e-5, 9e-5, 64)[torch.randperm(64, generator=torch.manual_seed(0))]
    z = torch.stack([torch.ones(64), away], dim=1)
    query = torch.tensor([1.0, 0.0])
    single = (z / z.norm(dim=1, keepdim=True)) @ query
    assert len(set(single.tolist())) < 8  # or the test would show nothing
    found = Neighbours(z).nearest(query, 10)
    assert [one.image for one in found] == exact_order(z, query, range(64))[:10]
    assert found[0].cosine > found[1].cosine > found[9].cosine


def test_candidates_are_chosen_with_room_for_the_error_of_fp32():
    # Many more images within fp32's error than are asked for, the best of them last.
    z = sparse(400, 64)
    z[z.sum(dim=1) == 0] = 1
    generator = torch.Generator().manual_seed(3)
    query = torch.rand(64, generator=generator)
    near = query + 3e-4 * torch.randn(200, 64, generator=generator)
    z[200:] = near
    assert [one.image for one in Neighbours(z).nearest(query, 7)] == exact_order(
        z, query, range(400)
    )[:7]


def test_duplicates_stand_in_the_order_of_images_wherever_they_lie(monkeypatch):
    monkeypatch.setattr(module, "ROWS", 37)
    z = sparse(500, 97, signed=True)
    places = [3, 36, 37, 38, 74, 111, 250, 499]
    for place in places:
        z[place] = z[3]
    found = Neighbours(z).nearest(z[250], 7, itself=250)
    assert [one.image for one in found] == [3, 36, 37, 38, 74, 111, 499]
    assert len({one.cosine for one in found}) == 1


def test_the_query_is_left_out_by_identity():
    z = sparse(50, 8, signed=True)
    z[9] = z[8]
    index = Neighbours(z)
    assert index.nearest(z[8], 1, itself=8)[0].image == 9
    assert index.nearest(z[9], 1, itself=9)[0].image == 8
    assert [one.image for one in index.nearest(z[8], 2)] == [8, 9]


def test_zero_rows_are_never_found_even_when_all_else_is_unlike():
    z = torch.tensor([[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    found = Neighbours(z).nearest(z[0], 10, itself=0)
    assert [(one.image, one.cosine) for one in found] == [(3, 0.0), (2, -1.0)]


def test_a_zero_query_is_refused():
    with pytest.raises(ValueError, match="zero row"):
        Neighbours(torch.eye(3)).nearest(torch.zeros(3), 1)
    with pytest.raises(ValueError, match="at least 1"):
        Neighbours(torch.eye(3)).nearest(torch.ones(3), 0)


def test_filters_are_of_the_metrics_activity():
    z = sparse(200, 6)
    z[:, 2] = torch.where(torch.arange(200) % 3 == 0, z.norm(dim=1) * 5e-6, z[:, 2])
    z[40] = 0
    active = active_entries(z)
    query = z[0] + 0.1
    found = Neighbours(z).nearest(query, 200, with_dims=[2, 4], without_dims=[1])
    allowed = [i for i in range(200) if active[i, 2] and active[i, 4] and not active[i, 1]]
    assert len(allowed) > 3
    assert [one.image for one in found] == exact_order(z, query, allowed)


@pytest.mark.parametrize("signed", [True, False])
def test_a_standing_is_the_place_in_the_list(signed):
    z = sparse(120, 10, seed=2, signed=signed)
    z[5], z[6] = z[4], z[4]
    z[30] = 0
    index = Neighbours(z)
    for a, b in ((0, 1), (4, 5), (4, 6), (6, 4), (1, 5), (119, 118)):
        listed = [one.image for one in index.nearest(z[a], 200, itself=a)]
        [standing] = index.standings(z[a], z[b], itself=a, place=b)
        assert standing == (listed.index(b) + 1, len(listed))


def test_a_standing_without_a_dimension():
    z = sparse(80, 6, seed=4)
    z[:3] += 0.1
    index = Neighbours(z)
    for k in range(6):
        [standing] = index.standings(z[0], z[1], itself=0, place=1, left_out=[k])
        cosines = exact_cosines(z, z[0], k).round(12)
        ahead = [j for j in range(80) if j > 1 and cosines[j] > cosines[1]]
        assert standing.rank == 1 + len(ahead)
        assert standing.of == np.isfinite(cosines).sum() - 1
    assert (
        index.standings(z[0], z[1], itself=0, place=1, left_out=[2, None])[1]
        == (index.standings(z[0], z[1], itself=0, place=1)[0])
    )


def test_where_nothing_is_left_there_is_no_standing():
    z = torch.tensor([[1e-3, 0.0], [1e3, 1e-30], [1.0, 1.0]])
    index = Neighbours(z)
    assert index.standings(z[0], z[1], itself=0, place=1, left_out=[0]) == [None]
    # Of the second row 1e-30 is left, which 1 - 1 would not know.
    assert index.standings(z[2], z[1], itself=2, place=1, left_out=[0]) == [(1, 1)]


def test_an_image_from_elsewhere_stands_behind_those_it_ties_with():
    z = torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    index = Neighbours(z)
    assert index.standings(z[0], z[1], itself=0) == [(3, 4)]
    assert index.standings(z[0], z[1]) == [(4, 5)]


def test_the_scale_is_the_median_of_random_pairs():
    z = sparse(60, 5, signed=True)
    z[7] = 0
    unit = torch.nn.functional.normalize(z[torch.arange(60) != 7].double())
    every = (unit @ unit.T)[~torch.eye(59, dtype=torch.bool)]
    found = median_of_random_pairs(z)
    assert found == pytest.approx(every.median().item(), abs=0.03)
    assert found == median_of_random_pairs(z)
    assert found != median_of_random_pairs(z, seed=1)
    assert median_of_random_pairs(torch.eye(3)[:1]) is None


def test_a_random_pair_is_never_an_image_and_itself(monkeypatch):
    monkeypatch.setattr(module, "PAIRS", 1)
    opposite = torch.tensor([[1.0], [-1.0]])
    assert [median_of_random_pairs(opposite, seed) for seed in range(20)] == [-1] * 20
