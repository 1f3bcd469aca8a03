import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from pellucid.metrics import Matching, match_dimensions, unit_rows
from pellucid.metrics.matching import RECURS
from pellucid.randomness import seeded


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sparse(n: int, k: int, seed: int = 0, share: float = 0.3) -> Tensor:
    """Non-negative features, each dimension active on about this share of the images."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(n, k, generator=generator, dtype=torch.float64) + 0.5
    return values * (torch.rand(n, k, generator=generator) < share)


def concordance(x: np.ndarray, y: np.ndarray) -> float:
    """Lin (1989), equation 3, of two columns at unit length."""
    x, y = x / np.sqrt((x**2).sum()), y / np.sqrt((y**2).sum())
    covariance = ((x - x.mean()) * (y - y.mean())).mean()
    return float(2 * covariance / (x.var() + y.var() + (x.mean() - y.mean()) ** 2))


def agreement_of(x: np.ndarray, y: np.ndarray, signed: bool) -> float:
    plain = concordance(x, y)
    return max(plain, concordance(x, -y)) if signed else plain


def best_sum(a: Tensor, b: Tensor, signed: bool) -> float:
    """The highest sum of agreement over all one-to-one assignments, one by one."""
    x, y = unit_rows(a).numpy(), unit_rows(b).numpy()
    table = [[agreement_of(one, other, signed) for other in y.T] for one in x.T]
    if len(table) > len(table[0]):
        table = [list(column) for column in zip(*table, strict=True)]
    places = range(len(table[0]))
    return max(
        sum(row[place] for row, place in zip(table, chosen, strict=True))
        for chosen in itertools.permutations(places, len(table))
    )


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("k", "l"), [(2, 2), (3, 5), (5, 3), (6, 6), (6, 2)])
def test_partners_are_the_best_of_all_assignments(k: int, l: int, signed: bool) -> None:  # noqa: E741
    a, b = drawn(30, k, seed=1), drawn(30, l, seed=2)
    b[:, : min(k, l)] += 0.7 * a[:, : min(k, l)].flip(1)
    a, b = (a + 1, b + 1) if signed else (a.relu() + 0.01, b.relu() + 0.01)
    found = match_dimensions(a, b)
    matched = found.partner >= 0
    assert int(matched.sum()) == min(k, l)
    assert len(set(found.partner[matched].tolist())) == min(k, l)
    assert found.agreement[matched].sum().item() == pytest.approx(best_sum(a, b, signed))
    x, y = unit_rows(a).numpy(), unit_rows(b).numpy()
    for dimension in matched.nonzero().flatten().tolist():
        pair = x[:, dimension], y[:, int(found.partner[dimension])]
        sign = int(found.sign[dimension])
        assert found.agreement[dimension].item() == pytest.approx(agreement_of(*pair, signed))
        cosine = sign * float(pair[0] @ pair[1] / np.linalg.norm(pair[0]) / np.linalg.norm(pair[1]))
        assert found.cosine[dimension].item() == pytest.approx(cosine)
    corrected = (found.cosine - found.chance) / (1 - found.chance)
    assert torch.allclose(corrected, found.agreement, equal_nan=True)


def test_chance_is_the_mean_over_all_permutations_of_the_images() -> None:
    a, b = sparse(6, 2, share=0.8), sparse(6, 2, seed=1, share=0.8)
    found = match_dimensions(a, b)
    x, y = unit_rows(a), unit_rows(b)[:, found.partner]
    cosines = [
        torch.cosine_similarity(x, y[list(order)], dim=0)
        for order in itertools.permutations(range(6))
    ]
    assert torch.allclose(found.chance, torch.stack(cosines).mean(dim=0))


@pytest.mark.parametrize("signed", [False, True])
def test_both_levels_are_what_the_search_finds_there(signed: bool) -> None:
    a, b = drawn(40, 5, seed=1), drawn(40, 6, seed=2)
    a, b = (a, b) if signed else (a.relu() + 0.01, b.relu() + 0.01)
    found = match_dimensions(a, b, permutations=3, rotations=2, seed=7)
    assert found.permuted.shape == (3, 5)
    assert found.rotated.shape == (2, 5)
    order = torch.randperm(40, generator=seeded(7, "permuted images", 2))
    assert torch.allclose(match_dimensions(a, b[order]).agreement, found.permuted[2])
    normal = torch.randn(6, 6, generator=seeded(7, "rotated axes", 1), dtype=torch.float64)
    q, r = torch.linalg.qr(normal)
    rotated = unit_rows(b) @ (q @ torch.diag(r.diagonal().sign()))
    assert torch.allclose(match_dimensions(a, rotated).agreement, found.rotated[1])
    both = torch.cat([found.permuted, found.rotated]).amax(dim=0)
    assert torch.equal(found.highest_by_luck, both)


def test_a_seed_is_a_seed() -> None:
    a, b = sparse(50, 4), sparse(50, 4, seed=1)
    assert torch.equal(match_dimensions(a, b).permuted, match_dimensions(a, b).permuted)
    other = match_dimensions(a, b, seed=1)
    assert not torch.equal(match_dimensions(a, b).permuted, other.permuted)
    assert not torch.equal(match_dimensions(a, b).rotated, other.rotated)


def test_identical_representations_match_themselves() -> None:
    z = sparse(300, 12)
    found = match_dimensions(z, z)
    assert found.partner.tolist() == list(range(12))
    assert torch.allclose(found.cosine, torch.ones(12, dtype=torch.float64))
    assert torch.allclose(found.agreement, torch.ones(12, dtype=torch.float64))
    assert found.sign.tolist() == [1] * 12
    assert found.recurs.all()


def test_permuting_columns_permutes_partners_and_nothing_else() -> None:
    a = sparse(200, 8)
    b = a + 0.3 * sparse(200, 8, seed=1)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(3))
    plain, permuted = match_dimensions(a, b), match_dimensions(a, b[:, order])
    assert torch.equal(order[permuted.partner], plain.partner)
    assert torch.allclose(permuted.agreement, plain.agreement)
    rows = match_dimensions(a[:, order], b)
    assert torch.equal(rows.partner, plain.partner[order])
    assert torch.allclose(rows.agreement, plain.agreement[order])


def test_scale_means_nothing() -> None:
    a, b = sparse(200, 6), sparse(200, 6) + 0.2 * sparse(200, 6, seed=1)
    plain = match_dimensions(a, b)
    rows = torch.logspace(-20, 20, 200, dtype=torch.float64)[:, None]
    scaled = match_dimensions(a * 1e-6, b * rows)
    assert torch.equal(scaled.partner, plain.partner)
    assert torch.allclose(scaled.agreement, plain.agreement)
    # Rows of one dimension's unit length stay what they are when that column is scaled.
    apart = torch.eye(6, dtype=torch.float64).repeat(20, 1)
    columns = torch.logspace(-3, 3, 6, dtype=torch.float64)
    assert match_dimensions(apart, apart * columns).agreement.tolist() == pytest.approx([1] * 6)


def test_independent_noise_does_not_recur() -> None:
    for features in (drawn, sparse):
        found = match_dimensions(features(500, 40), features(500, 40, seed=1))
        assert (found.partner >= 0).all()
        assert not found.recurs.any()
        assert not found.recurs_permuted.any()
        assert found.agreement.mean() < 0.2


def test_half_the_images_shared_is_the_threshold() -> None:
    a, b = torch.zeros(2, 4000, 2, dtype=torch.float64)
    a[:200, 0] = b[100:300, 0] = 1  # half of each
    a[2000:2200, 1] = b[2130:2330, 1] = 1  # a third of each
    found = match_dimensions(a, b)
    assert found.agreement[0].item() == pytest.approx(RECURS, abs=0.03)
    assert found.agreement[1].item() == pytest.approx(0.33, abs=0.03)


def test_signed_dimensions_may_point_the_other_way() -> None:
    a = drawn(300, 5)
    flip = torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
    found = match_dimensions(a, a * flip)
    assert found.partner.tolist() == list(range(5))
    assert torch.equal(found.sign, flip.long())
    assert torch.allclose(found.cosine, torch.ones(5, dtype=torch.float64))
    assert torch.allclose(found.agreement, torch.ones(5, dtype=torch.float64))


def test_the_sign_is_of_what_is_left_beyond_chance() -> None:
    a, b = torch.ones(2, 100, 1, dtype=torch.float64)
    a[:20], b[20:40] = -1, -1
    found = match_dimensions(a, b)  # cosine 0.2, where permuted images have 0.36
    assert found.sign.tolist() == [-1]
    assert found.cosine.tolist() == pytest.approx([-0.2])
    assert found.chance.tolist() == pytest.approx([-0.36])
    assert found.agreement.tolist() == pytest.approx([0.16 / 1.36])


def test_a_non_negative_dimension_is_not_its_opposite() -> None:
    first = (torch.arange(100) < 50).double()[:, None]
    found = match_dimensions(first, 1 - first)
    assert found.sign.tolist() == [1]
    assert found.cosine.tolist() == pytest.approx([0])
    assert found.agreement.tolist() == pytest.approx([-1])


def test_signed_lookalikes_of_one_small_space_do_not_recur() -> None:
    # Two bases of the same three directions: every axis has a lookalike, none is the same.
    space = drawn(1000, 3) * torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64)
    found = match_dimensions(space @ drawn(3, 60, seed=1), space @ drawn(3, 60, seed=2))
    assert found.agreement.median() > 0.8
    assert not found.recurs_permuted.any()
    assert found.recurs.double().mean() < 0.2
    assert found.recurs_rotated.double().mean() < 0.2
    assert (found.rotated.median() - found.agreement.median()).abs() < 0.05


def test_shared_axes_of_a_space_recur() -> None:
    concepts = sparse(1000, 20, share=0.1)
    noise = 0.3 * sparse(1000, 20, seed=1, share=0.1)
    found = match_dimensions(concepts, (concepts + noise).roll(1, dims=1))
    assert found.partner.tolist() == [(k + 1) % 20 for k in range(20)]
    assert found.recurs.all()
    assert found.recurs_rotated.double().mean() < 0.1


def test_dead_columns_match_nothing() -> None:
    a, b = sparse(400, 4, share=0.1), sparse(400, 4, share=0.1)
    a[:, 1], b[:, 3] = 0, 0
    found = match_dimensions(a, b)
    assert found.partner[1] == -1
    assert 3 not in found.partner.tolist()
    assert found.partner[[0, 2]].tolist() == [0, 2]
    assert found.partner[3] == 1  # what is left, however unlike
    assert found.sign[1] == 0
    for values in (found.cosine, found.chance, found.agreement, found.highest_by_luck):
        assert values.isnan().tolist() == [False, True, False, False]
    assert found.recurs.tolist() == [True, False, True, False]


def test_partners_are_columns_as_they_were_given() -> None:
    a = sparse(400, 4, share=0.1)
    found = match_dimensions(a, torch.cat([torch.zeros_like(a[:, :2]), a], dim=1))
    assert found.partner.tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("dead", ["first", "second", "both"])
def test_nothing_live_is_no_error(dead: str) -> None:
    a, b = sparse(20, 3), sparse(20, 2)
    a = torch.zeros_like(a) if dead != "second" else a
    b = torch.zeros_like(b) if dead != "first" else b
    found = match_dimensions(a, b)
    assert found.partner.tolist() == [-1, -1, -1]
    assert found.cosine.isnan().all()
    assert not found.recurs.any()


def test_more_dimensions_than_partners() -> None:
    a = sparse(300, 6)
    found = match_dimensions(a, a[:, [4, 1]])
    assert found.partner.tolist() == [-1, 1, -1, -1, 0, -1]
    assert found.recurs.tolist() == [False, True, False, False, True, False]
    assert found.agreement.isnan().tolist() == [True, False, True, True, False, True]
    back = match_dimensions(a[:, [4, 1]], a)
    assert back.partner.tolist() == [4, 1]


def test_one_partner_for_two_duplicates() -> None:
    a = sparse(300, 3)
    found = match_dimensions(a[:, [0, 0, 1]], a)
    assert found.partner[2] == 1
    assert sorted(found.partner.tolist()) == [0, 1, 2]
    assert sum(value > 0.9 for value in found.agreement.tolist()) == 2


def test_columns_that_do_not_vary_say_nothing() -> None:
    one_hot = torch.eye(2, dtype=torch.float64).repeat(50, 1)
    constant = torch.full((100, 1), 0.5, dtype=torch.float64)
    z = torch.cat([one_hot, constant], dim=1)
    found = match_dimensions(z, z)
    assert found.cosine[2].item() == pytest.approx(1)
    assert found.chance[2].item() == pytest.approx(1)
    assert found.agreement.tolist() == pytest.approx([1, 1, 0])
    nearly = z + torch.cat([0 * one_hot, 1e-6 * drawn(100, 1)], dim=1)
    assert match_dimensions(nearly, nearly).agreement.tolist() == pytest.approx([1, 1, 0])


def test_columns_that_hardly_vary_are_told_apart() -> None:
    direction = drawn(500, 2) * 1e-3
    a = 1 + torch.cat([-0.5 * direction.sum(dim=1, keepdim=True), direction], dim=1)
    found = match_dimensions(a, a[:, [0, 2, 1]])
    assert found.partner.tolist() == [0, 2, 1]
    assert found.agreement[1:].tolist() == pytest.approx([1, 1], abs=1e-6)
    assert found.chance[1:].min() > 0.999


@pytest.mark.parametrize("k", [1, 3])
def test_one_image_says_nothing(k: int) -> None:
    z = torch.ones(1, k)
    found = match_dimensions(z, z)
    assert found.cosine.tolist() == pytest.approx([1] * k)
    assert found.agreement.tolist() == [0] * k
    assert not found.recurs.any()


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = sparse(101, 5).float(), (sparse(101, 5) + 0.3 * sparse(101, 5, seed=1)).float()
    whole = match_dimensions(a, b)
    monkeypatch.setattr("pellucid.metrics.matching.ROWS", 7)
    for one, other in zip(match_dimensions(a, b), whole, strict=True):
        assert torch.allclose(one, other, equal_nan=True)


def test_types_are_the_same_for_every_precision() -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        z = sparse(60, 3).to(dtype)
        found = match_dimensions(z, z)
        assert isinstance(found, Matching)
        assert found.partner.dtype == found.sign.dtype == torch.int64
        values = (found.cosine, found.chance, found.agreement, found.permuted, found.rotated)
        assert {value.dtype for value in values} == {torch.float64}
        assert found.recurs.dtype == torch.bool


def test_one_draw_needs_no_others() -> None:
    a = sparse(300, 4)
    found = match_dimensions(a, a, permutations=1, rotations=1)
    assert found.recurs.all()
    assert found.recurs_rotated.shape == (1, 4)


def test_draws_that_match_nothing_count_for_nothing() -> None:
    a = sparse(300, 12, share=0.1)
    found = match_dimensions(a, a[:, :2], permutations=2, rotations=2)
    levels = torch.cat([found.permuted, found.rotated])
    assert (~levels.isnan()).sum(dim=1).tolist() == [2] * 4
    never = levels.isnan().all(dim=0)
    assert never.any()
    assert torch.equal(found.highest_by_luck.isnan(), never)
    assert found.recurs.tolist() == [True, True, *[False] * 10]


def test_errors_say_what_is_wrong() -> None:
    z = sparse(10, 3)
    with pytest.raises((TypeError, ValueError)):
        match_dimensions(z, z[:9])
    with pytest.raises(ValueError, match=r"at least 1 permutation and 1 rotation .* got 0 and 19"):
        match_dimensions(z, z, permutations=0)
    with pytest.raises(ValueError, match="got 19 and 0"):
        match_dimensions(z, z, rotations=0)
    bad = z.clone()
    bad[4, 1] = torch.nan
    with pytest.raises(ValueError, match="b must be finite: image 4"):
        match_dimensions(z, bad)
    with pytest.raises(TypeError):
        match_dimensions(z.long(), z)
