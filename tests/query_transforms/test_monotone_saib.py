"""The promise of the monotone SAIB: log |det J| is above 0 at any weights."""

import pytest
import torch

from pellucid.metrics import log_abs_det
from pellucid.query_transforms import MonotoneSaib

SCALES = [0.01, 0.1, 1.0, 5.0, 30.0]


def with_weights(seed, scale, **settings):
    """In float64: products of weights of 30 leave eigenvalues from 1 to 1e9 and more."""
    torch.manual_seed(seed)
    transform = MonotoneSaib(**settings).double()
    for parameter in transform.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return transform


def jacobian(function, image):
    matrix = torch.func.jacrev(lambda x: function(x[None])[0])(image)
    return matrix.reshape(-1, image.numel()).detach()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("patch", "height", "width"), [(2, 4, 4), (2, 6, 4), (1, 3, 5), (4, 4, 4)])
def test_the_jacobian_is_symmetric_and_gains_volume_at_any_weights(
    patch, height, width, seed, scale
):
    transform = with_weights(seed, scale, patch=patch, expansion=2, grid=2)
    image = torch.randn(3, height, width, dtype=torch.float64)
    matrix = jacobian(lambda x: transform(x)[0], image)
    torch.testing.assert_close(matrix, matrix.T, rtol=0, atol=1e-12 * matrix.abs().max().item())
    sign, gain = torch.linalg.slogdet(matrix)
    assert sign == 1
    assert gain > 0


def test_the_jacobian_is_1_plus_a_weighted_square_of_the_two_convolutions():
    transform = with_weights(0, 0.5, patch=2, expansion=2, grid=2)
    image = torch.randn(3, 4, 6, dtype=torch.float64)

    def inner(images):
        patches = transform.patches.cut(images)
        e = transform.expand(patches + transform.patches.codes_of(patches))
        return e + transform.mix(e)

    w = jacobian(inner, image)
    slope = torch.sigmoid(inner(image[None])).flatten()
    expected = torch.eye(image.numel(), dtype=torch.float64) + w.T @ (slope[:, None] * w)
    torch.testing.assert_close(jacobian(lambda x: transform(x)[0], image), expected)


def test_the_gain_cannot_be_trained_below_0():
    transform = with_weights(0, 0.3, patch=2, expansion=1, grid=2)
    images = torch.randn(1, 3, 4, 4, dtype=torch.float64)
    optimiser = torch.optim.Adam(transform.parameters(), lr=0.1)
    gains = []
    for _ in range(12):
        gain = log_abs_det(lambda x: transform(x)[0], images).mean()
        optimiser.zero_grad()
        gain.backward()
        optimiser.step()
        gains.append(gain.item())
    assert gains[-1] < 0.2 * gains[0]
    assert min(gains) > 0


def test_weights_of_zero_leave_images_as_they_are():
    transform, images = MonotoneSaib(patch=2, grid=2), torch.randn(2, 3, 4, 4)
    for parameter in transform.parameters():
        torch.nn.init.zeros_(parameter)
    assert torch.equal(transform(images)[0], images)


def test_where_convolutions_give_0_nothing_is_shifted():
    transform = MonotoneSaib(patch=2, grid=2)
    for name, parameter in transform.named_parameters():
        if "weight" not in name:
            torch.nn.init.zeros_(parameter)  # no bias and no codes: a black image gives 0
    black = torch.zeros(1, 3, 4, 4)
    torch.testing.assert_close(transform(black)[0], black, rtol=0, atol=1e-6)


def test_autocast_changes_nothing_and_half_images_are_computed_in_fp32():
    transform, images = MonotoneSaib(patch=2, grid=2), torch.randn(2, 3, 4, 4)
    exact, terms = transform(images)
    assert terms == {}
    half = images.bfloat16()
    plain, _ = transform(half)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(transform(images)[0], exact)
        assert torch.equal(transform(half)[0], plain)
    assert plain.dtype == torch.float32
    assert torch.equal(plain, transform(half.float())[0])
