"""Parameter groups, LARS written out by hand, and rates."""

import pytest
import torch
from torch import nn

from pellucid.branch import Branch
from pellucid.frameworks import SimCLR
from pellucid.heads import HEADS
from pellucid.learner import Learner
from pellucid.train.optimisers import OPTIMISERS, parameter_groups, set_rates

GATE = "framework.online.head.gate"


def learner():
    torch.manual_seed(0)
    encoder = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )
    head = HEADS["bayes-gate"](4, 5, hidden=6)
    return Learner(SimCLR(Branch(encoder, nn.Linear(4, 5), head)))


@pytest.mark.parametrize("lr_of", [{}, {GATE: 0.1}, {GATE: 0.1, "framework.online": 0.2}])
def test_every_parameter_is_in_exactly_one_group(lr_of):
    module = learner()
    module.get_parameter("framework.online.projector.bias").requires_grad_(False)
    groups = parameter_groups(module, 0.4, 1e-4, lr_of)
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    seen = [pair for g in groups for pair in zip(g["names"], g["params"], strict=True)]
    assert len(seen) == len(named)
    assert all(named[name] is parameter for name, parameter in seen)
    assert f"{GATE}.0.weight" in dict(seen)


def test_vectors_have_no_decay_and_no_trust_ratio():
    for group in parameter_groups(learner(), 0.4, 1e-4, {GATE: 0.1}):
        matrices = group["params"][0].ndim > 1
        assert {p.ndim > 1 for p in group["params"]} == {matrices}
        assert group["weight_decay"] == (1e-4 if matrices else 0)
        assert group["always_adapt"] == matrices


def rates(lr_of):
    groups = parameter_groups(learner(), 0.4, 1e-4, lr_of)
    return {name: group["lr"] for group in groups for name in group["names"]}


def test_the_longest_prefix_wins_whatever_the_order():
    lr_of = {
        GATE: 0.1,
        "framework.online": 0.2,
        f"{GATE}.2.bias": 0.3,
        "framework.online.head": 0.5,
    }
    for order in (lr_of, dict(reversed(lr_of.items()))):
        seen = rates(order)
        assert seen["framework.online.encoder.0.weight"] == 0.2
        assert seen[f"{GATE}.0.weight"] == 0.1
        assert seen[f"{GATE}.2.bias"] == 0.3
        assert seen[f"{GATE}.2.weight"] == 0.1


def test_a_prefix_ends_where_a_name_does():
    seen = rates({"framework.online.encoder.1": 0.1})
    assert seen["framework.online.encoder.1.weight"] == 0.1
    assert seen["framework.online.encoder.0.weight"] == 0.4
    with pytest.raises(ValueError, match=r"framework\.online\.enc matches no parameter"):
        rates({"framework.online.enc": 0.1})


def test_a_prefix_that_matches_nothing_is_an_error_with_those_that_would():
    with pytest.raises(
        ValueError, match=r"lr_of\.head\.gate matches no parameter.*online\.head\.gate"
    ):
        rates({"head.gate": 0.1, GATE: 0.2})


@pytest.mark.parametrize("trust", [0.02, 0.001])
def test_lars_equals_its_update_written_out(trust):
    """w <- w - lr m, m <- 0.9 m + min(eta |w| / (|g| + decay |w|) / lr, 1) (g + decay w)."""
    module = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    decay, peak = 1e-2, 0.3
    groups = parameter_groups(module, peak, decay, {"2": 0.1})
    optimiser = OPTIMISERS["lars"](groups, momentum=0.9, trust=trust)
    weights = {n: p.detach().double().clone() for n, p in module.named_parameters()}
    memory = {n: torch.zeros_like(w) for n, w in weights.items()}
    clipped = set()
    for step in range(5):
        factor = (0.5, 1.0, 0.8, 0.3, 0.01)[step]
        set_rates(optimiser, factor)
        module(torch.randn(8, 6)).square().mean().mul(10.0**-step).backward()
        for name, parameter in module.named_parameters():
            lr = factor * (0.1 if name.startswith("2.") else peak)
            gradient, weight = parameter.grad.double(), weights[name]
            if parameter.ndim > 1:
                local = trust * weight.norm() / (gradient.norm() + decay * weight.norm())
                clipped.add(bool(local / lr > 1))
                gradient = min(local / lr, 1.0) * (gradient + decay * weight)
            memory[name] = 0.9 * memory[name] + gradient
            weights[name] = weight - lr * memory[name]
        optimiser.step()
        optimiser.zero_grad()
        for name, parameter in module.named_parameters():
            torch.testing.assert_close(parameter.double(), weights[name], atol=1e-6, rtol=1e-5)
    assert clipped == {True, False}  # both sides of the minimum were taken


def test_lars_clips_to_plain_momentum_when_the_gradient_is_small():
    weight = nn.Parameter(torch.ones(2, 2))
    module = nn.ParameterDict({"w": weight})
    optimiser = OPTIMISERS["lars"](parameter_groups(module, 0.01, 0.0, {}), trust=0.02)
    set_rates(optimiser, 1.0)
    weight.grad = torch.full((2, 2), 1e-3)
    optimiser.step()
    torch.testing.assert_close(weight.detach(), torch.full((2, 2), 1 - 0.01 * 1e-3))


def test_a_zero_gradient_and_a_zero_weight_stay_finite():
    module = nn.ParameterDict({"zero": nn.Parameter(torch.zeros(2, 2)), "still": torch.ones(2, 2)})
    optimiser = OPTIMISERS["lars"](parameter_groups(module, 0.4, 1e-4, {}))
    for name, gradient in (("zero", 1.0), ("still", 0.0)):
        module[name].grad = torch.full((2, 2), gradient)
    optimiser.step()
    assert all(bool(p.isfinite().all()) for p in module.parameters())


@pytest.mark.parametrize("name", OPTIMISERS)
def test_rates_are_shares_of_each_groups_peak(name):
    optimiser = OPTIMISERS[name](parameter_groups(learner(), 0.4, 1e-4, {GATE: 0.1}))
    for factor in (0.5, 0.25):  # not compounded
        set_rates(optimiser, factor)
        assert {g["lr"] for g in optimiser.param_groups} == {0.4 * factor, 0.1 * factor}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_optimiser_goes_downhill(name):
    module = nn.Linear(4, 3)
    optimiser = OPTIMISERS[name](parameter_groups(module, 0.01, 0.0, {}))
    set_rates(optimiser, 1.0)
    x = torch.randn(16, 4)
    losses = []
    for _ in range(20):
        loss = module(x).square().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
