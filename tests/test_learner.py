"""The learner: one sum of terms, and who touches what."""

import pytest
import torch
from torch import nn

from pellucid.branch import Branch
from pellucid.frameworks import BYOL, Framework, SimCLR
from pellucid.heads import InverseFrequency, NonNegative, Signed
from pellucid.heads.head import Head
from pellucid.learner import Learner, weigh
from pellucid.query_transforms import QueryTransform
from pellucid.regularisers import Regulariser
from pellucid.types import HeadOutput, Step, merge

BATCH = 8


class Asking(Head):
    """A head with a term, that counts its after_step."""

    def __init__(self):
        super().__init__()
        self.moved = []

    def forward(self, u, h):
        return HeadOutput(u, {"size": u.square().mean()})

    def after_step(self, embeddings, progress):
        self.moved.append((embeddings, progress))


class OneSided(Framework):
    """Compares with a key that asks for nothing, as a momentum copy does."""

    moved = ()

    def forward(self, query, key):
        q, k = self.online(query), self.online(key)._replace(terms={})
        return Step({"contrast": (q.z - k.z.detach()).square().mean()}, query=q, key=k, anchor=k)

    def after_step(self, steps, progress):
        self.moved = (*self.moved, (steps, progress))


class TwoSided(OneSided):
    """Is run on both orders of the views."""

    symmetric = True


class Doubled(QueryTransform):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, images):
        return self.scale * images, {"stretch": self.scale.square()}


class Sized(QueryTransform):
    """Has a term that depends on the images."""

    def forward(self, images):
        return 2 * images, {"brightness": images.mean()}


class Spread(Regulariser):
    def __init__(self, name="spread"):
        super().__init__()
        self.name, self.seen, self.moved = name, [], []

    def forward(self, step):
        self.seen.append(step)
        return {self.name: (step.query.u - step.anchor.u).mean()}

    def after_step(self, steps, progress):
        self.moved.append((steps, progress))


def branch(head=None):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 6))
    return Branch(encoder, nn.Linear(6, 5), head or Signed())


@pytest.fixture
def views():
    torch.manual_seed(1)
    return torch.randn(BATCH, 3, 4, 4), torch.randn(BATCH, 3, 4, 4)


def test_terms_join_and_a_name_used_twice_is_refused():
    a, b = torch.tensor(1.0), torch.tensor(2.0)
    assert merge({"a": a}, {}, {"b": b}) == {"a": a, "b": b}
    with pytest.raises(ValueError, match="two parts both name a term a"):
        merge({"a": a, "b": b}, {"a": b})


def test_the_loss_is_the_weighted_sum_in_fp32():
    terms = {"contrast": torch.tensor(3.0), "gate_kl": torch.tensor(0.5, dtype=torch.bfloat16)}
    loss = weigh(terms, {"gate_kl": 0.2, "contrast": 2.0})
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(6.1)


def test_a_term_without_a_weight_and_a_weight_without_a_term_are_errors():
    terms = {"contrast": torch.tensor(1.0), "gate_kl": torch.tensor(1.0)}
    with pytest.raises(ValueError, match=r"no weight for the term gate_kl; set weights\.gate_kl="):
        weigh(terms, {"contrast": 1.0})
    with pytest.raises(
        ValueError, match=r"weights\.entropy is set.*terms here are contrast, gate_kl"
    ):
        weigh(terms, {"contrast": 1.0, "gate_kl": 1.0, "entropy": 1.0})


def test_head_terms_are_averaged_over_both_trained_sides(views):
    online = branch(Asking())
    step = Learner(SimCLR(online))(*views)
    sides = [online(view).u.square().mean().item() for view in views]
    assert step.terms.keys() == {"contrast", "size"}
    assert step.terms["size"].item() == pytest.approx(sum(sides) / 2, rel=1e-6)


def test_head_terms_of_a_side_that_is_not_trained_do_not_count(views):
    online = branch(Asking())
    step = Learner(OneSided(online))(*views)
    assert step.terms["size"].item() == pytest.approx(online(views[0]).u.square().mean().item())


