"""The regression loss of BYOL."""

import inspect

import pytest
import torch
from lightly.loss import NegativeCosineSimilarity

from pellucid.losses import cosine_regression


def rows(seed, *shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def test_it_is_the_squared_distance_of_unit_rows():
    prediction, target = rows(0, 5, 7), rows(1, 5, 7)
    total = 0.0
    for p, t in zip(prediction.tolist(), target.tolist(), strict=True):
        p_length, t_length = (sum(v * v for v in row) ** 0.5 for row in (p, t))
        total += sum((a / p_length - b / t_length) ** 2 for a, b in zip(p, t, strict=True))
    assert cosine_regression(prediction, target).item() == pytest.approx(total / 5, abs=1e-6)


def test_value_and_gradient_are_lightlys():
    target = rows(1, 16, 9)
    found = []
    for loss in (cosine_regression, lambda p, t: 2 + 2 * NegativeCosineSimilarity()(p, t)):
        prediction = rows(0, 16, 9).requires_grad_()
        value = loss(prediction, target)
        found.append([value.detach(), *torch.autograd.grad(value, prediction)])
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("scale", "expected"), [(3.0, 0.0), (-0.5, 4.0)])
def test_it_lies_between_0_and_4_whatever_the_lengths(scale, expected):
    target = rows(0, 4, 6)
    assert cosine_regression(scale * target, target).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_zero_row_is_orthogonal_to_everything_and_its_gradient_is_finite(dtype):
    prediction = torch.zeros(3, 4, dtype=dtype, requires_grad=True)
    loss = cosine_regression(prediction, rows(0, 3, 4, dtype=dtype))
    loss.backward()
    assert loss.item() == 2
    assert prediction.grad.isfinite().all()


def test_it_computes_in_fp32_under_autocast():
    prediction, target = rows(0, 8, 64, dtype=torch.float32), rows(1, 8, 64, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = cosine_regression(prediction, target)
    assert mixed.dtype == torch.float32
    assert mixed.item() == cosine_regression(prediction, target).item()


def test_gradients_reach_what_was_not_detached():
    prediction, target = rows(0, 3, 4).requires_grad_(), rows(1, 3, 4).requires_grad_()
    assert torch.autograd.gradcheck(cosine_regression, (prediction, target))
    cosine_regression(prediction, target.detach()).backward()
    assert prediction.grad.any()
    assert target.grad is None


@pytest.mark.parametrize("shapes", [((3, 4), (3, 5)), ((2, 4), (3, 4)), ((0, 4), (0, 4))])
def test_shapes_that_do_not_fit_are_refused(shapes):
    unchecked = inspect.unwrap(cosine_regression)  # tests check shapes before the function does
    with pytest.raises(ValueError, match=r"at least one row.*got shapes"):
        unchecked(*(torch.ones(shape) for shape in shapes))
