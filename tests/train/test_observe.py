"""What is watched while training."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal

from pellucid.branch import Branch
from pellucid.frameworks import SimCLR
from pellucid.heads import Signed
from pellucid.learner import Learner
from pellucid.metrics import effective_rank
from pellucid.query_transforms import QueryTransform
from pellucid.train.observe import alarms, observe, observe_entropy
from pellucid.types import Embedding


def embedding(z, gate=None):
    return Embedding(h=z, u=z, z=z, gate=gate, terms={})


def values(z, gate=None):
    return {name: value.item() for name, value in observe(embedding(z, gate)).items()}


def test_values_counted_by_hand():
    z = torch.tensor([[3.0, 4.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1e-7]])
    gate = torch.tensor([[0.9, 0.6, 0.4, 0.5], [0.2, 0.1, 0.4, 0.1], [0.8, 0.1, 0.3, 0.1]])
    seen = values(z, gate)
    assert seen["density"] == pytest.approx(3 / 12)  # 1e-7 of a unit row is nothing
    assert seen["alive"] == pytest.approx(2 / 4)
    assert seen["gate_open"] == pytest.approx(3 / 12)  # 0.5 itself is shut
    assert seen["gate_always"] == 0
    assert seen["gate_never"] == pytest.approx(2 / 4)
    assert seen["images_closed"] == pytest.approx(1 / 3)


def test_the_spread_is_that_of_unit_rows():
    torch.manual_seed(0)
    z = torch.randn(64, 16)
    rows = [row / sum(v * v for v in row.tolist()) ** 0.5 for row in z]
    columns = torch.stack(rows).T
    spread = [((c - c.mean()) ** 2).sum().item() / 63 for c in columns]
    expected = sum(v**0.5 for v in spread) / 16 * 16**0.5
    assert values(z)["z_std"] == pytest.approx(expected, rel=1e-5)
    assert 0.8 < expected < 1.1  # about 1 for directions without preference


def test_collapse_is_a_spread_of_nothing():
    assert values(torch.randn(1, 8).expand(6, 8).contiguous())["z_std"] == pytest.approx(
        0, abs=1e-6
    )


def test_gates_are_silent_where_there_are_none():
    assert values(torch.ones(3, 2)).keys() == {"density", "alive", "z_std", "z_rank"}


def test_nothing_of_it_is_trained():
    z = torch.randn(4, 3, requires_grad=True)
    assert not any(value.requires_grad for value in observe(embedding(z, z.sigmoid())).values())


def test_bf16_is_counted_in_fp32():
    z = torch.rand(300, 4).add(0.1).bfloat16()
    assert values(z)["density"] == 1


@pytest.mark.parametrize("shape", [(64, 16), (16, 64), (5, 5)])
def test_the_rank_is_the_effective_rank_of_unit_rows(shape):
    torch.manual_seed(0)
    z = torch.randn(shape) * torch.rand(shape[0], 1) * torch.rand(shape[1])
    z[0] = 0
    unit = nn.functional.normalize(z)
    assert values(z)["z_rank"] == pytest.approx(effective_rank(unit), rel=1e-4)


def test_the_rank_by_hand():
    assert values(torch.eye(4)[[0, 1, 2, 0, 1, 2]])["z_rank"] == pytest.approx(3, rel=1e-5)
    assert values(torch.zeros(4, 3))["z_rank"] == 1


@pytest.mark.parametrize("relu", [False, True])
def test_a_healthy_representation_has_not_collapsed(relu):
    torch.manual_seed(0)
    z = torch.randn(64, 16)
    assert alarms(values(z.relu() if relu else z)) == []


@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_one_representation_of_all_images_is_a_collapse(noise):
    torch.manual_seed(0)
    z = torch.randn(1, 16) + noise * torch.randn(64, 16)
    (words,) = alarms(values(z))
    assert words.startswith("the representation has collapsed: z_std")
    assert "lower the learning rate, or, with a slow copy, raise its momentum" in words


def test_images_on_one_line_are_a_collapse_though_they_spread():
    torch.manual_seed(0)
    z = torch.randn(64, 1) * torch.randn(1, 16)  # unit rows: one direction and its opposite
    seen = values(z)
    assert seen["z_std"] > 0.8
    assert "z_rank 1 of a batch" in alarms(seen)[0]


def test_either_value_alone_is_enough():
    assert alarms({"z_std": 0.01, "z_rank": 9.0})
    assert alarms({"z_std": 0.5, "z_rank": 1.4})
    assert alarms({"z_std": 0.03, "z_rank": 1.6}) == []


def test_closed_gates_are_told_with_what_opens_them():
    z, gate = torch.zeros(8, 16), torch.full((8, 16), 0.2)
    closed, collapsed = alarms(values(z, gate))
    assert closed.startswith("the gates are closed: 100% of images have no open gate")
    assert "weights.gate_kl" in closed
    assert collapsed.startswith("the representation has collapsed: z_std 0")
    gate[:2, 3] = 0.9
    assert "75% of images" not in " ".join(alarms(values(z, gate)))  # a quarter is still open


def test_dead_dimensions_are_told():
    torch.manual_seed(0)
    z = torch.zeros(32, 100)
    z[:, :4] = torch.rand(32, 4)
    (dead,) = alarms(values(z))
    assert dead.startswith("the dimensions are dead: 4.0% of them are active on any image")
    z[0, 4] = 1.0
    assert alarms(values(z)) == []


def test_a_line_without_these_values_says_nothing_of_collapse():
    assert alarms({"loss": 1.0}) == []


def test_what_is_not_finite_is_left_to_the_log():
    z = torch.randn(8, 4)
    z[0, 0] = float("nan")
    assert math.isnan(values(z)["z_std"])


class Stretched(QueryTransform):
    """Doubles one half of the values of an image: 24 log 2 nats for 48 of them."""

    def forward(self, images):
        scale = torch.ones(48)
        scale[:24] = 2
        return images * scale.view(3, 4, 4), {}


def entropies(transform):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(48, 6))
    learner = Learner(SimCLR(Branch(encoder, nn.Linear(6, 5), Signed())), transform)
    query, key = torch.randn(2, 8, 3, 4, 4)
    step = learner(query, key)
    before = torch.get_rng_state()
    seen = observe_entropy(learner, query, step, torch.Generator().manual_seed(1))
    assert torch.equal(before, torch.get_rng_state())  # what is watched changes nothing
    assert not any(value.requires_grad for value in seen.values())
    assert all(p.grad is None for p in learner.parameters())
    return query, step, {name: value.item() for name, value in seen.items()}


def test_entropies_of_the_projections_are_those_of_shrunk_gaussians():
    _, step, seen = entropies(Stretched())
    for name, side in (("query_entropy", step.query), ("anchor_entropy", step.anchor)):
        rows = nn.functional.normalize(side.u.detach())
        covariance = 0.9 * torch.cov(rows.T, correction=0) + 0.1 * torch.eye(5) / 5
        expected = MultivariateNormal(torch.zeros(5), covariance).entropy().item()
        assert seen[name] == pytest.approx(expected, abs=1e-4)
    assert seen["query_entropy"] != pytest.approx(seen["anchor_entropy"], abs=1e-3)


def test_the_gain_is_that_of_the_transform_on_the_first_plain_query_views():
    query, _, seen = entropies(Stretched())
    gain = 24 * math.log(2)
    few = query[:4]
    growth = (Stretched()(few)[0].std() / few.std()).log().item()
    assert seen["entropy_gain"] == pytest.approx(gain, rel=1e-5)  # exact: the Jacobian is diagonal
    assert seen["entropy_gain_scale_free"] == pytest.approx(
        seen["entropy_gain"] - 48 * growth, abs=1e-3
    )


def test_without_a_transform_nothing_is_gained_or_said():
    assert entropies(None)[2].keys() == {"query_entropy", "anchor_entropy"}
