"""Entropies and divergences against torch.distributions, slow loops, float64 and known truths."""

import inspect
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import MultivariateNormal, kl_divergence

from pellucid.losses import gaussian_entropy, gaussian_kl, nearest_neighbour_entropy

FORMS = [(5, 12), (12, 12), (40, 12), (1, 4), (3, 1)]
"""Rows and width: fewer rows than K (the n x n form), as many, more (the K x K form), edges."""


def rows(seed, *shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def gaussian(u, shrinkage):
    """The Gaussian of unit rows, its shrunk covariance summed row by row."""
    unit = [row / row.norm() for row in u]
    k, mean = len(unit[0]), sum(unit) / len(unit)
    covariance = sum(torch.outer(row - mean, row - mean) for row in unit) / len(unit)
    shrunk = (1 - shrinkage) * covariance + shrinkage / k * torch.eye(k, dtype=u.dtype)
    return MultivariateNormal(mean, shrunk)


def value_and_gradient(loss, u):
    leaf = u.clone().requires_grad_()
    value = loss(leaf)
    with torch.autocast("cpu", enabled=False):  # as in training, where backward is outside
        return value.detach(), torch.autograd.grad(value, leaf)[0]


@pytest.mark.parametrize("shrinkage", [0.01, 0.1, 1.0])
@pytest.mark.parametrize(("n", "k"), FORMS)
def test_entropy_is_that_of_the_explicit_gaussian(n, k, shrinkage):
    u = rows(0, n, k)
    expected = gaussian(u, shrinkage).entropy().item()
    assert gaussian_entropy(u, shrinkage).item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("shrinkage", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("m", [3, 12, 30])
@pytest.mark.parametrize("n", [1, 5, 12, 40])
def test_kl_is_that_of_the_explicit_gaussians(n, m, shrinkage):
    query, anchor = rows(0, n, 12), rows(1, m, 12) + 0.5
    expected = kl_divergence(gaussian(query, shrinkage), gaussian(anchor, shrinkage)).item()
    assert gaussian_kl(query, anchor, shrinkage).item() == pytest.approx(expected, rel=1e-6)


def test_both_forms_of_the_determinant_and_of_the_inverse_are_equal():
    few, others = rows(0, 5, 12), rows(1, 7, 12)
    many, more = few.repeat(4, 1), others.repeat(3, 1)  # the same statistics, in the other form
    close = pytest.approx(gaussian_entropy(few).item(), rel=1e-12)
    assert gaussian_entropy(many).item() == close
    close = pytest.approx(gaussian_kl(few, others).item(), rel=1e-12)
    for query in (few, many):
        for anchor in (others, more):
            assert gaussian_kl(query, anchor).item() == close


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 6), st.integers(0, 10**6))
def test_kl_is_never_negative_and_0_of_a_batch_from_itself(n, m, k, seed):
    query, anchor = rows(seed, n, k), rows(seed + 1, m, k)
    assert gaussian_kl(query, anchor).item() >= -1e-9
    assert gaussian_kl(query, query.flip(0)).item() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("scale", [0.1, 10.0, 1e4])
def test_no_value_depends_on_the_scale_of_the_projections(scale):
    u, anchor = rows(0, 9, 6), rows(1, 9, 6)
    for loss in (gaussian_entropy, nearest_neighbour_entropy):
        assert loss(scale * u).item() == pytest.approx(loss(u).item(), abs=1e-4)
    expected = pytest.approx(gaussian_kl(u, anchor).item(), rel=1e-5)
    assert gaussian_kl(scale * u, anchor).item() == expected
    assert gaussian_kl(u, scale * anchor).item() == expected


