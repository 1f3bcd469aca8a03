"""Several processes under DistributedDataParallel give the loss, gradients and buffers of one.

Every framework with every head, SAIB and all regularisers, on an encoder without batch norm.
"""

import itertools
import math
import os

import pytest
import torch
from torch import distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from pellucid.branch import Branch
from pellucid.frameworks import BYOL, MoCo, SimCLR
from pellucid.heads import HEADS
from pellucid.learner import Learner, weigh
from pellucid.nets import KeyQueue, mlp
from pellucid.query_transforms import QUERY_TRANSFORMS
from pellucid.regularisers import Entropy, QueryKL, Spectral, TransformDecay

BATCH, FEATURES, DIMENSIONS, QUEUE = 8, 6, 5, 11
WORLDS = (2, 4) if os.environ.get("PELLUCID_SOAK") else (2,)

FRAMEWORKS = {
    "simclr": lambda branch: SimCLR(branch),
    "moco": lambda branch: MoCo(branch, KeyQueue(QUEUE, DIMENSIONS), momentum=0.5),
    # A predictor without batch norm, which two processes would feed with other statistics.
    "byol": lambda branch: BYOL(branch, mlp(DIMENSIONS, 7, DIMENSIONS), momentum=0.5),
}
HEAD_CASES = {
    "signed": ("signed", {}),
    "non-negative": ("non-negative", {"layer_norm": True}),
    "top-k": ("top-k", {"k": 3}),
    "inverse-frequency": ("inverse-frequency", {}),
    "ste": ("bayes-gate", {"hidden": 8, "prior": 0.3}),
    "soft": ("bayes-gate", {"hidden": 8, "variant": "soft", "isolation": "none"}),
    "gumbel": ("bayes-gate", {"hidden": 8, "variant": "gumbel", "isolation": "sparsity"}),
}
ESTIMATORS = ("gaussian", "nearest")
CASES = [
    *itertools.product(FRAMEWORKS, HEAD_CASES, ["saib"], [1, 2], ["gaussian"]),
    *itertools.product(FRAMEWORKS, ["signed"], ["monotone-saib"], [1], ESTIMATORS),
]


def learner_of(framework, head, transform, estimator):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, FEATURES))
    name, settings = HEAD_CASES[head]
    branch = Branch(
        encoder, nn.Linear(FEATURES, DIMENSIONS), HEADS[name](FEATURES, DIMENSIONS, **settings)
    )
    changes = QUERY_TRANSFORMS[transform](4, patch=2)
    terms = [Entropy(estimator), QueryKL(), Spectral(encoder), TransformDecay(changes)]
    return Learner(FRAMEWORKS[framework](branch), changes, terms).double()


def trained(framework, head, transform, accumulate, estimator):
    """Loss and gradients of the second step, and all buffers after it."""
    world, own = (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    learner = learner_of(framework, head, transform, estimator)
    model = DistributedDataParallel(learner) if world > 1 else learner
    query, key = torch.randn(2, BATCH, 3, 4, 4, dtype=torch.float64)
    share = BATCH // (accumulate * world)
    for number in range(2):  # a queue has keys in the second step
        learner.zero_grad()
        total, steps = 0.0, []
        for micro in range(accumulate):
            first = (micro * world + own) * share
            rows = slice(first, first + share)
            torch.manual_seed(3 + micro)
            if world > 1:
                model.require_backward_grad_sync = micro + 1 == accumulate
            step = model(query[rows], key[rows])
            loss = weigh(step.terms, dict.fromkeys(step.terms, 0.1)) / accumulate
            loss.backward()
            total += loss.item()
            steps.append(step)
        learner.after_step(steps, (number + 1) / 2)
    found = {f"gradient of {n}": p.grad for n, p in learner.named_parameters() if p.requires_grad}
    found |= {f"moved {n}": p for n, p in learner.named_parameters() if not p.requires_grad}
    found |= {f"buffer {n}": b.double() for n, b in learner.named_buffers()}
    found = {name: tensor.detach().clone() for name, tensor in found.items()}
    return found | {"loss": torch.tensor(total, dtype=torch.float64)}


def one_of_several(own_rank, world, folder):
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=own_rank, world_size=world)
    torch.save({case: trained(*case) for case in CASES}, f"{folder}/{own_rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module", params=WORLDS)
def several(request, tmp_path_factory):
    """What each of several processes found."""
    world, folder = request.param, tmp_path_factory.mktemp("several")
    multiprocessing.spawn(one_of_several, args=(world, str(folder)), nprocs=world)
    return [torch.load(folder / f"{own_rank}.pt") for own_rank in range(world)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_several_processes_give_the_loss_every_gradient_and_every_buffer_of_one(several, case):
    alone = trained(*case)
    assert math.isfinite(alone["loss"].item())
    for part in ("framework.online.encoder.0.weight", "query_transform.mix.weight"):
        assert alone[f"gradient of {part}"].any()
    mean_loss = sum(found[case]["loss"] for found in several) / len(several)
    assert mean_loss.item() == pytest.approx(alone["loss"].item(), abs=1e-6)  # summed in fp32
    for found in several:
        assert found[case].keys() == alone.keys()
        for name in alone.keys() - {"loss"}:
            gap = (found[case][name] - alone[name]).abs().max().item()
            assert gap < 1e-6, name
