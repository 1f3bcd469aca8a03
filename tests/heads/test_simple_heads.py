import inspect

import pytest
import torch
import torch.nn.functional as F

from pellucid.heads import Head, InverseFrequency, NonNegative, Signed, TopK
from pellucid.types import Embedding, HeadOutput

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def draw(seed, *shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def embedding(z):
    return Embedding(h=z, u=z, z=z, gate=None, terms={})


def awkward_numbers(dtype):
    info = torch.finfo(dtype)
    around = torch.linspace(-9, 9, 4001, dtype=torch.float64)
    tiny = torch.logspace(-40, 2, 400, dtype=torch.float64)
    ends = [0.0, -0.0, info.tiny, -info.tiny, info.eps, info.max / 2, -info.max / 2]
    ends = torch.tensor(ends, dtype=torch.float64)
    return torch.cat([around, tiny, -tiny, ends]).to(dtype)[None]


def test_signed_is_the_projection():
    u = draw(0, 4, 6)
    z, terms, gate = Signed()(u, draw(1, 4, 3))
    assert torch.equal(z, u)
    assert terms == {}
    assert gate is None
    assert torch.equal(Signed().ungated(u), u)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rep_relu_is_relu_forward_to_the_bit_and_gelu_backward(dtype):
    u = awkward_numbers(dtype).requires_grad_()
    z = NonNegative("rep-relu")(u, u).z
    assert torch.equal(z, F.relu(u))
    weight = draw(0, *u.shape, dtype=dtype)
    (ours,) = torch.autograd.grad((z * weight).sum(), u)
    (gelu,) = torch.autograd.grad((F.gelu(u) * weight).sum(), u)
    assert torch.equal(ours, gelu)
    (relu,) = torch.autograd.grad((F.relu(u) * weight).sum(), u)
    assert not torch.equal(ours, relu)


def test_rep_relu_gives_a_dead_dimension_a_way_back():
    u = torch.full((1, 1), -0.3, requires_grad=True)
    NonNegative("rep-relu")(u, u).z.sum().backward()
    assert u.grad.item() > 0.1
    u.grad = None
    NonNegative("relu")(u, u).z.sum().backward()
    assert u.grad.item() == 0


@pytest.mark.parametrize("activation", ["rep-relu", "relu", "softplus"])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_non_negative_equals_its_formula(activation, layer_norm):
    u = draw(0, 5, 8) + 1
    centred = u - u.mean(1, keepdim=True)
    normed = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
    at = normed if layer_norm else u
    expected = torch.log1p(at.exp()) if activation == "softplus" else at.clamp(min=0)
    head = NonNegative(activation, layer_norm)
    torch.testing.assert_close(head(u, u).z, expected, rtol=0, atol=2e-6)
    assert torch.equal(head.ungated(u), head(u, u).z)
    assert not list(head.parameters())


def test_unknown_activations_are_refused_with_the_valid_ones():
    # Unwrapped, because the type checks that tests switch on would refuse the name first.
    construct = inspect.unwrap(NonNegative.__init__)
    with pytest.raises(ValueError, match="one of rep-relu, relu, softplus, got 'rep_relu'"):
        construct(NonNegative.__new__(NonNegative), "rep_relu")


@pytest.mark.parametrize("k", [1, 3, 8])
def test_top_k_keeps_the_k_largest_in_their_places(k):
    u = draw(0, 6, 8).abs() + 0.1
    z = TopK(k)(u, u).z
    for row, kept in zip(u, z, strict=True):
        threshold = sorted(row.tolist())[-k]
        expected = [value if value >= threshold else 0.0 for value in row.tolist()]
        assert kept.tolist() == expected
    assert (z != 0).sum(1).tolist() == [k] * 6


def test_top_k_keeps_exactly_k_of_equals_and_passes_gradients_to_those_alone():
    u = torch.ones(3, 7, requires_grad=True)
    z = TopK(2)(u, u).z
    assert (z != 0).sum(1).tolist() == [2, 2, 2]
    weight = draw(0, 3, 7)
    (z * weight).sum().backward()
    gelu_slope = torch.autograd.functional.jacobian(F.gelu, torch.tensor(1.0))
    torch.testing.assert_close(u.grad, weight * gelu_slope * (z != 0))


def test_top_k_takes_the_inner_head_that_it_is_given():
    u = torch.tensor([[-3.0, -1.0, -2.0]])
    assert TopK(1, Signed())(u, u).z.tolist() == [[0.0, -1.0, 0.0]]
    assert TopK(1)(u, u).z.tolist() == [[0.0, 0.0, 0.0]]


def test_impossible_k_are_refused():
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        TopK(0)
    with pytest.raises(ValueError, match="k must be at most the 4 dimensions of z, got 5"):
        TopK(5)(torch.ones(2, 4), torch.ones(2, 3))


def test_inverse_frequency_similarity_is_the_sum_over_pi():
    pi = torch.tensor([0.0005, 0.02, 0.5, 1.0])
    head = InverseFrequency(NonNegative(), 4, frequencies=pi)
    u, other = draw(0, 3, 4), draw(1, 3, 4)
    a, b = u.clamp(min=0), other.clamp(min=0)
    expected = [sum(a[i, k] * b[i, k] / pi[k] for k in range(4)).item() for i in range(3)]
    similarity = (head(u, u).z * head(other, other).z).sum(1)
    assert similarity.tolist() == pytest.approx(expected, rel=1e-5)
    assert torch.equal(head.ungated(u), head(u, u).z)
    head.after_step([embedding(head(u, u).z)], 0.5)
    assert torch.equal(head.frequencies, pi)


def test_running_frequencies_start_at_one_then_average_then_forget():
    head = InverseFrequency(NonNegative("relu"), 3, momentum=0.75)
    u = draw(0, 4, 3)
    assert torch.equal(head(u, u).z, F.relu(u))
    shares, expected = [], None
    for step in range(12):
        micro = [draw(100 * step + i, 5 + i, 3) for i in range(2)]
        head.after_step([embedding(head(u, u).z) for u in micro], step / 12)
        share = (torch.cat(micro) > 0).float().mean(0)
        shares.append(share)
        expected = torch.stack(shares).mean(0) if step < 4 else 0.75 * expected + 0.25 * share
        torch.testing.assert_close(head.frequencies, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(head(u, u).z, F.relu(u) / expected.sqrt())


def test_rare_dimensions_do_not_explode():
    head = InverseFrequency(NonNegative("relu"), 2, momentum=0.5)
    for _ in range(30):
        head.after_step([embedding(torch.tensor([[1.0, 0.0]]))], 0.0)
    z = head(torch.ones(1, 2), torch.ones(1, 2)).z
    assert z[0].tolist() == pytest.approx([1.0, 1000**0.5], rel=1e-5)


def test_running_frequencies_come_back_from_a_checkpoint_and_an_empty_step_moves_nothing():
    head = InverseFrequency(NonNegative(), 3)
    head.after_step([embedding(draw(0, 4, 3).clamp(min=0))], 0.0)
    again = InverseFrequency(NonNegative(), 3)
    again.load_state_dict(head.state_dict())
    head.after_step([], 0.0)
    for each in (head, again):
        each.after_step([embedding(draw(1, 4, 3).clamp(min=0))], 0.1)
    assert torch.equal(head.frequencies, again.frequencies)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dimensions": 0}, "dimensions must be at least 1"),
        ({"momentum": 1.0}, "momentum must be at least 0 and below 1"),
        ({"momentum": -0.1}, "momentum must be at least 0 and below 1"),
        ({"frequencies": torch.ones(4)}, r"each of the 3 dimensions, got shape \(4,\)"),
        ({"frequencies": torch.tensor([0.5, 0.0, 1.0])}, "above 0 and at most 1"),
        ({"frequencies": torch.tensor([0.5, 0.1, 1.5])}, "above 0 and at most 1"),
        ({"frequencies": torch.tensor([0.5, 0.1, float("nan")])}, "above 0 and at most 1"),
    ],
)
def test_impossible_frequencies_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        InverseFrequency(NonNegative(), **{"dimensions": 3, **arguments})


class Recorder(Head):
    """An inner head that has something to say in every place that a wrapper must pass on."""

    def __init__(self):
        super().__init__()
        self.steps = []

    def forward(self, u, h):
        return HeadOutput(u, {"own": u.sum()}, u.sigmoid())

    def ungated(self, u):
        return u + 5

    def after_step(self, embeddings, progress):
        self.steps.append((len(embeddings), progress))


@pytest.mark.parametrize("wrap", [lambda r: TopK(4, r), lambda r: InverseFrequency(r, 4)])
def test_wrappers_pass_on_terms_gates_and_steps(wrap):
    inner = Recorder()
    head, u = wrap(inner), draw(0, 3, 4)
    _, terms, gate = head(u, u)
    assert terms["own"] == u.sum()
    assert torch.equal(gate, u.sigmoid())
    assert torch.equal(head.ungated(u), u + 5)
    head.after_step([embedding(u)], 0.25)
    assert inner.steps == [(1, 0.25)]
