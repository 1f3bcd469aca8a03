"""Recipes: overlays, overrides, and errors before any data is read."""

import itertools
import json

import pytest

from pellucid import recipe as recipes
from pellucid.recipe import compose, names, overlay, parse_override, resolve
from pellucid.settings import RecipeError

METHODS, DATA, SIZES = names("methods"), names("data"), names("sizes")


@pytest.mark.parametrize(("method", "data", "size"), list(itertools.product(METHODS, DATA, SIZES)))
def test_every_shipped_recipe_composes_and_reads_back(method, data, size):
    recipe = compose(method, data, size)
    assert recipe.method == method
    assert recipe.data.source == data
    assert resolve(json.loads(json.dumps(recipe.as_tree()))) == recipe


def test_the_defaults_are_the_authors_settings_for_cifar():
    recipe = compose("bayesncl", "cifar100")
    assert (recipe.encoder.name, recipe.encoder.stem_padding) == ("resnet18", 2)
    assert (recipe.projector.hidden, recipe.projector.dimensions) == (2048, 256)
    assert (recipe.train.batch, recipe.train.epochs, recipe.train.warmup_epochs) == (256, 200, 10)
    assert (recipe.lr, recipe.weight_decay, recipe.optimiser.name) == (0.4, 1e-4, "lars")
    assert recipe.optimiser.settings == {"momentum": 0.9, "trust": 0.02}
    assert recipe.framework.settings == {"temperature": 0.2}
    assert recipe.head.settings["prior"] == 0.8
    assert recipe.weights == {"contrast": 1.0, "gate_kl": 3e-5}
    assert recipe.lr_of == {"framework.online.head.gate": 0.1}
    views = recipe.views
    assert (views.crop, views.brightness, views.contrast, views.saturation, views.hue) == (
        (0.08, 1.0), 0.8, 0.8, 0.8, 0.2,
    )  # fmt: skip
    assert (views.jitter, views.grey, views.blur, views.flip) == (0.8, 0.2, 0.5, 0.5)