@pytest.mark.parametrize("shrinkage", [0.1, 0.3])
@pytest.mark.parametrize("k", [2, 16])
def test_entropy_lies_between_one_point_and_the_uniform_sphere(k, shrinkage):
    highest = k / 2 * math.log(2 * math.pi * math.e / k)
    lowest = k / 2 * math.log(2 * math.pi * math.e * shrinkage / k)
    axes = torch.eye(k, dtype=torch.float64)
    point, uniform = axes[:1].expand(7, k), torch.cat([axes, -axes])  # covariance I / K
    assert gaussian_entropy(point, shrinkage).item() == pytest.approx(lowest, abs=1e-6)
    assert gaussian_entropy(uniform, shrinkage).item() == pytest.approx(highest, abs=1e-6)
    for seed in range(10):
        assert lowest < gaussian_entropy(rows(seed, 5, k), shrinkage).item() < highest


@pytest.mark.parametrize(("n", "m", "k"), [(2, 3, 4), (5, 2, 4), (2, 5, 4), (5, 6, 4), (4, 4, 4)])
def test_gradients_are_those_of_finite_differences(n, m, k):
    u, anchor = rows(0, n, k).requires_grad_(), rows(1, m, k)
    assert torch.autograd.gradcheck(gaussian_entropy, (u,))
    assert torch.autograd.gradcheck(lambda q: gaussian_kl(q, anchor), (u,))
    assert torch.autograd.gradcheck(nearest_neighbour_entropy, (u,))


def test_the_anchor_takes_no_gradient():
    query, anchor = rows(0, 6, 4).requires_grad_(), rows(1, 6, 4).requires_grad_()
    gaussian_kl(query, anchor).backward()
    assert query.grad.abs().sum() > 0
    assert anchor.grad is None


def degenerate(name):
    """A batch that would leave a plain covariance singular."""
    u = rows(0, 6, 16)
    if name == "duplicates":
        u[1] = u[0]
        u[5] = u[3]
    elif name == "all rows equal":
        u[:] = u[0]
    elif name == "dead dimensions":
        u[:, 3:9] = 0
    elif name == "a zero row":
        u[2] = 0
    return u if name == "fewer rows than K" else torch.cat([u, u + rows(1, 6, 16)] * 2)


