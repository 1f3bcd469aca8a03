import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pellucid.metrics import as_published, dimension_consistency, semantic_consistency


def sparse(n: int, k: int, rate: float, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    kept = torch.rand(n, k, generator=generator) < rate
    return torch.rand(n, k, generator=generator).add(0.1) * kept


def slow(features: Tensor, labels: Tensor, min_support: int) -> tuple[float, int, int]:
    """Value, dimensions and support by loops over dimensions, images and classes."""
    classes = sorted(set(labels.tolist()))
    images = {c: sum(label == c for label in labels.tolist()) for c in classes}
    shares, supports = [], []
    for k in range(features.shape[1]):
        counts = dict.fromkeys(classes, 0)
        for z, label in zip(features.double(), labels.tolist(), strict=True):
            norm = math.sqrt(sum(v * v for v in z.tolist()))
            if norm > 0 and abs(z[k].item()) / norm > 1e-5:
                counts[label] += 1
        support = sum(counts.values())
        if support >= min_support:
            rates = [counts[c] / images[c] for c in classes]
            shares.append(max(rates) / sum(rates))
            supports.append(support)
    return sum(shares) / len(shares), len(shares), min(supports)


def test_equals_loops_on_unbalanced_classes() -> None:
    features = sparse(60, 12, 0.3) - sparse(60, 12, 0.1, seed=1)
    labels = torch.tensor([0] * 30 + [2] * 20 + [7] * 10)
    got = semantic_consistency(features, labels, min_support=19)
    value, dimensions, support = slow(features, labels, 19)
    assert 0 < dimensions < 12
    assert got.value == pytest.approx(value, abs=1e-12)
    assert (got.dimensions, got.support) == (dimensions, support)


def test_a_dimension_of_one_class_scores_one() -> None:
    labels = torch.arange(200) % 4
    features = torch.nn.functional.one_hot(labels).float()
    got = semantic_consistency(features, labels)
    assert (got.value, got.low, got.high) == (1.0, 1.0, 1.0)
    assert (got.dimensions, got.support) == (4, 50)
    assert got.chance == pytest.approx(0.25, abs=0.12)


def test_class_balance_undoes_a_majority_of_nine_in_ten() -> None:
    labels = (torch.arange(5000) % 10 == 0).long()
    features = sparse(5000, 64, 0.5)
    assert as_published.semantic_consistency(features, labels) == pytest.approx(0.9, abs=0.01)
    right = semantic_consistency(features, labels, resamples=0, shuffles=1)
    assert right.value == pytest.approx(0.5, abs=0.02)


def test_random_features_are_at_chance_and_rare_ones_are_left_out() -> None:
    labels = torch.arange(5000) % 10
    rare = sparse(5000, 64, 0.001)
    got = semantic_consistency(rare, labels, resamples=0)
    assert got.dimensions < 64
    dense = semantic_consistency(sparse(5000, 64, 0.5), labels, resamples=0)
    assert dense.dimensions == 64
    assert dense.value is not None
    assert dense.value == pytest.approx(dense.chance, abs=0.005)
    half = semantic_consistency(sparse(1000, 64, 0.02), labels[:1000], resamples=0)
    assert half.value == pytest.approx(half.chance, abs=0.03)
    assert half.chance is not None
    assert half.chance > 0.2  # twice 1/C by rarity alone: why the level stands beside the value


def test_chance_equals_shuffling_by_hand() -> None:
    features, labels = sparse(80, 10, 0.3), torch.arange(80) % 4
    by_hand = []
    for seed in range(40):
        order = torch.randperm(80, generator=torch.Generator().manual_seed(seed))
        by_hand.append(slow(features, labels[order], 10)[0])
    got = semantic_consistency(features, labels, shuffles=40, resamples=0).chance
    assert got == pytest.approx(sum(by_hand) / 40, abs=0.01)


def test_interval_covers_the_value_of_other_samples() -> None:
    """A spread between samples of the same population is what the interval must foresee."""
    values, covered = [], 0
    for seed in range(40):
        generator = torch.Generator().manual_seed(100 + seed)
        labels = torch.randint(4, (300,), generator=generator)
        on = torch.rand(300, 8, generator=generator) < torch.where(
            labels[:, None] == torch.arange(8) % 4, 0.5, 0.15
        )
        values.append((semantic_consistency(on.float(), labels, shuffles=0), seed))
    mean = sum(got.value or 0.0 for got, _ in values) / len(values)
    for got, _ in values:
        assert got.low is not None
        assert got.high is not None
        assert got.low <= got.value <= got.high
        covered += got.low <= mean <= got.high
    assert covered >= 34  # of 40; 38 expected
    assert max(got.high - got.low for got, _ in values) < 0.2  # and it is not just everything


def test_same_seed_same_numbers_and_no_global_randomness() -> None:
    features, labels = sparse(100, 8, 0.3), torch.arange(100) % 5
    torch.manual_seed(0)
    first, state = semantic_consistency(features, labels), torch.get_rng_state()
    torch.manual_seed(0)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(1)
    assert semantic_consistency(features, labels) == first
    assert semantic_consistency(features, labels, seed=1).chance != first.chance


def test_invariant_to_row_scale_class_names_and_order() -> None:
    features, labels = sparse(100, 8, 0.3), torch.arange(100) % 5
    plain = semantic_consistency(features, labels, shuffles=0, resamples=0)
    scales = torch.logspace(-30, 30, 100)[:, None]
    order = torch.randperm(100, generator=torch.Generator().manual_seed(3))
    for other in (
        (features * scales, labels),
        (features, labels * 10**9),
        (features[order], labels[order]),
        (features[:, [7, 2, 4, 1, 0, 3, 6, 5]], labels),
        (-features, labels.to(torch.int16)),
        (features, labels.to(torch.uint8)),
    ):
        assert semantic_consistency(*other, shuffles=0, resamples=0) == plain


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = sparse(100, 8, 0.3), torch.arange(100) % 3
    whole = semantic_consistency(features, labels)
    monkeypatch.setattr("pellucid.metrics.activity.ROWS", 7)
    assert semantic_consistency(features, labels) == whole


def test_counts_are_exact_under_autocast_and_low_matmul_precision() -> None:
    features, labels = sparse(3000, 4, 0.9), torch.zeros(3000, dtype=torch.long)
    labels[:1] = 1
    plain = semantic_consistency(features, labels, resamples=3)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert semantic_consistency(features, labels, resamples=3) == plain
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(dtype: torch.dtype) -> None:
    features, labels = sparse(100, 8, 0.3), torch.arange(100) % 5
    assert semantic_consistency(features.to(dtype), labels) == semantic_consistency(
        features, labels
    )


def test_a_dead_model_has_no_score() -> None:
    got = semantic_consistency(torch.zeros(50, 4), torch.arange(50) % 5)
    assert got == (None, None, None, None, 0, 0)


def test_one_live_dimension_one_image_and_constant_features() -> None:
    labels = torch.arange(50) % 5
    one_alive = torch.zeros(50, 4)
    one_alive[:, 2] = 1
    got = semantic_consistency(one_alive, labels)
    assert got.value == pytest.approx(0.2)
    assert (got.dimensions, got.support) == (1, 50)
    assert semantic_consistency(torch.ones(50, 4), labels).value == pytest.approx(0.2)
    single = torch.ones(1, 3), torch.tensor([4])
    assert semantic_consistency(*single).value is None
    assert semantic_consistency(*single, min_support=1).value == 1.0


def test_draws_without_an_active_image_are_left_out() -> None:
    features = torch.zeros(10, 1)
    features[0] = 1
    got = semantic_consistency(features, torch.arange(10) % 2, min_support=1, resamples=50)
    assert (got.low, got.value, got.high) == (1.0, 1.0, 1.0)


def test_min_support_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="min_support must be at least 1"):
        semantic_consistency(torch.ones(4, 2), torch.zeros(4, dtype=torch.long), min_support=0)


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_any_input_gives_a_share_or_none(data: st.DataObject) -> None:
    n, k = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 4))
    number = st.floats(width=32, allow_nan=False, allow_infinity=False)
    rows = st.lists(number, min_size=k, max_size=k)
    features = torch.tensor(data.draw(st.lists(rows, min_size=n, max_size=n)))
    labels = torch.tensor(data.draw(st.lists(st.integers(0, 99), min_size=n, max_size=n)))
    support = data.draw(st.integers(1, 4))
    got = semantic_consistency(features, labels, min_support=support, shuffles=2, resamples=5)
    classes = len(set(labels.tolist()))
    if got.dimensions == 0:
        assert got == (None, None, None, None, 0, 0)
    else:
        assert got.value is not None
        assert got.chance is not None
        assert 1 / classes - 1e-12 <= got.value <= 1 + 1e-12
        assert 1 / classes - 1e-12 <= got.chance <= 1 + 1e-12
        assert got.low is None or 0 <= got.low <= got.value <= (got.high or 0) + 1e-12 <= 1 + 1e-9
        assert got.support >= support