def test_imagenet100_is_the_authors_other_column():
    recipe = compose("bayesncl", "imagenet100")
    assert (recipe.projector.hidden, recipe.projector.dimensions) == (16384, 2048)
    assert (recipe.train.batch, recipe.train.epochs, recipe.lr) == (128, 100, 0.3)
    assert (recipe.head.settings["activation"], recipe.head.settings["layer_norm"]) == (
        "relu",
        True,
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bayesnlc", "scenes"), r"method 'bayesnlc'\. Did you mean bayesncl.*Valid: .*ncl-topk"),
        (("ncl", "cifar1O"), r"unknown data set or path 'cifar1O'\. Did you mean cifar10"),
        (("ncl", "scenes", "smal"), r"unknown size 'smal'\. Did you mean small\?"),
        (("ncl", "scenes", "paper", ["tran.epochs=1"]), r"unknown key 'tran'\. Did you mean train"),
        (("ncl", "scenes", "paper", ["train.epoch=1"]), r"epoch'\. Did you mean train\.epochs"),
        (("ncl", "scenes", "paper", ["head.prior=0.3"]), r"key 'head\.prior'.*head\.activation"),
        (("ncl", "scenes", "paper", ["head.name=signd"]), r"'signd'\. Did you mean signed"),
        (("ncl", "scenes", "paper", ["train.epochs=many"]), r"train\.epochs takes a whole number"),
        (("ncl", "scenes", "paper", ["train.batch=1"]), r"train: batch must be at least 2"),
        (("ncl", "scenes", "paper", ["train.accumulate=3"]), r"accumulate=3 does not divide batch"),
        (("ncl", "scenes", "paper", ["train.epochs=0"]), r"train: epochs must be at least 1"),
        (("ncl", "scenes", "paper", ["train.warmup_epochs=201"]), r"warmup_epochs must lie"),
        (("ncl", "scenes", "paper", ["views.flip=2"]), r"views: flip"),
        (("ncl", "scenes", "paper", ["weights.contrast=high"]), r"weights\.contrast takes a"),
        (("ncl", "scenes", "paper", ["lr=fast"]), r"lr takes a number, got 'fast'"),
        (("ncl", "scenes", "paper", ["train=3"]), r"train is a section: set train\.NAME=VALUE"),
        (("ncl", "scenes", "paper", ["weights=3"]), r"weights is a section"),
        (("ncl", "scenes", "paper", ["head=signed"]), r"head is a section: set head\.NAME=VALUE"),
        (("ncl", "scenes", "paper", ["epochs"]), r"'epochs' is no setting; write section"),
        (("ncl", "scenes", "paper", ["=3"]), r"'=3' is no setting"),
        (("ncl", "scenes", "paper", ["train..epochs=3"]), r"unknown key 'train\.'"),
        (("ncl", "scenes", "paper", ["lr.head=3"]), r"lr takes a number"),
        (("ncl", "scenes", "paper", ["regularisers=3"]), r"regularisers is a section"),
        (("ncl", "scenes", "paper", ["regularisers.entropi.shrinkage=1"]),
         r"unknown regulariser 'entropi'\. Did you mean entropy"),
        (("ncl", "scenes", "paper", ["regularisers.entropy.shrinkage=0.2"]),
         r"regularisers\.entropy is set, and entropy is off: set weights\.entropy=NUMBER too"),
        (("ie-simclr", "scenes", "paper", ["regularisers.entropy=nearest"]),
         r"regularisers\.entropy is a section: set regularisers\.entropy\.KEY=VALUE"),
        (("ncl", "scenes", "paper", ["regularisers.entropy=0"]), r"entropy is a section"),
        (("ie-simclr", "scenes", "paper", ["regularisers.entropy.estimator=nearst"]),
         r"value of regularisers\.entropy\.estimator 'nearst'\. Did you mean nearest"),
        (("ie-simclr", "scenes", "paper", ["regularisers.query_kl.estimator=nearest"]),
         r"'regularisers\.query_kl\.estimator'.*Valid: regularisers\.query_kl\.shrinkage"),
    ],
)  # fmt: skip
def test_what_cannot_be_stops_with_the_near_and_the_valid_names(arguments, words):
    with pytest.raises(RecipeError, match=words):
        compose(*arguments)


def test_a_path_is_data_too(tmp_path):
    assert compose("ncl", str(tmp_path)).data.source == str(tmp_path)


def test_later_overlays_win(monkeypatch):
    layers = {
        "methods": {
            "lr": 1.0,
            "train": {"epochs": 20, "batch": 8},
            "head": {"name": "top-k", "k": 5},
        },
        "data": {
            "train": {"epochs": 30, "batch": 16, "seed": 1},
            "for": {"ncl": {"train": {"seed": 2}}, "simclr": {"lr": 9.0}},
        },
        "sizes": {"train": {"batch": 32}, "for": {"ncl": {"head": {"k": 6}}}},
    }
    monkeypatch.setattr(recipes, "read_overlay", lambda kind, name: dict(layers[kind]))
    recipe = compose("ncl", "scenes", "small", ["train.log_every=3", "head.k=7", "head.k=8"])
    assert (recipe.lr, recipe.train.epochs, recipe.train.batch) == (1.0, 30, 32)
    assert (recipe.train.seed, recipe.train.log_every) == (2, 3)
    assert recipe.head.settings["k"] == 8
    assert compose("simclr", "scenes", "small").head.settings["k"] == 5
    assert compose("simclr", "scenes", "small").lr == 9.0


def test_a_table_for_a_method_that_is_none_is_refused(monkeypatch):
    monkeypatch.setattr(recipes, "read_overlay", lambda kind, name: {"for": {"nlc": {}}})
    with pytest.raises(RecipeError, match=r"unknown method in \[for\.…\] 'nlc'\. Did you mean ncl"):
        compose("ncl", "scenes")


