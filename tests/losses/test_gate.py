import math

import pytest
import torch
from torch.distributions import Bernoulli, kl_divergence

from pellucid.losses import bernoulli_kl


@pytest.mark.parametrize("prior", [0.001, 0.2, 0.5, 0.8])
def test_equals_torch_distributions(prior):
    logits = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)) * 3
    leaves = [logits.clone().requires_grad_() for _ in range(2)]
    expected = kl_divergence(Bernoulli(logits=leaves[1]), Bernoulli(prior)).sum(1).mean()
    ours = bernoulli_kl(leaves[0], prior)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
    ours.backward()
    expected.backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("prior", [0.001, 0.2, 0.8, 0.999])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_gradient_is_its_formula_at_any_logit(prior, dtype):
    line = torch.cat([torch.linspace(-30, 30, 601), torch.tensor([-1e4, -300, 0, 300, 1e4])])
    logits = line.to(dtype)[None].requires_grad_()
    bernoulli_kl(logits, prior).backward()
    exact = logits.detach().double()
    slope = exact.sigmoid() * (-exact).sigmoid() * (exact - math.log(prior / (1 - prior)))
    resolution = 1e-5 if dtype == torch.float32 else 0.01
    torch.testing.assert_close(
        logits.grad.double(), slope, rtol=resolution, atol=1e-9 if dtype == torch.float32 else 2e-6
    )


@pytest.mark.parametrize("logit", [-1.5, -12.0, -30.0, -60.0])
def test_a_gate_that_is_nearly_shut_still_feels_the_prior(logit):
    logits = torch.full((1, 1), logit, requires_grad=True)
    bernoulli_kl(logits, 0.8).backward()
    a = torch.sigmoid(torch.tensor(logit, dtype=torch.float64))
    expected = (a * (1 - a) * (logit - math.log(4))).item()
    assert logits.grad.item() == pytest.approx(expected, rel=1e-4)
    assert logits.grad.item() < 0


def test_value_at_the_ends():
    logits = torch.tensor([[1e4, 1e4, -1e4]])
    expected = 2 * math.log(1 / 0.8) + math.log(1 / 0.2)
    assert bernoulli_kl(logits, 0.8).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("prior", [0.1, 0.5, 0.8])
def test_is_zero_at_the_prior_alone_and_sums_dimensions_and_averages_images(prior):
    at_prior = math.log(prior / (1 - prior))
    assert bernoulli_kl(torch.full((3, 4), at_prior), prior).item() == pytest.approx(0, abs=1e-6)
    one = bernoulli_kl(torch.full((1, 1), at_prior + 1), prior).item()
    assert one > 0.05
    many = bernoulli_kl(torch.full((3, 4), at_prior + 1), prior).item()
    assert many == pytest.approx(4 * one, rel=1e-5)


@pytest.mark.parametrize("prior", [0.3, 0.5, 0.8])
def test_price_of_opening_a_dimension(prior):
    price = bernoulli_kl(torch.tensor([[1e3]]), prior) - bernoulli_kl(torch.tensor([[-1e3]]), prior)
    assert price.item() == pytest.approx(math.log((1 - prior) / prior), abs=1e-6)


def test_autocast_changes_nothing():
    logits = torch.linspace(-8, 8, 20).view(4, 5)
    with torch.autocast("cpu", torch.bfloat16):
        cast = bernoulli_kl(logits, 0.8)
    assert torch.equal(cast, bernoulli_kl(logits, 0.8))


@pytest.mark.parametrize("prior", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_impossible_priors_are_refused(prior):
    with pytest.raises(ValueError, match="prior must be strictly between 0 and 1"):
        bernoulli_kl(torch.zeros(1, 1), prior)


def test_an_empty_batch_is_refused():
    with pytest.raises(ValueError, match="empty batch"):
        bernoulli_kl(torch.zeros(0, 3), 0.5)