def test_single_dimensions_average_to_the_score() -> None:
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(4, (80,), generator=generator) * 2  # classes without an image between
    features = torch.randn(80, 6, generator=generator).relu()
    features[:, 2] = 0
    whole = semantic_consistency(features, labels, min_support=1, shuffles=5)
    single = dimension_consistency(features, labels, shuffles=5)
    live = [0, 1, 3, 4, 5]
    assert single.value[live].mean().item() == pytest.approx(whole.value, abs=1e-12)
    assert single.chance[live].mean().item() == pytest.approx(whole.chance, abs=1e-12)
    assert single.value[2].isnan()
    assert single.largest[2] == -1


def test_the_largest_class_of_a_dimension_by_hand() -> None:
    labels = torch.tensor([0, 0, 0, 0, 5, 5])
    features = torch.tensor([[1.0, 0], [1, 0], [0, 0], [0, 1], [1, 0], [0, 1]])
    single = dimension_consistency(features, labels, shuffles=0)
    # Rates by class: dimension 0 is on for 2 of 4 and 1 of 2, a tie; dimension 1 for 1/4 and 1/2.
    assert single.value.tolist() == pytest.approx([0.5, 2 / 3])
    assert single.largest.tolist() == [0, 5]
    assert single.chance.isnan().all()
