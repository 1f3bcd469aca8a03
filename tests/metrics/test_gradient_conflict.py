import math

import pytest
import torch
from torch import Tensor

from pellucid.losses import nt_xent
from pellucid.metrics import gradient_conflict, nt_xent_forces


def test_statistics_equal_those_of_all_images_at_once() -> None:
    gradients = torch.randn(57, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gradients = gradients * 1e-6 + 1e-3  # a mean far above the spread
    got = gradient_conflict(iter(gradients.split([10, 1, 30, 16])))
    torch.testing.assert_close(got.mean, gradients.mean(dim=0), rtol=1e-12, atol=0)
    torch.testing.assert_close(got.variance, gradients.var(dim=0), rtol=1e-8, atol=0)
    torch.testing.assert_close(
        got.ratio, gradients.mean(dim=0).abs() / gradients.std(dim=0), rtol=1e-8, atol=0
    )
    assert got.images == 57


def test_a_tensor_of_batches_and_how_images_are_batched() -> None:
    gradients = torch.randn(3, 8, 5, generator=torch.Generator().manual_seed(0))
    whole = gradient_conflict([gradients.flatten(0, 1)])
    for one, other in zip(gradient_conflict(gradients)[:3], whole[:3], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=0)


def test_agreement_conflict_and_silence() -> None:
    agree, cancel, silent = torch.ones(6), torch.tensor([1.0, -1] * 3), torch.zeros(6)
    got = gradient_conflict([torch.stack([agree, cancel, silent], dim=1)])
    assert got.mean.tolist() == [1, 0, 0]
    assert got.ratio[0] == math.inf
    assert got.ratio[1] == 0
    assert got.ratio[2].isnan()


def test_what_gradients_are_refused() -> None:
    with pytest.raises(ValueError, match="at least two images, got 1"):
        gradient_conflict([torch.ones(1, 3)])
    with pytest.raises(ValueError, match="at least two images, got 0"):
        gradient_conflict([])
    with pytest.raises((ValueError, TypeError)):
        gradient_conflict([torch.ones(2, 3), torch.ones(2, 4)])
    with pytest.raises(ValueError, match="gradients must be finite; a batch after 2 images"):
        gradient_conflict([torch.ones(2, 1), torch.tensor([[math.nan], [1.0]])])


def slow_loss(z_a: Tensor, z_b: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The two parts of NT-Xent, anchor by anchor."""
    rows = [z * (z.square().sum() + 1e-12).rsqrt() for z in torch.cat([z_a, z_b])]
    n, count = len(z_a), 2 * len(z_a)
    attraction = repulsion = torch.zeros((), dtype=z_a.dtype)
    for i in range(count):
        others = [rows[i] @ rows[j] / temperature for j in range(count) if j != i]
        attraction = attraction - rows[i] @ rows[(i + n) % count] / temperature / count
        repulsion = repulsion + torch.stack(others).exp().sum().log() / count
    return attraction, repulsion


@pytest.mark.parametrize("temperature", [0.1, 0.2, 1.0])
def test_forces_equal_autograd_through_loops(temperature: float) -> None:
    generator = torch.Generator().manual_seed(0)
    z_a, z_b = (torch.randn(6, 5, generator=generator, dtype=torch.float64) for _ in range(2))
    z_a.requires_grad_()
    z_b.requires_grad_()
    attraction, repulsion = slow_loss(z_a, z_b, temperature)
    pulls = torch.cat(torch.autograd.grad(attraction, (z_a, z_b), retain_graph=True))
    pushes = torch.cat(torch.autograd.grad(repulsion, (z_a, z_b), retain_graph=True))
    whole = torch.cat(torch.autograd.grad(attraction + repulsion, (z_a, z_b)))
    forces = nt_xent_forces(z_a, z_b, temperature)
    torch.testing.assert_close(forces.attraction, pulls, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(forces.repulsion, pushes, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(forces.attraction + forces.repulsion, whole, rtol=1e-6, atol=1e-8)


def test_forces_add_up_to_the_gradient_of_the_loss_that_is_trained() -> None:
    z_a, z_b = torch.randn(2, 16, 8, generator=torch.Generator().manual_seed(0))
    z_a[3] = 0  # every gate closed
    z_a.requires_grad_()
    (gradient,) = torch.autograd.grad(nt_xent(z_a, z_b, 0.2), z_a)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        forces = nt_xent_forces(z_a, z_b, 0.2)
    both = (forces.attraction + forces.repulsion)[:16]
    torch.testing.assert_close(both, gradient, rtol=1e-5, atol=1e-6)
    assert not forces.attraction.requires_grad


def test_attraction_pulls_towards_the_positive_and_one_image_has_no_force() -> None:
    z_a, z_b = torch.tensor([[1.0, 0]]), torch.tensor([[0.0, 1]])
    forces = nt_xent_forces(z_a, z_b, 0.5)
    assert -forces.attraction[0] @ z_b[0] > 0
    torch.testing.assert_close(forces.attraction, -forces.repulsion)
    hot = nt_xent_forces(torch.randn(2, 4).bfloat16(), torch.randn(2, 4).bfloat16(), 0.01)
    assert hot.attraction.isfinite().all()
    assert hot.repulsion.isfinite().all()


def test_what_views_are_refused() -> None:
    z = torch.ones(2, 2)
    with pytest.raises(ValueError, match="temperature must be above 0"):
        nt_xent_forces(z, z, 0.0)
    with pytest.raises((ValueError, TypeError)):
        nt_xent_forces(z, torch.ones(3, 2), 0.2)
    with pytest.raises(ValueError, match="finite rows"):
        nt_xent_forces(z, z * math.inf, 0.2)


def test_gradients_whose_squares_overflow_are_refused() -> None:
    kinds = {torch.float64: 1e200, torch.float32: 1e38}
    for kind, large in kinds.items():
        gradients = torch.tensor([[large], [-large]], dtype=kind)
        if kind == torch.float32:  # fp64 holds the squares of any fp32
            assert gradient_conflict([gradients]).mean.item() == 0
            continue
        with pytest.raises(ValueError, match="too large: their squares must be finite in fp64"):
            gradient_conflict([gradients])


def test_widths_are_compared_with_empty_batches_too() -> None:
    with pytest.raises(ValueError, match=r"\[B, 3\] as in the first batch, got \(2, 4\)"):
        gradient_conflict([torch.zeros(0, 3), torch.zeros(2, 4)])


def test_forces_on_rows_without_a_finite_length_are_refused() -> None:
    rows = torch.ones(2, 3)
    with pytest.raises(ValueError, match="the squares of 1e\\+20 are not: the branch has diverged"):
        nt_xent_forces(rows, rows * 1e20, 0.2)
    assert nt_xent_forces(rows, rows * 1e15, 0.2).repulsion.isfinite().all()
