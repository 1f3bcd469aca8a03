"""A copy that follows slowly."""

import copy

import pytest
import torch
from lightly.models.utils import update_momentum
from torch import nn

from pellucid.branch import Branch
from pellucid.heads import BayesGate, InverseFrequency, NonNegative, Signed
from pellucid.nets import MomentumCopy


def branch(head=None):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    return Branch(nn.Sequential(encoder, nn.Linear(16, 6)), nn.Linear(6, 5), head or Signed())


def images(seed, count=8):
    return torch.randn(count, 3, 4, 4, generator=torch.Generator().manual_seed(seed))


def change(net, seed=1):
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn_like(parameter))


def test_it_starts_as_the_net_and_shares_nothing_with_it():
    online = branch()
    target = MomentumCopy(online).eval()
    online.eval()
    x, before = images(0), online(images(0)).z
    assert torch.equal(target(x).z, before)
    change(online)
    assert torch.equal(target(x).z, before)


@pytest.mark.parametrize("momentum", [0.5, 0.996])
def test_it_moves_as_lightlys_does(momentum):
    online = branch(BayesGate(Signed(), nn.Linear(6, 5), prior=0.3))
    target, theirs = MomentumCopy(online), copy.deepcopy(online)
    for seed in range(3):
        change(online, seed)
        target.follow(online, momentum)
        update_momentum(online, theirs, momentum)
    names = dict(target.net.named_parameters())
    assert {"head.gate.weight", "encoder.0.1.weight"} <= names.keys()
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(names[name], parameter)


def test_momentum_1_leaves_it_and_momentum_0_copies():
    online = branch()
    target, first = MomentumCopy(online), copy.deepcopy(online)
    change(online)
    target.follow(online, 1.0)
    assert all(map(torch.equal, target.net.parameters(), first.parameters()))
    target.follow(online, 0.0)
    assert all(map(torch.equal, target.net.parameters(), online.parameters()))


def test_it_is_an_exact_average_in_fp32_though_forwards_run_in_bf16():
    online = branch()
    target = MomentumCopy(online)
    start = [p.detach().double() for p in online.parameters()]
    average = start
    optimiser = torch.optim.SGD(online.parameters(), lr=0.5)
    for seed in range(20):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            q, k = online(images(seed)), target(images(seed))
            loss = (q.z - k.z - 1).square().mean()
        assert k.u.dtype == torch.bfloat16
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        target.follow(online, 0.999)
        pairs = zip(average, online.parameters(), strict=True)
        average = [0.999 * own + 0.001 * new.detach().double() for own, new in pairs]
    moved = max((a - s).abs().max().item() for a, s in zip(average, start, strict=True))
    assert moved > 1e-3
    for own, expected in zip(target.net.parameters(), average, strict=True):
        assert own.dtype == torch.float32
        torch.testing.assert_close(own.double(), expected, rtol=0, atol=1e-6)


def test_batch_norms_keep_statistics_of_their_own_images():
    online = branch()
    target = MomentumCopy(online)
    alone = copy.deepcopy(online)
    for seed in range(50):
        online(images(seed))
        target(3 * images(seed) + 1)
        alone(3 * images(seed) + 1)
        target.follow(online, 0.9)
    kept, own = dict(target.net.named_buffers()), dict(alone.named_buffers())
    for name in ("encoder.0.1.running_mean", "encoder.0.1.running_var"):
        torch.testing.assert_close(kept[name], own[name])
        assert not torch.allclose(kept[name], online.get_buffer(name), rtol=0.1)
    assert kept["encoder.0.1.running_mean"].abs().min() > 0.01
    assert (kept["encoder.0.1.running_var"] - 1).abs().min() > 0.1
    x = 3 * images(99) + 1
    torch.testing.assert_close(target.eval()(x).z, alone.eval()(x).z)


def test_other_buffers_are_those_of_the_net_at_once():
    online = branch(InverseFrequency(NonNegative(), 5))
    target = MomentumCopy(online)
    online.head.after_step([online(images(0))], 0.5)
    frequencies = online.head.frequencies.clone()
    assert (frequencies < 1).any()
    target.follow(online, 0.99)
    assert torch.equal(target.net.head.frequencies, frequencies)
    assert target.net.head.updates.item() == 1
    online.head.frequencies.fill_(0.5)
    assert torch.equal(target.net.head.frequencies, frequencies)


def test_it_has_no_gradient_and_asks_for_no_terms():
    online = branch(BayesGate(Signed(), nn.Linear(6, 5), prior=0.3))
    assert online(images(0)).terms.keys() == {"gate_kl"}
    target = MomentumCopy(online)
    k = target(images(0).requires_grad_())
    assert k.terms == {}
    assert k.gate is not None
    assert not any(t.requires_grad for t in (k.h, k.u, k.z, k.gate))
    change(online)
    target.follow(online, 0.5)
    assert not any(p.requires_grad for p in target.parameters())
    assert all(p.requires_grad for p in online.parameters())