def test_a_transform_touches_the_query_only_and_its_terms_join(views):
    query, key = views
    online, transform = branch(), Doubled()
    step = Learner(SimCLR(online), transform)(query, key)
    torch.testing.assert_close(step.query.h, online(2 * query).h)
    torch.testing.assert_close(step.key.h, online(key).h)
    assert step.terms.keys() == {"contrast", "stretch"}
    assert step.terms["stretch"].item() == 4
    step.terms["contrast"].backward()
    assert transform.scale.grad.item() != 0


def test_a_regulariser_is_given_the_step_and_its_terms_join(views):
    first, second = Spread(), Spread("again")
    step = Learner(SimCLR(branch()), regularisers=[first, second])(*views)
    assert step.terms.keys() == {"contrast", "spread", "again"}
    for seen in (*first.seen, *second.seen):
        assert (seen.query, seen.key, seen.anchor) == (step.query, step.key, step.anchor)
    expected = (step.query.u - step.anchor.u).mean()
    assert step.terms["spread"].item() == pytest.approx(expected.item())


def test_two_parts_with_one_term_are_refused(views):
    with pytest.raises(ValueError, match="both name a term contrast"):
        Learner(SimCLR(branch()), regularisers=[Spread("contrast")])(*views)


def test_after_step_reaches_each_part_once_with_all_micro_steps(views):
    head, regulariser = Asking(), Spread()
    learner = Learner(OneSided(branch(head)), regularisers=[regulariser])
    steps = [learner(*views), learner(*views)]
    assert not head.moved
    assert not learner.framework.moved
    learner.after_step(steps, 0.25)
    assert learner.framework.moved == ((steps, 0.25),)
    assert regulariser.moved == [(steps, 0.25)]
    [(embeddings, progress)] = head.moved
    assert progress == 0.25
    assert all(e is s.query for e, s in zip(embeddings, steps, strict=True))
    assert len(embeddings) == 2


def test_a_symmetric_framework_sums_its_own_terms_over_both_orders(views):
    one, two = views
    framework = TwoSided(branch())
    step = Learner(framework, Doubled())(one, two)
    there, back = framework(2 * one, two), framework(2 * two, one)
    expected = there.terms["contrast"].item() + back.terms["contrast"].item()
    assert there.terms["contrast"].item() != pytest.approx(back.terms["contrast"].item(), rel=1e-2)
    assert step.terms["contrast"].item() == pytest.approx(expected, rel=1e-6)
    torch.testing.assert_close(step.query.z, there.query.z)
    torch.testing.assert_close(step.anchor.z, there.key.z)


def test_a_symmetric_framework_averages_what_head_transform_and_regularisers_ask(views):
    one, two = views
    online, spread = branch(Asking()), Spread()
    step = Learner(TwoSided(online), Sized(), [spread])(one, two)
    assert step.terms.keys() == {"contrast", "brightness", "size", "spread"}
    there, back = online(2 * one).u, online(2 * two).u
    expected = {
        "brightness": (one.mean() + two.mean()) / 2,
        "size": (there.square().mean() + back.square().mean()) / 2,
        "spread": ((there - online(two).u).mean() + (back - online(one).u).mean()) / 2,
    }
    for name, value in expected.items():
        assert step.terms[name].item() == pytest.approx(value.item(), abs=1e-6), name
    assert len(spread.seen) == 2
    assert torch.equal(spread.seen[0].query.z, step.query.z)


def test_each_view_of_a_symmetric_framework_passes_through_batch_norm_by_itself(views):
    one, two = views
    online = branch()
    online.encoder.append(nn.BatchNorm1d(6))
    seen = []
    online.encoder.register_forward_hook(lambda _, args, features: seen.append(features))
    Learner(TwoSided(online))(one, 3 * two + 5)
    assert len(seen) == 4
    for features in seen:
        torch.testing.assert_close(features.mean(dim=0), torch.zeros(6), atol=1e-5, rtol=0)


def test_the_head_moves_before_the_framework_that_may_copy_it(views):
    online = branch(InverseFrequency(NonNegative(), 5))
    learner = Learner(BYOL(online, nn.Identity()))
    step = learner(*views)
    learner.after_step([step], 0.5)
    assert (online.head.frequencies < 1).any()
    assert torch.equal(learner.framework.target.net.head.frequencies, online.head.frequencies)


def test_everything_that_trains_is_a_parameter_of_the_learner():
    names = dict(Learner(SimCLR(branch()), Doubled()).named_parameters())
    assert {"query_transform.scale", "framework.online.projector.weight"} <= names.keys()
