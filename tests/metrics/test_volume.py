"""Changes of volume: known maps, exact Jacobians, and what does not count."""

import math

import pytest
import torch
from torch import nn

from pellucid.metrics import entropy_gain, estimate_log_abs_det, feature_volume, log_abs_det
from pellucid.query_transforms import Saib

SMALL, D = (3, 2, 2), 12
LOG2 = math.log(2)


def draw(seed, *shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def linear(matrix):
    return lambda x: (x.flatten(1) @ matrix.T).view_as(x)


def saib(scale):
    torch.manual_seed(0)
    transform = Saib(patch=4, expansion=2, grid=2)
    with torch.no_grad():
        for parameter in transform.parameters():
            parameter.mul_(scale)
    return lambda x: transform(x)[0]


ELEMENTWISE = {
    "sinh": (torch.sinh, lambda x: x.cosh().log()),
    "cube": (lambda x: x**3 + x, lambda x: (3 * x**2 + 1).log()),
    "half": (lambda x: -x / 2 + 7, lambda x: torch.full_like(x, -LOG2)),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_maps_have_the_sum_of_their_log_slopes(name):
    transform, log_slope = ELEMENTWISE[name]
    images = draw(0, 4, *SMALL)
    expected = log_slope(images).flatten(1).sum(dim=1)
    torch.testing.assert_close(log_abs_det(transform, images), expected)
    # A random sign squared is 1: where J is diagonal the estimate has no spread.
    found = estimate_log_abs_det(transform, images, generator(), probes=1, iterations=D)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("negative", [False, True])
def test_a_linear_map_has_the_log_of_its_determinant(negative):
    matrix = draw(0, D, D)
    matrix[0] *= 1 if (torch.linalg.det(matrix) < 0) == negative else -1
    expected = torch.linalg.slogdet(matrix).logabsdet.expand(3)
    torch.testing.assert_close(log_abs_det(linear(matrix), draw(1, 3, *SMALL)), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_estimate_is_exact_for_the_identity_scales_and_rotations(dtype):
    images = draw(1, 3, *SMALL, dtype=dtype)
    rotation = torch.linalg.qr(draw(2, D, D))[0].to(dtype)
    for transform, expected in [
        (lambda x: x, 0.0),
        (lambda x: -3 * x + 1, D * math.log(3)),
        (lambda x: x.flip(-1).transpose(2, 3), 0.0),
        (linear(0.1 * rotation), D * math.log(0.1)),
    ]:
        found = estimate_log_abs_det(transform, images, generator())
        assert found.tolist() == pytest.approx([expected] * 3, abs=1e-4)


@pytest.mark.parametrize("scale", [1.0, 2.0])  # at initialisation, and about as after training
@pytest.mark.parametrize("probes", [2, 32])
def test_the_estimate_of_a_saib_is_within_its_spread(scale, probes):
    transform, images = saib(scale), draw(0, 3, 3, 8, 8, dtype=torch.float32)
    found = estimate_log_abs_det(transform, images, generator(), probes)
    for image, estimate, exact in zip(images, found, log_abs_det(transform, images), strict=True):
        jacobian = torch.func.jacrev(lambda x: transform(x[None])[0])(image).reshape(192, 192)
        values, vectors = torch.linalg.eigh((jacobian.T @ jacobian).double())
        log = vectors @ torch.diag(values.log()) @ vectors.T / 2
        beside = log - log.diagonal().diag()
        spread = (2 * beside.square().sum() / probes).sqrt().item()  # of Hutchinson's estimate
        assert abs(estimate.item() - exact.item()) < 3 * spread + 0.05
        assert spread < 0.06 * exact.item() / probes**0.5


def test_more_iterations_bring_the_estimate_down_to_the_truth():
    slopes = torch.logspace(-2, 1, 48, dtype=torch.float64).view(3, 4, 4)
    found = [
        estimate_log_abs_det(lambda x: slopes * x, draw(0, 1, 3, 4, 4), generator(), 1, m).item()
        for m in (2, 4, 8, 48, 90)
    ]
    exact = slopes.log().sum().item()
    assert found[0] > found[1] > found[2] > exact + 0.1
    assert found[3:] == pytest.approx([exact] * 2, abs=1e-3)


def test_the_estimate_is_a_function_of_its_generator_alone():
    transform, images = saib(2.0), draw(0, 2, 3, 8, 8, dtype=torch.float32)
    first = estimate_log_abs_det(transform, images, generator(3))
    state = torch.get_rng_state()
    with torch.no_grad():  # also where no gradients are kept
        again = estimate_log_abs_det(transform, images, generator(3))
    assert torch.equal(first, again)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(first, estimate_log_abs_det(transform, images, generator(4)))
    assert not images.requires_grad


def test_an_images_estimate_does_not_depend_on_its_batch():
    slopes = draw(0, *SMALL).abs() + 0.5
    images = draw(1, 3, *SMALL)
    together = estimate_log_abs_det(lambda x: slopes * x**3, images, generator(), 3, D)
    for image, value in zip(images, together, strict=True):
        alone = estimate_log_abs_det(lambda x: slopes * x**3, image[None], generator(9), 2, D)
        assert alone.item() == pytest.approx(value.item(), abs=1e-6)


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_a_gain_by_mere_scale_is_none(shift):
    images = draw(0, 4, 3, 4, 4, dtype=torch.float32)
    gain = entropy_gain(lambda x: 2 * x + shift, images, generator())
    assert gain.total.item() == pytest.approx(48 * LOG2, rel=1e-5)
    assert gain.scale_free.item() == pytest.approx(0, abs=1e-3)


def test_a_gain_is_the_log_determinant_less_that_of_the_scale():
    images = draw(0, 400, 1, 1, 2).repeat(1, 3, 1, 1)
    slopes = torch.tensor([4.0, 1.0], dtype=torch.float64)
    gain = entropy_gain(lambda x: slopes * x, images, generator())
    assert gain.total.item() == pytest.approx(3 * math.log(4), rel=1e-6)
    scale = (slopes * images).std() / images.std()
    assert gain.scale_free.item() == pytest.approx(3 * math.log(4) - 6 * scale.log().item())
    assert gain.scale_free < 0  # of all maps of one scale the even one keeps the most volume


def small_encoder():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 9)
    )
    net[1].running_var.uniform_(0.5, 2)
    return net.eval()


@pytest.mark.parametrize("threshold", [1e-3, 0.3])
def test_feature_volume_is_that_of_the_jacobians_singular_values(threshold):
    net, images = small_encoder(), draw(0, 3, 3, 4, 4, dtype=torch.float32)
    ranks, logs = [], []
    for image in images:
        jacobian = torch.func.jacrev(lambda x: net(x[None])[0])(image).reshape(9, 48)
        singular = torch.linalg.svdvals(jacobian.detach()).tolist()
        kept = [s for s in singular if s > threshold * singular[0]]
        ranks.append(len(kept))
        logs.append(sum(math.log(s) for s in kept))
    found = feature_volume(net, images, threshold)
    assert found.rank == pytest.approx(sum(ranks) / 3)
    assert found.log_volume == pytest.approx(sum(logs) / 3, rel=1e-4)
    assert (found.rank < 9) == (threshold == 0.3)


@pytest.mark.parametrize("rows", [1, 4, 9, 64])
def test_feature_volume_does_not_depend_on_how_many_rows_are_taken_at_once(rows):
    net, images = small_encoder(), draw(0, 2, 3, 4, 4, dtype=torch.float32)
    with torch.no_grad():  # also where no gradients are kept
        assert feature_volume(net, images, rows=rows) == pytest.approx(feature_volume(net, images))


@pytest.mark.parametrize(("features", "rank"), [(5, 2), (5, 5), (30, 7), (30, 12), (4, 0)])
def test_the_rank_of_a_linear_encoder_is_that_of_its_matrix(features, rank):
    matrix = draw(0, features, rank) @ draw(1, rank, D)
    found = feature_volume(lambda x: x.flatten(1) @ matrix.T, draw(2, 2, *SMALL))
    assert found.rank == rank
    kept = torch.linalg.svdvals(matrix)[:rank]
    assert found.log_volume == pytest.approx(kept.log().sum().item(), abs=1e-6)
