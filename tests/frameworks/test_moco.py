"""MoCo v2 against its algorithm written out, and against lightly's parts."""

import copy
import math

import pytest
import torch
from lightly.loss import NTXentLoss
from lightly.models.utils import update_momentum
from torch import nn

from pellucid.branch import Branch
from pellucid.frameworks import FRAMEWORKS, MoCo
from pellucid.heads import BayesGate, NonNegative, Signed
from pellucid.learner import Learner
from pellucid.nets import KeyQueue
from pellucid.train.optimisers import parameter_groups

WIDTH = 5


def branch(head=None, norm=False, width=WIDTH):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(48, 6), *([nn.BatchNorm1d(6)] if norm else []))
    return Branch(encoder, nn.Linear(6, width), head or Signed())


def moco(online, size=10, width=WIDTH, **settings):
    return MoCo(online, KeyQueue(size, width), **settings)


def batches(count, images=4, seed=1):
    """Pairs of views that are close to each other."""
    generator = torch.Generator().manual_seed(seed)
    base = torch.randn(count, images, 3, 4, 4, generator=generator)
    return [(x, x + 0.3 * torch.randn(x.shape, generator=generator)) for x in base]


def train(framework, pairs, lr=0.5):
    """Losses of plain gradient descent."""
    learner, losses = Learner(framework), []
    optimiser = torch.optim.SGD(framework.online.parameters(), lr)
    for done, pair in enumerate(pairs, start=1):
        step = learner(*pair)
        optimiser.zero_grad()
        step.terms["contrast"].backward()
        optimiser.step()
        learner.after_step([step], done / len(pairs))
        losses.append(step.terms["contrast"].item())
    return losses


