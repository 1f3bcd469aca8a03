"""Every framework with every query transform and every head: it trains, and it evaluates."""

import copy
import itertools

import pytest
import torch
from torch import nn

from pellucid.branch import Branch
from pellucid.frameworks import FRAMEWORKS
from pellucid.heads import HEADS
from pellucid.learner import Learner, weigh
from pellucid.query_transforms import QUERY_TRANSFORMS
from pellucid.regularisers import REGULARISERS
from pellucid.train.optimisers import parameter_groups, sgd

FEATURES, DIMENSIONS, IMAGES = 8, 10, 6

SETTINGS = {
    "non-negative": [{}, {"activation": "relu", "layer_norm": True}, {"activation": "softplus"}],
    "top-k": [{"k": 3}],
    "bayes-gate": [
        {"hidden": 8, "variant": variant, "isolation": isolation, "layers": layers}
        for variant, isolation, layers in itertools.product(
            ("ste", "gumbel", "soft"), ("all", "sparsity", "none"), (1, 2, 3)
        )
        if layers == 2 or (variant, isolation) == ("ste", "all")
    ],
}
HEAD_CASES = [(name, settings) for name in HEADS for settings in SETTINGS.get(name, [{}])]
GRID = list(itertools.product(FRAMEWORKS, QUERY_TRANSFORMS, HEAD_CASES))
SIZE = 8  # pixels; patches of 4 divide it


def name_of(case):
    framework, transform, (head, settings) = case
    return "-".join([framework, transform, head, *map(str, settings.values())])


def encoder():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
        nn.Conv2d(6, FEATURES, 3, stride=2, bias=False), nn.BatchNorm2d(FEATURES), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


@pytest.fixture(params=GRID, ids=name_of)
def learner(request):
    framework, transform, (head, settings) = request.param
    torch.manual_seed(0)
    projector = nn.Sequential(nn.Linear(FEATURES, 12), nn.ReLU(), nn.Linear(12, DIMENSIONS))
    branch = Branch(encoder(), projector, HEADS[head](FEATURES, DIMENSIONS, **settings))
    changes = QUERY_TRANSFORMS[transform](SIZE)
    regularisers = [
        REGULARISERS[name](branch.encoder, changes)
        for name in REGULARISERS
        if name != "transform_decay" or any(True for _ in changes.parameters())
    ]
    return Learner(FRAMEWORKS[framework](branch, DIMENSIONS), changes, regularisers)


def views():
    return torch.randn(IMAGES, 3, SIZE, SIZE), torch.randn(IMAGES, 3, SIZE, SIZE)


def test_every_parameter_learns(learner):
    optimiser = sgd(parameter_groups(learner, 0.05, 1e-4, {}))
    # A queue is empty at the first step, whose loss then has nothing to learn from.
    learner.after_step([learner.train()(*views())], 0.1)
    before = {name: p.detach().clone() for name, p in learner.named_parameters()}
    seen = {name: 0.0 for name, p in learner.named_parameters() if p.requires_grad}
    for progress in (0.5, 1.0):
        for group in optimiser.param_groups:
            group["lr"] = group["peak_lr"]
        step = learner.train()(*views())
        weigh(step.terms, dict.fromkeys(step.terms, 1.0)).backward()
        for name, parameter in learner.named_parameters():
            if name in seen:
                assert parameter.grad is not None, name
                assert bool(parameter.grad.isfinite().all()), name
                seen[name] += parameter.grad.abs().sum().item()
        optimiser.step()
        optimiser.zero_grad()
        learner.after_step([step], progress)
    assert not [name for name, gradient in seen.items() if gradient == 0]
    assert not [name for name in seen if torch.equal(before[name], learner.get_parameter(name))]


def test_forward_changes_nothing_but_batch_norm_statistics(learner):
    before = copy.deepcopy(learner.state_dict())
    learner.train()(*views())
    changed = {name for name, t in learner.state_dict().items() if not torch.equal(t, before[name])}
    norms = {
        f"{name}.{buffer}"
        for name, module in learner.named_modules()
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)
        for buffer in ("running_mean", "running_var", "num_batches_tracked")
    }
    assert changed
    assert changed <= norms
    after = copy.deepcopy(learner.state_dict())
    learner.eval()(*views())
    assert all(torch.equal(t, after[name]) for name, t in learner.state_dict().items())


def test_evaluation_is_deterministic_and_each_image_by_itself(learner):
    query, key = views()
    step = learner.train()(query, key)
    learner.after_step([step], 1.0)
    branch = learner.framework.online.eval()
    with torch.no_grad():
        once, again = branch(query), branch(query)
        alone = [branch(image[None]) for image in query]
        among_others = branch(torch.cat([key, query]))
    for name in ("h", "u", "z", "gate"):
        together = getattr(once, name)
        if together is None:
            continue
        assert torch.equal(together, getattr(again, name))
        single = torch.cat([getattr(embedding, name) for embedding in alone])
        torch.testing.assert_close(single, together, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(
            getattr(among_others, name)[IMAGES:], together, atol=1e-5, rtol=1e-5
        )
    assert bool(once.z.any())
