"""BYOL against its equations written out, and against lightly's parts."""

import copy

import pytest
import torch
from lightly.loss import NegativeCosineSimilarity
from lightly.models.utils import update_momentum
from lightly.utils.scheduler import cosine_schedule
from torch import nn

from pellucid.branch import Branch
from pellucid.frameworks import BYOL, FRAMEWORKS
from pellucid.frameworks.byol import momentum_at
from pellucid.heads import BayesGate, NonNegative, Signed
from pellucid.learner import Learner
from pellucid.nets import mlp
from pellucid.query_transforms import QueryTransform
from pellucid.train.optimisers import parameter_groups

WIDTH, STEPS = 5, 4


class Doubled(QueryTransform):
    def forward(self, images):
        return 2 * images, {}


class Linear(nn.Module):
    """z -> z times a matrix that stays."""

    def __init__(self, *diagonal):
        super().__init__()
        self.matrix = torch.diag(torch.tensor(diagonal))

    def forward(self, z):
        return z @ self.matrix


def branch(head=None, norm=False):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(48, 6), *([nn.BatchNorm1d(6)] if norm else []))
    return Branch(encoder, nn.Linear(6, WIDTH), head or Signed())


def byol(online, momentum=0.9):
    torch.manual_seed(1)
    return BYOL(online, mlp(WIDTH, 7, WIDTH, batch_norm=True), momentum)


def batches(count, images=4):
    generator = torch.Generator().manual_seed(2)
    return [tuple(torch.randn(2, images, 3, 4, 4, generator=generator)) for _ in range(count)]


def train(framework, pairs, lr=0.3, transform=None):
    """Losses of plain gradient descent."""
    learner, losses = Learner(framework, transform), []
    trained = [p for p in learner.parameters() if p.requires_grad]
    optimiser = torch.optim.SGD(trained, lr)
    for done, pair in enumerate(pairs, start=1):
        step = learner(*pair)
        optimiser.zero_grad()
        step.terms["contrast"].backward()
        optimiser.step()
        learner.after_step([step], done / len(pairs))
        losses.append(step.terms["contrast"].item())
    return losses


def loop_regression(prediction, target):
    """Equation 2, averaged over images."""
    pairs = zip(prediction, target, strict=True)
    return sum((p / p.norm() - t / t.norm()).square().sum() for p, t in pairs) / len(target)


def lightly_regression(prediction, target):
    return 2 + 2 * NegativeCosineSimilarity()(prediction, target)


def loop_follow(online, target, step):
    """Section 3.3 and equation 1, with k steps of K taken; cos(pi k / K) is written out."""
    cosines = {1: 0.5**0.5, 2: 0.0, 3: -(0.5**0.5), 4: -1.0}  # K = 4
    tau = 1 - (1 - 0.9) * (cosines[step] + 1) / 2
    for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
        slow.data = tau * slow.data + (1 - tau) * fast.data


def lightly_follow(online, target, step):
    # Theirs counts from 0 and ends at max_steps - 1.
    update_momentum(online, target, cosine_schedule(step, STEPS + 1, 0.9, 1.0))


@pytest.mark.parametrize(
    ("regression", "follow"), [(loop_regression, loop_follow), (lightly_regression, lightly_follow)]
)
def test_it_is_the_papers_algorithm(regression, follow):
    framework = byol(branch(NonNegative("softplus"), norm=True))
    online, predictor = copy.deepcopy(framework.online), copy.deepcopy(framework.predictor)
    target, pairs, expected = copy.deepcopy(online), batches(STEPS), []
    parameters = [*online.parameters(), *predictor.parameters()]
    for done, (one, two) in enumerate(pairs, start=1):
        loss = torch.zeros(())
        for query, key in ((one, two), (two, one)):
            loss = loss + regression(predictor(online(query).z), target(key).z.detach())
        gradients = torch.autograd.grad(loss, parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.data -= 0.3 * gradient
        follow(online, target, done)
        expected.append(loss.item())
    assert train(framework, pairs) == pytest.approx(expected, abs=1e-4)
    for ours, theirs in ((framework.target.net, target), (framework.predictor, predictor)):
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_the_loss_is_the_sum_of_both_directions():
    vectors = Branch(nn.Flatten(), nn.Identity(), Signed())  # z is the image
    learner = Learner(BYOL(vectors, Linear(2.0, 1.0, 1.0)))
    one = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)
    two = torch.tensor([0.6, 0.8, 0.0]).view(1, 3, 1, 1)
    there = 2 - 2 * 0.6  # (2, 0, 0) against (0.6, 0.8, 0)
    back = 2 - 2 * 1.2 / (1.2**2 + 0.8**2) ** 0.5  # (1.2, 0.8, 0) against (1, 0, 0)
    step = learner(one, two)
    assert step.terms["contrast"].item() == pytest.approx(there + back, abs=1e-6)