def algorithm_1(f_q, pairs, temperature, momentum, size, lr=0.5):
    """Losses, the slow net and the queue of the paper's pseudo-code, row by row."""
    f_k, queue, losses = copy.deepcopy(f_q), [], []
    for x_q, x_k in pairs:
        q, k = f_q(x_q).z, f_k(x_k).z.detach()
        total = 0
        for anchor, own in zip(q, k, strict=True):
            cosines = [anchor @ c / (anchor.norm() * c.norm()) for c in (own, *queue)]
            shares = [torch.exp(cosine / temperature) for cosine in cosines]
            total = total - torch.log(shares[0] / sum(shares))
        loss = total / len(q)
        gradients = torch.autograd.grad(loss, list(f_q.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(f_q.parameters(), gradients, strict=True):
                parameter -= lr * gradient
            for slow, fast in zip(f_k.parameters(), f_q.parameters(), strict=True):
                slow.copy_(momentum * slow + (1 - momentum) * fast)
        queue = [*queue, *k][-size:]
        losses.append(loss.item())
    return losses, f_k, queue


def assert_same_parameters(one, other):
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("groups", [1, 2])
def test_it_is_the_papers_algorithm(groups):
    online = branch(NonNegative("softplus")).double()
    reference = copy.deepcopy(online)
    pairs = [(q.double(), k.double()) for q, k in batches(5)]
    framework = moco(online, temperature=0.3, momentum=0.7, groups=groups).double()
    losses = train(framework, pairs)
    expected, slow, queue = algorithm_1(reference, pairs, temperature=0.3, momentum=0.7, size=10)
    assert losses == pytest.approx(expected, abs=1e-6)
    assert losses[0] == 0
    assert losses[-1] > 0.1
    assert_same_parameters(online, reference)
    assert_same_parameters(framework.target.net, slow)
    unit = torch.stack([row / row.norm() for row in queue])
    order = torch.cdist(unit, framework.queue.keys()).argmin(dim=1)
    assert sorted(order.tolist()) == list(range(10))
    torch.testing.assert_close(framework.queue.keys()[order], unit, rtol=0, atol=1e-6)


def test_it_is_lightlys_loss_with_its_bank_and_momentum():
    online = branch()
    fast, slow = copy.deepcopy(online), copy.deepcopy(online)
    loss_of = NTXentLoss(0.2, memory_bank_size=(8, WIDTH))  # 4 divides 8: its bank drops the rest
    framework = moco(online, size=8, temperature=0.2, momentum=0.9)
    framework.queue.put(loss_of.memory_bank.bank)  # lightly starts with random keys
    pairs, theirs = batches(5), []
    optimiser = torch.optim.SGD(fast.parameters(), 0.5)
    for query, key in pairs:
        loss = loss_of(fast(query).z, slow(key).z.detach())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        update_momentum(fast, slow, 0.9)
        theirs.append(loss.item())
    assert train(framework, pairs) == pytest.approx(theirs, abs=1e-5)
    assert_same_parameters(framework.target.net, slow)
    torch.testing.assert_close(framework.queue.rows, loss_of.memory_bank.bank)


def test_the_first_step_has_no_negatives_and_no_gradient():
    online = branch()
    framework = moco(online)
    [pair] = batches(1)
    step = framework(*pair)
    step.terms["contrast"].backward()
    assert step.terms["contrast"].item() == 0
    assert not any(p.grad.any() for p in online.parameters())


def test_no_query_meets_its_own_key_among_the_negatives():
    framework = moco(branch(width=64), size=64, width=64, temperature=0.02)
    framework.queue.put(torch.randn(60, 64, generator=torch.Generator().manual_seed(0)))
    view = torch.eye(48)[:4].reshape(4, 3, 4, 4)  # far from each other
    step = framework(view, view)
    assert step.terms["contrast"].item() < 1e-3
    framework.after_step([step], 0.5)  # from now on it would
    assert framework(view, view).terms["contrast"].item() > 0.6


def test_the_key_is_the_anchor_and_is_of_the_slow_copy():
    online = branch(BayesGate(Signed(), nn.Linear(6, WIDTH), prior=0.3))
    framework = moco(online)
    [(query, key)] = batches(1)
    with torch.no_grad():
        framework.target.net.projector.net.weight.mul_(2)
    step = framework(query, key)
    assert step.anchor is step.key
    torch.testing.assert_close(step.query.z, online(query).z)
    torch.testing.assert_close(step.key.z, framework.target.net(key).z)
    assert not step.key.z.requires_grad
    terms = Learner(framework)(query, key).terms
    assert terms["gate_kl"].item() == online(query).terms["gate_kl"].item()


def test_forward_moves_neither_the_copy_nor_the_queue():
    framework = moco(branch())
    train(framework, batches(2))
    before = copy.deepcopy(framework.state_dict())
    framework(*batches(1)[0])
    assert before.keys() == framework.state_dict().keys()
    assert all(torch.equal(t, before[name]) for name, t in framework.state_dict().items())


def test_all_micro_steps_of_an_optimiser_step_move_it_once():
    online = branch()
    framework = moco(online, momentum=0.9)
    learner = Learner(framework)
    start = copy.deepcopy(framework.target.net)
    with torch.no_grad():
        for parameter in online.parameters():
            parameter.add_(1)
    steps = [learner(*pair) for pair in batches(2)]
    learner.after_step(steps, 0.5)
    for slow, first in zip(framework.target.parameters(), start.parameters(), strict=True):
        torch.testing.assert_close(slow, first + 0.1)
    keys = torch.cat([step.key.z for step in steps])
    assert len(framework.queue) == 8
    torch.testing.assert_close(framework.queue.keys(), nn.functional.normalize(keys))


def opposites(h):
    """Of each row the rows that cancel it, as the two of a group do after batch norm."""
    sums = (h[:, None] + h).abs().amax(dim=2)
    return [[int(j) for j in (row < 1e-3).nonzero()] for row in sums]


@pytest.mark.parametrize("part", ["h", "u"])
def test_a_key_and_its_query_do_not_share_batch_norm_statistics(part):
    norm, plain = nn.BatchNorm1d(48, affine=False), nn.Identity()
    encoder = nn.Sequential(nn.Flatten(), norm if part == "h" else plain)
    projector = norm if part == "u" else plain
    framework = MoCo(Branch(encoder, projector, Signed()), KeyQueue(10, 48), groups=4)
    [(view, _)] = batches(1, images=8)
    step = framework(view, view)
    query, key = getattr(step.query, part), getattr(step.key, part)
    assert opposites(query) == [[]] * 8  # statistics of all eight
    torch.testing.assert_close(query.mean(dim=0), torch.zeros(48), atol=1e-5, rtol=0)
    assert all(len(found) == 1 for found in opposites(key))  # of two


def test_it_logs_a_bound_on_the_information_and_the_length_of_the_queue():
    framework = moco(branch())
    train(framework, batches(2))
    step = framework(*batches(1, seed=5)[0])
    seen = framework.observe(step)
    expected = math.log(1 + 8) - step.terms["contrast"].item()
    assert seen["information"].item() == pytest.approx(expected, rel=1e-6)
    assert seen["queue"].item() == 8
    assert not any(value.requires_grad for value in seen.values())


@pytest.mark.parametrize(("images", "warned"), [(9, True), (10, True), (11, False)])
def test_a_queue_as_long_as_the_data_is_remarked_on(images, warned):
    remarks = moco(branch()).remarks(images)
    assert len(remarks) == warned
    assert all(f"queue of 10 keys is as long as the {images} images" in r for r in remarks)


def test_one_that_was_saved_goes_on_identically():
    framework, fresh = moco(branch(norm=True)), moco(branch(norm=True))
    train(framework, batches(4))
    fresh.load_state_dict(copy.deepcopy(framework.state_dict()))
    losses = []
    for one in (framework, fresh):
        torch.manual_seed(3)
        losses.append(train(one, batches(3, seed=2)))
    assert losses[0] == losses[1]
    assert all(losses[0])
    assert torch.equal(framework.queue.rows, fresh.queue.rows)


def test_two_of_them_do_not_touch_each_other():
    small, large = moco(branch(), size=3), moco(branch(), size=10)
    alone = train(moco(branch(), size=10), batches(4))
    train(small, batches(2, seed=7))
    # Groups are drawn anew, and their sums round differently.
    assert train(large, batches(4)) == pytest.approx(alone, rel=1e-5)
    assert (len(small.queue), len(large.queue)) == (3, 10)


def test_only_the_online_branch_is_given_to_the_optimiser():
    groups = parameter_groups(moco(branch(norm=True)), 0.1, 1e-4, {})
    assert {name.split(".")[0] for group in groups for name in group["names"]} == {"online"}


def test_its_builder_hands_every_setting_on():
    built = FRAMEWORKS["moco"](branch(), WIDTH, temperature=0.3, queue=7, momentum=0.9, groups=2)
    assert (built.temperature, built.momentum, built.queue.size) == (0.3, 0.9, 7)
    assert built.queue.rows.shape == (7, WIDTH)
    assert built.target.net.encoder.groups == 2


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"temperature": -0.2}, "temperature must be positive"),
        ({"momentum": 2.0}, "momentum must lie between 0 and 1, got 2"),
        ({"momentum": -0.1}, "momentum must lie between 0 and 1"),
        ({"queue": 0}, "queue needs sizes of at least 1"),
        ({"groups": 0}, "at least 1 group"),
    ],
)
def test_an_impossible_setting_is_refused_by_name(setting, words):
    with pytest.raises(ValueError, match=words):
        FRAMEWORKS["moco"](branch(), WIDTH, **setting)
