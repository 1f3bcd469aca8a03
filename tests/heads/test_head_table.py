import inspect
from typing import Literal, get_args, get_origin

import pytest
import torch
from torch import nn

from pellucid.heads import HEADS, BayesGate, Head


def draw(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", HEADS)
def test_every_head_is_built_by_its_defaults_and_keeps_the_shapes(name):
    head = HEADS[name](6, 40)
    assert isinstance(head, Head)
    u, h = draw(0, 5, 40), draw(1, 5, 6)
    z, terms, gate = head(u, h)
    assert z.shape == (5, 40)
    assert all(term.shape == () for term in terms.values())
    assert (gate is not None) == ("gate_kl" in terms)
    assert name == "signed" or (z >= 0).all()
    if gate is None:
        assert torch.equal(head.ungated(u), z)
    before = {key: value.clone() for key, value in head.state_dict().items()}
    head.eval()
    assert torch.equal(head(u, h).z, head(u, h).z)
    assert all(torch.equal(before[key], value) for key, value in head.state_dict().items())


@pytest.mark.parametrize("name", HEADS)
def test_every_setting_has_a_default_of_its_plain_type_and_a_description(name):
    parameters = inspect.signature(HEADS[name]).parameters
    assert list(parameters)[:2] == ["features", "dimensions"]
    for setting in list(parameters.values())[2:]:
        assert setting.kind is inspect.Parameter.KEYWORD_ONLY
        assert f"{setting.name}: " in HEADS[name].__doc__
        if get_origin(setting.annotation) is Literal:
            assert setting.default in get_args(setting.annotation)
        else:
            assert setting.annotation in (int, float, bool, str)
            assert type(setting.default) is setting.annotation


def widths(**settings):
    head = HEADS["bayes-gate"](512, 256, **settings)
    assert isinstance(head, BayesGate)
    return [
        (layer.in_features, layer.out_features)
        for layer in head.gate.modules()
        if isinstance(layer, nn.Linear)
    ]


def test_the_gate_has_the_published_layers():
    assert widths() == [(512, 2048), (2048, 256)]
    assert widths(layers=1) == [(512, 256)]
    assert widths(layers=3) == [(512, 2048), (2048, 1024), (1024, 256)]
    assert widths(layers=3, hidden=10) == [(512, 10), (10, 5), (5, 256)]


def test_settings_reach_the_head():
    head = HEADS["bayes-gate"](
        4,
        3,
        activation="relu",
        layer_norm=True,
        prior=0.3,
        variant="gumbel",
        isolation="none",
        temperature=2.0,
        threshold=0.4,
    )
    assert (head.prior, head.variant, head.isolation) == (0.3, "gumbel", "none")
    assert (head.temperature, head.threshold) == (2.0, 0.4)
    assert (head.inner.activation, head.inner.layer_norm) == ("relu", True)
    assert HEADS["top-k"](4, 9, k=7).k == 7
    assert HEADS["inverse-frequency"](4, 9, momentum=0.5).momentum == 0.5
    assert HEADS["non-negative"](4, 9, activation="softplus").activation == "softplus"


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("top-k", {"k": 17}, "k must be at most the 16 dimensions of z, got 17"),
        ("top-k", {"k": 0}, "k must be at least 1"),
        ("bayes-gate", {"layers": 4}, "layers must be 1, 2 or 3, got 4"),
        ("bayes-gate", {"layers": 0}, "layers must be 1, 2 or 3, got 0"),
        ("bayes-gate", {"hidden": -1}, "hidden must be a width"),
        ("bayes-gate", {"prior": 0.0}, "prior must be strictly between"),
    ],
)
def test_impossible_settings_are_refused(name, settings, message):
    with pytest.raises(ValueError, match=message):
        HEADS[name](8, 16, **settings)
