"""Entropy, query KL and transform decay by hand, and every regulariser in a loop of one's own."""

import inspect
from typing import Literal, get_origin

import pytest
import torch
from torch import nn

from pellucid.losses import gaussian_entropy, gaussian_kl, nearest_neighbour_entropy
from pellucid.query_transforms import Saib, Unchanged
from pellucid.regularisers import REGULARISERS, Entropy, QueryKL, TransformDecay
from pellucid.types import Embedding, Step


def draw(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def embedding(seed, u=None):
    """Every stage has other numbers, so that reading a wrong one shows."""
    u = draw(seed, 9, 6) if u is None else u
    return Embedding(h=draw(seed + 10, 9, 6), u=u, z=draw(seed + 20, 9, 6), gate=None, terms={})


def hand_made(query=None, anchor=None):
    return Step({}, query=embedding(0, query), key=embedding(1), anchor=embedding(2, anchor))


def test_entropy_is_minus_that_of_the_querys_projections():
    step = hand_made()
    assert Entropy()(step).keys() == {"entropy"}
    assert torch.equal(Entropy()(step)["entropy"], -gaussian_entropy(step.query.u))
    assert torch.equal(
        Entropy("gaussian", 0.4)(step)["entropy"], -gaussian_entropy(step.query.u, 0.4)
    )
    nearest = -nearest_neighbour_entropy(step.query.u)
    assert torch.equal(Entropy("nearest")(step)["entropy"], nearest)


def test_query_kl_is_that_of_the_querys_projections_from_the_anchors():
    step = hand_made(anchor=draw(3, 9, 6).requires_grad_())
    assert QueryKL()(step).keys() == {"query_kl"}
    assert torch.equal(QueryKL()(step)["query_kl"], gaussian_kl(step.query.u, step.anchor.u))
    shrunk = gaussian_kl(step.query.u, step.anchor.u, 0.4)
    assert torch.equal(QueryKL(0.4)(step)["query_kl"], shrunk)
    assert not QueryKL()(step)["query_kl"].requires_grad  # the anchor is taken as given


def test_transform_decay_is_the_sum_of_squares_of_all_parameters():
    transform = nn.Sequential(nn.Conv2d(3, 2, 1), nn.PReLU(), nn.BatchNorm2d(2, affine=False))
    expected = sum(v**2 for p in transform.parameters() for v in p.flatten().tolist())
    terms = TransformDecay(transform)(hand_made())
    assert terms.keys() == {"transform_decay"}
    assert terms["transform_decay"].item() == pytest.approx(expected, rel=1e-5)
    terms["transform_decay"].backward()
    assert all(torch.allclose(p.grad, 2 * p) for p in transform.parameters())


def test_transform_decay_owns_no_parameter_and_refuses_a_transform_without():
    decay = TransformDecay(Saib(2, 1, 2))
    assert not list(decay.parameters())
    assert not decay.state_dict()
    with pytest.raises(
        ValueError, match=r"query_transform\.name=saib, or weights\.transform_decay"
    ):
        TransformDecay(Unchanged())


@pytest.mark.parametrize("kind", [Entropy, QueryKL])
@pytest.mark.parametrize("shrinkage", [0.0, 1.5])
def test_a_shrinkage_outside_0_to_1_is_refused(kind, shrinkage):
    with pytest.raises(ValueError, match=f"above 0 and at most 1, got {shrinkage}"):
        kind(shrinkage=shrinkage)


def test_an_unknown_estimator_is_refused_with_the_valid_ones():
    # Unwrapped, because the type checks that tests switch on would refuse the name first.
    construct = inspect.unwrap(Entropy.__init__)
    with pytest.raises(ValueError, match="gaussian or nearest, got 'knn'"):
        construct(Entropy.__new__(Entropy), "knn")


@pytest.mark.parametrize("name", REGULARISERS)
def test_every_setting_has_a_default_of_its_plain_type_and_a_description(name):
    parameters = inspect.signature(REGULARISERS[name]).parameters
    assert list(parameters)[:2] == ["encoder", "transform"]
    for setting in list(parameters.values())[2:]:
        assert setting.kind is inspect.Parameter.KEYWORD_ONLY
        assert f"{setting.name}: " in REGULARISERS[name].__doc__
        if get_origin(setting.annotation) is not Literal:
            assert type(setting.default) is setting.annotation


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("entropy", {}),
        ("entropy", {"estimator": "nearest"}),
        ("query_kl", {}),
        ("spectral", {}),
        ("spectral", {"folded": False}),
        ("transform_decay", {}),
    ],
)
def test_a_plain_loop_of_ones_own_brings_the_term_down(name, settings):
    torch.manual_seed(0)
    encoder = nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(180, 6)
    )
    transform = Saib(patch=2, expansion=1, grid=4)
    regulariser = REGULARISERS[name](encoder, transform, **settings)
    modules = nn.ModuleList([encoder, transform, regulariser])
    optimiser = torch.optim.Adam(modules.parameters(), lr=3e-3)
    images, anchor = draw(0, 9, 3, 8, 8), draw(1, 9, 6)
    values = []
    for progress in range(8):
        step = hand_made(query=encoder(transform(images)[0]), anchor=anchor)
        terms = regulariser(step)
        assert terms.keys() == {name}
        assert terms[name].shape == ()
        optimiser.zero_grad()
        terms[name].backward()
        optimiser.step()
        regulariser.after_step([step], progress / 8)
        values.append(terms[name].item())
    assert values[-1] < values[0] - 0.01 * abs(values[0])
