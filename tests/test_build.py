"""Names become objects, and parts that do not fit are refused."""

import pytest
import torch

from pellucid.build import build_learner, build_optimiser, source_settings
from pellucid.data.image_set import open_images
from pellucid.losses import nearest_neighbour_entropy
from pellucid.recipe import compose
from pellucid.regularisers import Entropy, QueryKL, Spectral, TransformDecay
from pellucid.settings import RecipeError

TINY = ["views.size=8", "projector.hidden=16", "projector.dimensions=8", "head.hidden=16"]


def tiny(*settings):
    return compose("bayesncl", "scenes", "small", [*TINY, *settings])


def test_a_learner_is_what_its_recipe_says_and_untouched_by_the_dry_run():
    learner = build_learner(tiny("head.prior=0.3", "framework.temperature=0.5"))
    assert learner.training
    assert learner.framework.temperature == 0.5
    assert learner.framework.online.head.prior == 0.3
    assert learner.framework.online.encoder.bn1.num_batches_tracked.item() == 0
    assert bool((learner.framework.online.encoder.bn1.running_mean == 0).all())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["weights.entropi=1"], r"weights\.entropi is set, and nothing computes entropi"),
        (["encoder.name=resnet18-thn"], r"unknown encoder .*near names: resnet18-thin"),
        (["head.layers=4"], r"layers must be 1, 2 or 3, got 4"),
        (["framework.temperature=0"], "temperature must be positive"),
        (["head.name=top-k", "head.k=9"], "k must be at most the 8 dimensions"),
        (
            ["weights.transform_decay=1"],
            r"query transform with parameters; set query_transform\.name",
        ),
        (["weights.entropy=1", "regularisers.entropy.shrinkage=0"], "shrinkage must be above 0"),
        (["query_transform.name=saib", "query_transform.patch=3"], "to one of 1, 2, 4, 8"),
    ],
)
def test_what_cannot_be_built_is_a_recipe_error(settings, words):
    recipe = compose("bayesncl", "scenes", "small", [t for t in TINY if "head" not in t] + settings)
    with pytest.raises(RecipeError, match=words):
        build_learner(recipe)


FOUR = ["query_transform.name=saib"] + [
    f"weights.{name}=0.1" for name in ("entropy", "query_kl", "spectral", "transform_decay")
]


def test_regularisers_are_what_their_tables_say_of_the_learners_own_parts():
    settings = ["regularisers.entropy.estimator=nearest", "regularisers.query_kl.shrinkage=0.3"]
    learner = build_learner(tiny(*FOUR, *settings, "regularisers.spectral.folded=false"))
    entropy, kl, spectral, decay = learner.regularisers
    assert isinstance(entropy, Entropy)
    assert entropy.estimator is nearest_neighbour_entropy
    assert isinstance(kl, QueryKL)
    assert kl.shrinkage == 0.3
    assert isinstance(spectral, Spectral)
    assert not spectral.folded
    assert spectral.held[0] is learner.framework.online.encoder
    assert isinstance(decay, TransformDecay)
    assert decay.held[0] is learner.query_transform


def test_a_transform_and_regularisers_leave_the_first_weights_of_the_branch_as_they_were():
    plain = build_learner(tiny()).framework.state_dict()
    recipe = tiny(*FOUR)
    for name, value in build_learner(recipe).framework.state_dict().items():
        assert torch.equal(value, plain[name])
    first, again = build_learner(recipe).state_dict(), build_learner(recipe).state_dict()
    assert all(torch.equal(first[name], value) for name, value in again.items())


def test_every_trained_parameter_is_in_one_group_and_no_regularisers():
    recipe = tiny(*FOUR)
    learner = build_learner(recipe)
    groups = build_optimiser(recipe, learner).param_groups
    names = [name for group in groups for name in group["names"]]
    assert sorted(names) == sorted(name for name, _ in learner.named_parameters())
    assert not [name for name in names if name.startswith("regularisers")]
    assert any(name.startswith("query_transform") for name in names)


def test_the_rate_grows_with_the_batch_and_those_of_parts_do_not():
    recipe = tiny("train.batch=64", "lr=0.4")
    groups = build_optimiser(recipe, build_learner(recipe)).param_groups
    assert {round(g["peak_lr"], 9) for g in groups} == {0.1}
    gate = {g["peak_lr"] for g in groups if any("head.gate" in name for name in g["names"])}
    assert gate == {0.1}
    recipe = tiny("train.batch=512", "lr=0.4")
    groups = build_optimiser(recipe, build_learner(recipe)).param_groups
    rates = {name: g["peak_lr"] for g in groups for name in g["names"]}
    assert rates["framework.online.head.gate.0.weight"] == 0.1
    assert rates["framework.online.projector.0.weight"] == 0.8


def test_a_rate_of_no_part_is_a_recipe_error():
    recipe = tiny("lr_of.framework.online.heads=0.1")
    with pytest.raises(RecipeError, match=r"lr_of\.framework\.online\.heads matches no parameter"):
        build_optimiser(recipe, build_learner(recipe))


def test_source_settings_are_what_images_are_opened_with():
    recipe = tiny("data.stored_size=8", "data.seed=3")
    images = open_images(split="train", limit=4, **source_settings(recipe))
    assert images.pixels.shape == (4, 3, 8, 8)
    other = open_images(split="train", limit=4, **source_settings(tiny("data.stored_size=8")))
    assert not torch.equal(images.pixels, other.pixels)