NAMES = ["fewer rows than K", "duplicates", "all rows equal", "dead dimensions", "a zero row"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", NAMES)
def test_degenerate_batches_have_the_values_and_gradients_of_float64(name, dtype):
    u, anchor = degenerate(name).to(dtype), rows(2, 9, 16).to(dtype)
    # A zero row's gradient is scaled by eps, which fp16 has larger.
    kept = u.abs().sum(dim=1) > 0 if dtype == torch.float16 else slice(None)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-2
    for loss in (gaussian_entropy, lambda q: gaussian_kl(q, anchor.to(q.dtype))):
        value, found = value_and_gradient(loss, u)
        exact, right = value_and_gradient(loss, u.double())
        assert value.dtype == torch.float32
        assert value.item() == pytest.approx(exact.item(), rel=1e-3)
        assert found.isfinite().all()
        error = (found.double() - right)[kept].norm() / right[kept].norm().clamp_min(1.0)
        assert error < tolerance
    exact = gaussian_kl(anchor.double(), u.double()).item()  # as the anchor
    assert gaussian_kl(anchor, u).item() == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_changes_nothing(dtype):
    u, anchor = rows(0, 8, 16, dtype=dtype), rows(1, 8, 16, dtype=dtype)
    for loss in (gaussian_entropy, lambda q: gaussian_kl(q, anchor), nearest_neighbour_entropy):
        plain = value_and_gradient(loss, u)
        with torch.autocast("cpu", torch.bfloat16):
            found = value_and_gradient(loss, u)
        assert all(torch.equal(a, b) for a, b in zip(found, plain, strict=True))


@pytest.mark.parametrize("rank", [5, 256])
@pytest.mark.parametrize(("n", "m"), [(128, 128), (512, 512), (128, 512)])
def test_fp32_is_within_2_thousandths_of_a_nat_of_float64_at_256_dimensions(n, m, rank):
    query, anchor = (rows(seed, size, rank) @ rows(9, rank, 256) for seed, size in ((0, n), (1, m)))
    near = query + 0.01 * rows(3, n, 256)
    for other in (anchor, near, query):  # far: up to 580 nats; near: below 0.1; the same
        single = gaussian_kl(query.float(), other.float()).item()
        assert single == pytest.approx(gaussian_kl(query, other).item(), abs=2e-3)
    single = gaussian_entropy(query.float()).item()
    assert single == pytest.approx(gaussian_entropy(query).item(), abs=2e-3)


def loop_nearest(u):
    unit = [row / row.norm() for row in u]
    n, sphere = len(unit), u.shape[1] - 1
    total = 0.0
    for i, a in enumerate(unit):
        total += math.log(min(float((a - b).norm()) for j, b in enumerate(unit) if j != i))
    ball = math.pi ** (sphere / 2) / math.gamma(sphere / 2 + 1)
    return sphere * total / n + math.log((n - 1) * ball) + 0.5772156649


@pytest.mark.parametrize(("n", "k"), [(2, 2), (5, 3), (20, 8), (8, 20)])
def test_the_nearest_neighbours_estimate_equals_a_loop_of_its_formula(n, k):
    u = rows(0, n, k)
    assert nearest_neighbour_entropy(u).item() == pytest.approx(loop_nearest(u), abs=1e-5)


@pytest.mark.parametrize("n", [500, 2000])
@pytest.mark.parametrize(
    ("k", "fold", "truth"),
    [
        (2, False, math.log(2 * math.pi)),  # the circle's length
        (3, False, math.log(4 * math.pi)),  # the sphere's area
        (4, False, math.log(2 * math.pi**2)),
        (2, True, math.log(math.pi / 2)),  # a quarter of the circle
    ],
)
def test_the_nearest_neighbours_estimate_is_the_log_area_of_a_uniform_sphere(k, fold, truth, n):
    u = rows(0, n, k)
    found = nearest_neighbour_entropy(u.abs() if fold else u).item()
    assert found == pytest.approx(truth, abs=0.15)  # its spread is about 1.3 / sqrt(n)


def test_duplicates_leave_the_nearest_neighbours_estimate_finite():
    for u in (degenerate("duplicates"), degenerate("all rows equal"), degenerate("a zero row")):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            value, direction = value_and_gradient(nearest_neighbour_entropy, u.to(dtype))
            assert value.isfinite()
            assert direction.isfinite().all()


@pytest.mark.parametrize("shrinkage", [0.0, -0.1, 1.1, math.nan])
def test_a_shrinkage_outside_0_to_1_is_refused(shrinkage):
    u = torch.ones(3, 2)
    for call in (lambda: gaussian_entropy(u, shrinkage), lambda: gaussian_kl(u, u, shrinkage)):
        with pytest.raises(ValueError, match="shrinkage must be above 0 and at most 1, got"):
            call()


def test_wrong_shapes_are_refused_by_name():
    # Unwrapped, because the shape checks that tests switch on would refuse some of them first.
    entropy, kl = inspect.unwrap(gaussian_entropy), inspect.unwrap(gaussian_kl)
    nearest = inspect.unwrap(nearest_neighbour_entropy)
    u = torch.ones(3, 2)
    for call in (entropy, nearest, lambda bad: kl(bad, u), lambda bad: kl(u, bad)):
        for bad in (torch.ones(3), torch.ones(0, 2), torch.ones(2, 0), torch.ones(1, 2, 3)):
            with pytest.raises(ValueError, match=r"must be \[N, K\] .* got shape"):
                call(bad)
    with pytest.raises(ValueError, match="one width, got 2 and 4"):
        kl(u, torch.ones(3, 4))
    for small in (torch.ones(1, 2), torch.ones(3, 1)):
        with pytest.raises(ValueError, match="N and K of at least 2"):
            nearest(small)
