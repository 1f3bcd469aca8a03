import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pellucid.metrics import rank_dimensions, retrieval_precision


def slow(features: Tensor, labels: Tensor, k: int) -> float:
    """The share of right neighbours, query by query; for features without ties."""
    rows = [z / z.norm() for z in features.double()]
    right = 0
    for i, query in enumerate(rows):
        others = [(float(query @ row), j) for j, row in enumerate(rows) if j != i]
        right += sum(bool(labels[j] == labels[i]) for _, j in sorted(others, reverse=True)[:k])
    return right / (k * len(rows))


def clustered(n: int = 60) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (n,), generator=generator)
    return torch.randn(n, 6, generator=generator) + 1.5 * torch.eye(6)[labels], labels


def test_equals_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = clustered()
    monkeypatch.setattr("pellucid.metrics.retrieval.COSINES", 7 * len(features))
    got = retrieval_precision(features, labels, at=(1, 3, 10, 59))
    for k in (1, 3, 10, 59):
        assert got.precision[k] == pytest.approx(slow(features, labels, k), abs=1e-12)
    assert got.precision[59] == pytest.approx(got.chance)  # all others, in any order
    assert got.precision[1] > got.chance
    assert got.dimensions == 6


def test_chance_is_random_neighbours() -> None:
    got = retrieval_precision(torch.ones(6, 2), torch.tensor([0, 0, 0, 0, 1, 1]), at=(1,))
    assert got.chance == pytest.approx((4 * 3 + 2 * 1) / (6 * 5))


def test_chosen_dimensions_are_normalised_again() -> None:
    features, labels = clustered()
    chosen = torch.tensor([4, 1, 0])
    got = retrieval_precision(features, labels, dimensions=chosen)
    assert got == retrieval_precision(features[:, chosen], labels)
    assert got.precision[5] == pytest.approx(slow(features[:, chosen], labels, 5), abs=1e-12)


def test_ties_count_at_their_expectation_whatever_the_order() -> None:
    """Zero rows and duplicates tie with everything; no image is its own hit."""
    labels = torch.tensor([0, 1, 0, 1, 1, 0, 2, 1])
    for features in (torch.zeros(8, 3), torch.ones(8, 3)):
        got = retrieval_precision(features, labels, at=(1, 3, 5))
        assert list(got.precision.values()) == pytest.approx([got.chance] * 3)
    all_different = retrieval_precision(torch.zeros(8, 3), torch.arange(8), at=(1, 3))
    assert all_different.precision == {1: 0.0, 3: 0.0}


def test_a_tie_at_the_end_of_the_list_is_shared_out() -> None:
    # The query, last: one image at cosine 1 of its class, then a tie of one right and two wrong.
    features = torch.tensor([[1.0, 0, 0], [1, 1, 0], [1, 0, 1], [1, -1, 0], [1, 0, 0]])
    labels = torch.tensor([0, 0, 1, 1, 0])
    order = [3, 1, 0, 2, 4]
    got = retrieval_precision(features, labels, at=(2,)).precision[2]
    assert got == pytest.approx(
        retrieval_precision(features[order], labels[order], at=(2,)).precision[2]
    )
    per_query = []
    cosine = torch.nn.functional.cosine_similarity(features[:, None], features[None], dim=2)
    for i in range(5):
        others = [j for j in range(5) if j != i]
        ranked = sorted(
            (round(float(cosine[i, j]), 5), int(labels[j] == labels[i])) for j in others
        )
        ranked.reverse()
        last = ranked[1][0]
        above = [right for value, right in ranked if value > last]
        tied = [right for value, right in ranked if value == last]
        per_query.append((sum(above) + (2 - len(above)) * sum(tied) / len(tied)) / 2)
    assert per_query[4] == pytest.approx((1 + 1 / 3) / 2)
    assert got == pytest.approx(sum(per_query) / 5)


def test_invariances() -> None:
    features, labels = clustered()
    plain = retrieval_precision(features, labels)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    scale = torch.logspace(-20, 20, 60)[:, None]
    for other in (
        (features * scale, labels),
        (features[order], labels[order]),
        (features.flip(1), labels),
        (features.double(), labels + 3),
    ):
        got = retrieval_precision(*other)
        assert list(got.precision.values()) == pytest.approx(
            list(plain.precision.values()), abs=1e-3
        )
    half = retrieval_precision(features.bfloat16(), labels)
    assert half.precision[10] == pytest.approx(plain.precision[10], abs=0.02)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert retrieval_precision(features, labels) == plain


@pytest.mark.parametrize("at", [(0,), (1, 4), (), (-1, 2)])
def test_impossible_numbers_of_neighbours_are_refused(at: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"at must lie in 1\.\.3"):
        retrieval_precision(torch.ones(4, 2), torch.zeros(4, dtype=torch.long), at=at)


def test_rank_dimensions() -> None:
    features = torch.tensor([[0.0, 3, -4, 0], [0, 0, 1, 0], [0, 60, 80, 0]])
    assert rank_dimensions(features).tolist() == [2, 1, 0, 3]  # by 0.8 + 1 + 0.8, 0.6 + 0.6, 0, 0
    unit = [z / z.norm() for z in features.double()]
    strength = [sum(abs(float(z[k])) for z in unit) for k in range(4)]
    assert strength[2] > strength[1] > strength[0] == strength[3] == 0
    scaled = features * torch.tensor([[1e-8], [1e3], [5.0]])
    assert rank_dimensions(scaled).tolist() == [2, 1, 0, 3]


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_any_input_gives_a_share(data: st.DataObject) -> None:
    n, k = data.draw(st.integers(2, 9)), data.draw(st.integers(1, 4))
    number = st.floats(width=32, allow_nan=False, allow_infinity=False)
    rows = st.lists(number, min_size=k, max_size=k)
    features = torch.tensor(data.draw(st.lists(rows, min_size=n, max_size=n)))
    labels = torch.tensor(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    got = retrieval_precision(features, labels, at=tuple(range(1, n)))
    assert all(-1e-12 <= share <= 1 + 1e-12 for share in got.precision.values())
    assert got.precision[n - 1] == pytest.approx(got.chance)
    assert sorted(rank_dimensions(features).tolist()) == list(range(k))
