import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pellucid.metrics import effective_rank, orthogonality


@pytest.mark.parametrize("shape", [(60, 20), (20, 60), (30, 30)])
def test_effective_rank_equals_singular_values(shape: tuple[int, int]) -> None:
    features = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    features = features * torch.logspace(0, -5, shape[1])
    singular = torch.linalg.svdvals(features.double())
    shares = (singular / singular.sum()).tolist()
    expected = math.exp(-sum(p * math.log(p) for p in shares))
    assert effective_rank(features) == pytest.approx(expected, rel=1e-5)


def test_effective_rank_of_known_matrices() -> None:
    assert effective_rank(torch.eye(7)) == pytest.approx(7)
    assert effective_rank(torch.eye(7)[:, :3]) == pytest.approx(3)
    constant = torch.randn(1, 40, generator=torch.Generator().manual_seed(0)).expand(500, 40)
    assert effective_rank(constant) == pytest.approx(1, abs=1e-6)
    assert effective_rank(torch.tensor([[0.0, 2.0]])) == 1
    assert effective_rank(torch.zeros(5, 3)) is None


def test_effective_rank_invariances(monkeypatch: pytest.MonkeyPatch) -> None:
    features = torch.randn(50, 10, generator=torch.Generator().manual_seed(0))
    expected = effective_rank(features)
    for other in (features * 1e30, features * 1e-30, features.flip(0), features.flip(1), -features):
        assert effective_rank(other) == pytest.approx(expected, rel=1e-6)
    assert effective_rank(features.bfloat16()) == pytest.approx(expected, rel=1e-2)
    monkeypatch.setattr("pellucid.metrics.rank.ROWS", 7)
    assert effective_rank(features) == pytest.approx(expected, rel=1e-12)


def test_orthogonality_equals_loops() -> None:
    features = torch.randn(30, 8, generator=torch.Generator().manual_seed(0))
    features[:, 5] = 0
    columns = [features[:, k].double() for k in range(8) if k != 5]
    cosines = [
        abs(float(a @ b / a.norm() / b.norm()))
        for i, a in enumerate(columns)
        for j, b in enumerate(columns)
        if i != j
    ]
    got = orthogonality(features)
    assert got.value == pytest.approx(sum(cosines) / len(cosines), abs=1e-12)
    assert got.dimensions == 7


def test_orthogonality_of_known_matrices() -> None:
    assert orthogonality(torch.eye(5)) == (0.0, 5)
    assert orthogonality(torch.ones(6, 3)).value == pytest.approx(1)
    assert orthogonality(torch.zeros(6, 3)) == (None, 0)
    one_alive = torch.zeros(6, 3)
    one_alive[:, 1] = 1
    assert orthogonality(one_alive) == (None, 1)


def test_orthogonality_invariances() -> None:
    features = torch.randn(30, 8, generator=torch.Generator().manual_seed(0))
    expected = orthogonality(features).value
    for other in (features * 1e30, features * 1e-30, features.flip(0), features.flip(1)):
        assert orthogonality(other).value == pytest.approx(expected, rel=1e-6)
    by_column = features * torch.tensor([1.0, 2, 3, 4, -5, 6, 7, 8])
    assert orthogonality(by_column).value == pytest.approx(expected, rel=1e-6)
    assert orthogonality(features.half()).value == pytest.approx(expected, rel=1e-2)


@settings(deadline=None, max_examples=30)
@given(
    hnp.arrays(
        "float32",
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
        elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
    )
)
def test_any_finite_input_gives_a_number_in_range_or_none(array: object) -> None:
    features = torch.tensor(array)
    rank, overlap = effective_rank(features), orthogonality(features)
    assert (rank is None) == (not features.any())
    assert rank is None or 1 - 1e-9 <= rank <= min(features.shape) + 1e-9
    assert (overlap.value is None) == (overlap.dimensions < 2)
    assert overlap.value is None or 0 <= overlap.value <= 1
