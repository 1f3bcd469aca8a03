import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pellucid.metrics import activation_rate, active_entries, density, unit_rows


def test_equal_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(40, 30, generator=generator) * (
        torch.rand(40, 30, generator=generator) < 0.03
    )
    active = [
        [bool(z.norm() > 0 and abs(v) / z.norm() > 1e-5) for v in z] for z in features.double()
    ]
    live = sum(any(row[k] for row in active) for k in range(30))
    assert 0 < live < 30
    assert activation_rate(features) == live / 30
    assert density(features) == sum(map(sum, active)) / 1200


def test_an_entry_counts_above_the_threshold_of_its_unit_row() -> None:
    features = torch.tensor([[1e6, 9.0, 11.0, 0.0]])
    assert active_entries(features).tolist() == [[True, False, True, False]]


def test_dead_constant_and_one_alive() -> None:
    assert activation_rate(torch.zeros(5, 4)) == density(torch.zeros(5, 4)) == 0
    assert activation_rate(torch.ones(5, 4)) == density(torch.ones(5, 4)) == 1
    one = torch.zeros(5, 4)
    one[3, 1] = -1
    assert activation_rate(one) == 0.25
    assert density(one) == 1 / 20


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_unit_rows_of_extreme_rows(dtype: torch.dtype) -> None:
    top, tiny = torch.finfo(dtype).max, torch.finfo(dtype).smallest_normal
    rows = unit_rows(torch.tensor([[top, -top], [tiny, tiny], [0, 0], [3, 4]], dtype=dtype))
    half = 0.5**0.5
    expected = torch.tensor([[half, -half], [half, half], [0, 0], [0.6, 0.8]]).to(rows.dtype)
    assert rows.dtype == torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(rows, expected)


@settings(deadline=None, max_examples=30)
@given(
    hnp.arrays(
        "float64",
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    )
)
def test_any_finite_input_gives_shares(array: object) -> None:
    features = torch.tensor(array)
    lengths = unit_rows(features).norm(dim=1)
    assert ((lengths - 1).abs() < 1e-12).logical_or(lengths == 0).all()
    assert 0 <= density(features) <= activation_rate(features) <= 1
    assert (density(features) == 0) == (not features.any())
