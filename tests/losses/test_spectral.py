"""The largest singular value against torch.linalg."""

import pytest
import torch

from pellucid.losses.spectral import largest_singular_value, power_iteration, unit

SHAPES = [(5, 8), (8, 5), (6, 6), (1, 7), (7, 1)]


def draw(seed, *shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def value_and_gradient(function, matrix):
    leaf = matrix.clone().requires_grad_()
    value = function(leaf)
    return value.detach(), torch.autograd.grad(value, leaf)[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_power_iteration_leads_to_the_value_and_gradient_of_svdvals(shape):
    matrix = draw(0, *shape)
    left = power_iteration(matrix, unit(draw(1, shape[0])), 500)
    found = value_and_gradient(lambda m: largest_singular_value(m, left), matrix)
    right = value_and_gradient(lambda m: torch.linalg.svdvals(m)[0], matrix)
    for a, b in zip(found, right, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)
    assert torch.equal(largest_singular_value(matrix, -left), found[0])


def test_the_value_of_an_estimate_is_below_with_an_error_of_the_second_order():
    matrix = draw(0, 6, 9)
    left, singular, _ = torch.linalg.svd(matrix)
    errors = [
        (singular[0] - largest_singular_value(matrix, unit(left[:, 0] + off * left[:, 1]))).item()
        for off in (0.02, 0.01)
    ]
    assert errors[1] > 0
    assert errors[0] / errors[1] == pytest.approx(4, rel=1e-2)


def test_each_iteration_multiplies_the_share_of_other_directions_by_their_squared_ratio():
    left, _, right = torch.linalg.svd(draw(0, 3, 3))
    matrix = left @ torch.diag(torch.tensor([2.0, 1.0, 0.0], dtype=torch.float64)) @ right
    start = unit(left[:, 0] + left[:, 1] + left[:, 2])
    parts = left.T @ power_iteration(matrix, start, 2)
    assert (parts[1] / parts[0]).item() == pytest.approx(1 / 16)
    assert parts[2].item() == pytest.approx(0, abs=1e-12)


def test_a_matrix_of_zeros_has_value_and_gradient_0_and_leaves_the_estimate():
    start, zeros = unit(draw(0, 4)), torch.zeros(4, 6, dtype=torch.float64)
    assert torch.equal(power_iteration(zeros, start, 3), start)
    value, gradient = value_and_gradient(lambda m: largest_singular_value(m, start), zeros)
    assert value == 0
    assert (gradient == 0).all()
    assert torch.equal(unit(torch.zeros(3)), torch.zeros(3))


def test_half_precision_and_autocast_compute_in_fp32():
    matrix, left = draw(0, 6, 9).bfloat16(), unit(draw(1, 6, dtype=torch.float32))
    expected = largest_singular_value(matrix.float(), left)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(largest_singular_value(matrix, left), expected)
        assert torch.equal(largest_singular_value(matrix.float(), left), expected)
    assert power_iteration(matrix, left).dtype == torch.float32


def test_power_iteration_keeps_no_graph():
    matrix = draw(0, 3, 4).requires_grad_()
    assert not power_iteration(matrix, unit(draw(1, 3))).requires_grad