def test_another_name_drops_the_old_settings_and_the_same_name_keeps_them():
    base = {"head": {"name": "top-k", "k": 5}, "lr": 1}
    assert overlay(base, {"head": {"name": "signed"}}) == {"head": {"name": "signed"}, "lr": 1}
    assert overlay(base, {"head": {"name": "top-k", "activation": "relu"}})["head"] == {
        "name": "top-k", "k": 5, "activation": "relu",
    }  # fmt: skip
    assert overlay(base, {"head": {"k": 6}})["head"] == {"name": "top-k", "k": 6}
    assert base == {"head": {"name": "top-k", "k": 5}, "lr": 1}


def test_another_head_from_the_command_line_starts_from_its_own_defaults():
    recipe = compose("bayesncl", "scenes", "paper", ["head.name=top-k", "head.k=4"])
    assert (recipe.head.name, recipe.head.settings["k"]) == ("top-k", 4)
    assert "prior" not in recipe.head.settings


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("lr=0.3", {"lr": 0.3}),
        ("head.prior=0.3", {"head": {"prior": 0.3}}),
        ("data.root=/a=b", {"data": {"root": "/a=b"}}),
        ("weights.gate_kl=1e-4", {"weights": {"gate_kl": 1e-4}}),
        ("lr_of.framework.online.head.gate=0.1", {"lr_of": {"framework.online.head.gate": 0.1}}),
        ("views.crop=[0.3, 1]", {"views": {"crop": [0.3, 1]}}),
        ("a.b.c=1", {"a": {"b": {"c": 1}}}),
    ],
)
def test_overrides(text, tree):
    assert parse_override(text) == tree


def test_rates_of_parts_add_up_over_overlays():
    recipe = compose("bayesncl", "scenes", "paper", ["lr_of.framework.online.encoder=0.2"])
    assert recipe.lr_of == {"framework.online.head.gate": 0.1, "framework.online.encoder": 0.2}


def test_a_recipe_without_a_method_is_custom():
    assert resolve({"head": {"name": "signed"}}).method == "custom"


def test_a_regulariser_is_on_exactly_when_its_term_has_a_weight():
    plain = compose("simclr", "scenes")
    assert plain.regularisers == {}
    recipe = compose("simclr", "scenes", "paper", ["weights.entropy=0.01", "weights.spectral=0"])
    assert recipe.weights == {"contrast": 1.0, "entropy": 0.01, "spectral": 0.0}
    assert recipe.regularisers == {
        "entropy": {"estimator": "gaussian", "shrinkage": 0.1},
        "spectral": {"folded": True},
    }


@pytest.mark.parametrize("method", [name for name in METHODS if name.startswith("ie-")])
def test_a_weight_of_none_switches_a_regulariser_off(method):
    terms = {"entropy", "query_kl", "spectral", "transform_decay"}
    assert compose(method, "scenes").regularisers.keys() == terms
    recipe = compose(method, "scenes", "paper", ["weights.entropy=none", "weights.spectral=none"])
    assert (
        recipe.regularisers.keys()
        == {"query_kl", "transform_decay"}
        == recipe.weights.keys() & terms
    )
    assert resolve(json.loads(json.dumps(recipe.as_tree()))) == recipe


def test_settings_of_a_regulariser_stand_in_a_table_of_its_name():
    settings = ["regularisers.entropy.estimator=nearest", "regularisers.spectral.folded=false"]
    recipe = compose("ie-simclr", "scenes", "paper", settings)
    assert recipe.regularisers["entropy"] == {"estimator": "nearest", "shrinkage": 0.1}
    assert recipe.regularisers["spectral"] == {"folded": False}
    assert resolve(json.loads(json.dumps(recipe.as_tree()))) == recipe