def test_the_predictor_follows_the_head():
    framework, seen = byol(branch(NonNegative())), []
    framework.predictor.register_forward_hook(lambda _, args, out: seen.append((args[0], out)))
    Learner(framework)(*batches(1)[0])
    assert len(seen) == 2
    assert all((z >= 0).all() and (z == 0).any() for z, _ in seen)
    assert all((prediction < 0).any() for _, prediction in seen)


def test_the_target_sees_plain_views_and_the_online_branch_transformed_ones():
    framework, seen = byol(branch()), {"online": [], "target": []}
    for name, kept in seen.items():
        module = framework.get_submodule(name)
        module.register_forward_pre_hook(lambda _, args, kept=kept: kept.append(args[0]))
    one, two = batches(1)[0]
    Learner(framework, Doubled())(one, two)
    for found, expected in ((seen["online"], [2 * one, 2 * two]), (seen["target"], [two, one])):
        assert len(found) == 2
        assert all(map(torch.equal, found, expected))


def test_the_target_is_the_anchor_without_gradient_or_terms():
    online = branch(BayesGate(Signed(), nn.Linear(6, WIDTH), prior=0.3))
    framework = byol(online)
    one, two = batches(1)[0]
    step = framework(one, two)
    assert step.anchor is step.key
    assert not step.key.z.requires_grad
    assert step.key.terms == {}
    asked = [online(view).terms["gate_kl"].item() for view in (one, two)]
    terms = Learner(framework)(one, two).terms
    assert terms.keys() == {"contrast", "gate_kl"}
    assert terms["gate_kl"].item() == pytest.approx(sum(asked) / 2, rel=1e-5)


@pytest.mark.parametrize(("progress", "expected"), [(0.0, 0.9), (0.5, 0.95), (1.0, 1.0)])
def test_momentum_rises_along_half_a_cosine(progress, expected):
    assert momentum_at(0.9, progress) == pytest.approx(expected, abs=1e-12)
    online = branch()
    framework, start = byol(online), branch()
    with torch.no_grad():
        for parameter in online.parameters():
            parameter.add_(1)
    framework.after_step([], progress)
    for slow, first in zip(framework.target.parameters(), start.parameters(), strict=True):
        torch.testing.assert_close(slow, first + (1 - expected))


@pytest.mark.parametrize("start", [0.0, 0.9, 0.996, 1.0])
def test_momentum_never_falls_nor_leaves_its_range(start):
    values = [momentum_at(start, step / 1000) for step in range(1001)]
    assert values == sorted(values)
    assert values[0] >= start - 1e-12
    assert values[-1] == 1


@pytest.mark.parametrize("start", [0.9, 0.996])
def test_momentum_is_lightlys_schedule(start):
    for step in range(STEPS + 1):
        theirs = cosine_schedule(step, STEPS + 1, start, 1.0)
        assert momentum_at(start, step / STEPS) == pytest.approx(theirs, abs=1e-12)


def test_the_target_moves_once_a_step_whatever_the_micro_steps():
    online = branch()
    framework, start = byol(online), branch()
    learner = Learner(framework)
    steps = [learner(*pair) for pair in batches(2)]
    assert all(map(torch.equal, framework.target.parameters(), start.parameters()))
    with torch.no_grad():
        for parameter in online.parameters():
            parameter.add_(1)
    learner.after_step(steps, 0.5)
    for slow, first in zip(framework.target.parameters(), start.parameters(), strict=True):
        torch.testing.assert_close(slow, first + 0.05)


def test_the_optimiser_is_given_the_online_branch_and_the_predictor():
    groups = parameter_groups(byol(branch(norm=True)), 0.1, 1e-4, {})
    parts = {name.split(".")[0] for group in groups for name in group["names"]}
    assert parts == {"online", "predictor"}


def test_its_builder_makes_the_published_predictor():
    built = FRAMEWORKS["byol"](branch(), WIDTH, momentum=0.9, predictor_hidden=7)
    assert built.momentum == 0.9
    shapes = [tuple(p.shape) for p in built.predictor.parameters()]
    assert shapes == [(7, WIDTH), (7,), (7,), (7,), (WIDTH, 7), (WIDTH,)]  # batch norm between


@pytest.mark.parametrize("momentum", [2.0, -0.1])
def test_an_impossible_momentum_is_refused_by_name(momentum):
    with pytest.raises(ValueError, match=f"momentum must lie between 0 and 1, got {momentum}"):
        FRAMEWORKS["byol"](branch(), WIDTH, momentum=momentum)
