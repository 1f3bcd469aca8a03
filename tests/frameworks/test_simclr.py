"""SimCLR against its algorithm written out."""

import math

import pytest
import torch
from torch import nn

from pellucid.branch import Branch
from pellucid.frameworks import SimCLR
from pellucid.heads import BayesGate, NonNegative, Signed


def branch(head=None, norm=False):
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(48, 6), *([nn.BatchNorm1d(6)] if norm else []))
    return Branch(encoder, nn.Linear(6, 5), head or Signed())


@pytest.fixture
def views():
    torch.manual_seed(0)
    return torch.randn(4, 3, 4, 4), torch.randn(4, 3, 4, 4)


def test_it_is_the_papers_algorithm(views):
    online = branch(NonNegative("softplus"))
    step = SimCLR(online, temperature=0.5)(*views)
    rows = [
        row for pair in zip(online(views[0]).z, online(views[1]).z, strict=True) for row in pair
    ]
    n = len(rows)  # rows 2k and 2k + 1 belong together, as in algorithm 1

    def similarity(i, j):
        return (rows[i] @ rows[j] / (rows[i].norm() * rows[j].norm())).item()

    def ell(i, j):
        others = sum(math.exp(similarity(i, k) / 0.5) for k in range(n) if k != i)
        return -math.log(math.exp(similarity(i, j) / 0.5) / others)

    expected = sum(ell(2 * k, 2 * k + 1) + ell(2 * k + 1, 2 * k) for k in range(n // 2)) / n
    assert step.terms.keys() == {"contrast"}
    assert step.terms["contrast"].item() == pytest.approx(expected, abs=1e-5)


def test_both_sides_are_of_the_online_branch_and_the_key_is_the_anchor(views):
    online = branch()
    step = SimCLR(online)(*views)
    torch.testing.assert_close(step.query.z, online(views[0]).z)
    torch.testing.assert_close(step.key.z, online(views[1]).z)
    assert step.anchor is step.key
    assert step.key.z.requires_grad


def test_each_view_passes_through_batch_norm_by_itself(views):
    online = branch(norm=True).train()
    step = SimCLR(online)(views[0], 3 * views[1] + 5)
    for side in (step.query, step.key):
        torch.testing.assert_close(side.h.mean(dim=0), torch.zeros(6), atol=1e-5, rtol=0)


def test_head_terms_stay_with_their_side(views):
    gate = nn.Linear(6, 5)
    step = SimCLR(branch(BayesGate(Signed(), gate, prior=0.3)))(*views)
    assert step.query.terms.keys() == step.key.terms.keys() == {"gate_kl"}
    assert step.query.terms["gate_kl"].item() != step.key.terms["gate_kl"].item()


@pytest.mark.parametrize("temperature", [0.0, -0.2])
def test_a_temperature_must_be_positive(temperature):
    with pytest.raises(ValueError, match="temperature must be positive"):
        SimCLR(branch(), temperature)


def test_the_temperature_matters(views):
    online = branch()
    cold, warm = (SimCLR(online, t)(*views).terms["contrast"].item() for t in (0.05, 1.0))
    assert cold > warm
