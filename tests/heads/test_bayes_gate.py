import inspect
import math

import pytest
import torch
from torch import nn

from pellucid.heads import BayesGate, NonNegative, Signed
from pellucid.losses import bernoulli_kl, nt_xent
from pellucid.nets.mlp import mlp

VARIANTS = ["ste", "gumbel", "soft"]
FLOATS = [torch.float32, torch.bfloat16, torch.float16]


def draw(seed, *shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def as_scores(**settings):
    """A head whose gate passes h on as its scores, so that a test chooses them."""
    return BayesGate(settings.pop("inner", Signed()), nn.Identity(), prior=0.8, **settings)


def small_gate(**settings):
    torch.manual_seed(0)
    return BayesGate(NonNegative(), mlp(6, 12, 4), prior=0.8, **settings)


def test_ste_equals_a_loop():
    u, scores = draw(0, 5, 4), draw(1, 5, 4)
    z, terms, gate = as_scores(inner=NonNegative(), temperature=2.0, threshold=0.4)(u, scores)
    for i in range(5):
        for k in range(4):
            a = 1 / (1 + math.exp(-scores[i, k].item() / 2.0))
            assert gate[i, k].item() == pytest.approx(a, abs=1e-6)
            assert z[i, k].item() == (max(u[i, k].item(), 0.0) if a > 0.4 else 0.0)
    assert list(terms) == ["gate_kl"]
    torch.testing.assert_close(terms["gate_kl"], bernoulli_kl(scores / 2.0, 0.8))


@pytest.mark.parametrize("threshold", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_mask_is_exactly_zero_or_one(threshold, dtype):
    scores = torch.cat([torch.linspace(-110, 110, 20001), torch.linspace(-4, 4, 20001)])[None]
    scores = scores.to(dtype)
    torch.manual_seed(0)
    for variant in ("ste", "gumbel"):
        head = as_scores(variant=variant, threshold=threshold)
        z = head(torch.ones_like(scores), scores).z
        assert z.dtype == dtype
        assert ((z == 0) | (z == 1)).all()
        if variant == "ste":
            a = torch.sigmoid(scores.float())
            assert torch.equal(z == 1, a > threshold)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("variant", ["ste", "soft"])
def test_gradient_of_the_mask_is_its_formula(variant, temperature):
    u, scores = draw(0, 5, 4), draw(1, 5, 4).requires_grad_()
    weight = draw(2, 5, 4)
    head = as_scores(variant=variant, temperature=temperature, isolation="none")
    (head(u, scores).z * weight).sum().backward()
    a = torch.sigmoid(scores.detach() / temperature)
    torch.testing.assert_close(scores.grad, weight * u * a * (1 - a) / temperature)


def test_gradient_of_a_sampled_mask_is_that_of_its_sigmoid(monkeypatch):
    uniform = torch.rand(5, 4, generator=torch.Generator().manual_seed(3))
    monkeypatch.setattr(torch, "rand", lambda *shape, device: uniform)
    u, scores, weight = draw(0, 5, 4), draw(1, 5, 4).requires_grad_(), draw(2, 5, 4)
    z = as_scores(variant="gumbel", temperature=0.7, isolation="none")(u, scores).z
    (z * weight).sum().backward()
    logistic = uniform.log() - (1 - uniform).log()
    a = torch.sigmoid((scores.detach() + logistic) / 0.7)
    torch.testing.assert_close(z, u * (a > 0.5))
    torch.testing.assert_close(scores.grad, weight * u * a * (1 - a) / 0.7)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_a_sampled_gate_opens_as_often_as_its_sigmoid_says(temperature):
    logits = torch.tensor([-2.0, 0.0, 0.5, 2.0])
    scores = logits.expand(40000, 4).contiguous()
    torch.manual_seed(0)
    z = as_scores(variant="gumbel", temperature=temperature)(torch.ones(40000, 4), scores).z
    five_sigma = 5 * (torch.sigmoid(logits) * torch.sigmoid(-logits) / 40000).sqrt()
    assert ((z.mean(0) - torch.sigmoid(logits)).abs() < five_sigma).all()


@pytest.mark.parametrize("extreme", [0.0, 1 - 2**-24])
@pytest.mark.parametrize("dtype", FLOATS)
def test_extreme_noise_and_scores_stay_finite(monkeypatch, extreme, dtype):
    monkeypatch.setattr(torch, "rand", lambda *shape, device: torch.full(shape, extreme))
    for value in (-60000.0, -1.0, 0.0, 1.0, 60000.0):
        scores = torch.full((3, 4), value, dtype=dtype, requires_grad=True)
        u = torch.ones(3, 4, dtype=dtype)
        head = as_scores(variant="gumbel", temperature=0.1, isolation="none")
        z, terms, gate = head(u, scores)
        assert ((z == 0) | (z == 1)).all()
        if abs(value) > 1:
            assert (z == (value > 0)).all()  # no draw outweighs a score that is certain
        assert gate.isfinite().all()
        (z.sum() + terms["gate_kl"]).backward()
        assert scores.grad.isfinite().all()


def test_samples_follow_the_default_generator():
    u, scores = torch.ones(8, 16), torch.zeros(8, 16)
    head = as_scores(variant="gumbel")
    torch.manual_seed(1)
    first, second = head(u, scores).z, head(u, scores).z
    torch.manual_seed(1)
    assert torch.equal(head(u, scores).z, first)
    assert not torch.equal(first, second)


def gradients_by_source(isolation):
    """Whether h and the gate get a gradient from the contrast, and from the KL."""
    head = small_gate(isolation=isolation)
    found = {}
    for source in ("contrast", "kl"):
        h = draw(1, 5, 6).requires_grad_()
        z, terms, _ = head(draw(0, 5, 4).abs(), h)
        loss = terms["gate_kl"] if source == "kl" else (z * draw(2, 5, 4)).sum()
        gradients = torch.autograd.grad(loss, [h, *head.gate.parameters()], allow_unused=True)
        found[f"{source} -> h"] = gradients[0] is not None and bool(gradients[0].any())
        found[f"{source} -> gate"] = all(g is not None and g.any() for g in gradients[1:])
    return found


@pytest.mark.parametrize(
    ("isolation", "contrast", "kl"),
    [("all", False, False), ("sparsity", True, False), ("none", True, True)],
)
def test_isolation_stops_exactly_what_it_names(isolation, contrast, kl):
    assert gradients_by_source(isolation) == {
        "contrast -> h": contrast,
        "contrast -> gate": True,
        "kl -> h": kl,
        "kl -> gate": True,
    }


@pytest.mark.parametrize("variant", VARIANTS)
def test_isolation_changes_no_value_and_no_gradient_of_the_gate(variant):
    u, h = draw(0, 5, 4), draw(1, 5, 6)
    results = []
    for isolation in ("all", "sparsity", "none"):
        head = small_gate(isolation=isolation, variant=variant)
        torch.manual_seed(5)
        z, terms, gate = head(u, h)
        loss = z.square().sum() + terms["gate_kl"]
        results.append([z, gate, loss, *torch.autograd.grad(loss, list(head.gate.parameters()))])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("variant", VARIANTS)
def test_evaluation_is_deterministic_and_hard_but_for_soft(variant):
    head = small_gate(variant=variant).eval()
    u, h = draw(0, 9, 4).abs() + 0.1, draw(1, 9, 6)
    z, terms, gate = head(u, h)
    assert torch.equal(head(u, h).z, z)
    assert "gate_kl" in terms
    inner = head.inner(u, h).z
    if variant == "soft":
        torch.testing.assert_close(z, inner * gate)
    else:
        assert torch.equal(z, inner * (gate > 0.5))
        assert 0 < (z == 0).float().mean() < 1
    assert torch.equal(head.ungated(u), inner)


def test_evaluation_uses_the_threshold_and_the_temperature_that_were_trained():
    u, scores = torch.ones(1, 3), torch.tensor([[-1.0, 0.5, 3.0]])
    head = as_scores(threshold=0.7, temperature=2.0).eval()
    assert head(u, scores).z.tolist() == [[0.0, 0.0, 1.0]]
    assert as_scores(threshold=0.2).eval()(u, scores).z.tolist() == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("variant", ["ste", "gumbel"])
@pytest.mark.parametrize("closed", ["one image", "every image"])
def test_closed_gates_give_finite_bounded_gradients(dtype, variant, closed):
    u_a, u_b = (draw(seed, 4, 8, dtype=dtype).abs().requires_grad_() for seed in (0, 1))
    scores = torch.full((4, 8), 8.0)
    scores[: 1 if closed == "one image" else 4] = -30.0
    scores = scores.to(dtype).requires_grad_()
    torch.manual_seed(0)
    head = as_scores(inner=NonNegative(), variant=variant, isolation="none")
    out_a, out_b = head(u_a, scores), head(u_b, scores)
    assert not out_a.z[0].any()
    loss = nt_xent(out_a.z, out_b.z, 0.2) + out_a.terms["gate_kl"]
    assert loss.isfinite()
    loss.backward()
    for leaf in (u_a, u_b, scores):
        assert leaf.grad.isfinite().all()
        assert leaf.grad.abs().max() < 1e5


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_projection_that_is_all_negative_gives_finite_bounded_gradients(dtype):
    u = (-draw(0, 4, 8).abs()).to(dtype).requires_grad_()
    z = NonNegative()(u, u).z
    assert not z.any()
    other = draw(1, 4, 8, dtype=dtype).abs()
    nt_xent(z, other, 0.2).backward()
    assert u.grad.isfinite().all()
    assert 0 < u.grad.abs().max() < 1e5


@pytest.mark.parametrize("variant", VARIANTS)
def test_forward_changes_nothing(variant):
    head = small_gate(variant=variant)
    before = {name: value.clone() for name, value in head.state_dict().items()}
    u, h = draw(0, 5, 4), draw(1, 5, 6)
    u_before, h_before = u.clone(), h.clone()
    head(u, h)
    assert before.keys() == head.state_dict().keys()
    for name, value in head.state_dict().items():
        assert torch.equal(before[name], value)
    assert torch.equal(u, u_before)
    assert torch.equal(h, h_before)


def test_autocast_leaves_the_gate_in_fp32():
    head = small_gate()
    with torch.autocast("cpu", torch.bfloat16):
        z, terms, gate = head(draw(0, 5, 4).bfloat16(), draw(1, 5, 6))
    assert (z.dtype, gate.dtype, terms["gate_kl"].dtype) == (
        torch.bfloat16,
        torch.float32,
        torch.float32,
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": 0.0}, "prior must be strictly between 0 and 1, got 0.0"),
        ({"prior": 1.0}, "prior must be strictly between 0 and 1, got 1.0"),
        ({"temperature": 0.0}, "temperature must be above 0, got 0.0"),
        ({"temperature": -1.0}, "temperature must be above 0"),
        ({"threshold": 0.0}, "threshold must be strictly between 0 and 1"),
        ({"threshold": 1.0}, "threshold must be strictly between 0 and 1"),
        ({"variant": "hard"}, "variant must be one of ste, gumbel, soft, got 'hard'"),
        ({"isolation": "kl"}, "isolation must be one of all, sparsity, none, got 'kl'"),
    ],
)
def test_impossible_settings_are_refused_by_name(settings, message):
    # Unwrapped, because the type checks that tests switch on would refuse a wrong name first.
    construct = inspect.unwrap(BayesGate.__init__)
    with pytest.raises(ValueError, match=message):
        construct(BayesGate.__new__(BayesGate), Signed(), mlp(6, 4), **{"prior": 0.8, **settings})


@pytest.mark.parametrize("width", [1, 5])
def test_a_gate_of_another_width_is_refused(width):
    head = BayesGate(Signed(), nn.Linear(6, width), prior=0.8)
    with pytest.raises(
        ValueError, match=rf"one score for each entry of z \(5, 4\), got \(5, {width}\)"
    ):
        head(draw(0, 5, 4), draw(1, 5, 6))


def test_a_gate_on_a_gate_names_its_term_twice():
    head = BayesGate(small_gate(), mlp(6, 4), prior=0.8)
    with pytest.raises(ValueError, match="gate_kl"):
        head(draw(0, 5, 4), draw(1, 5, 6))
