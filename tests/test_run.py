"""A run directory: made, taken up, refused, opened."""

import json

import pytest
import torch

from pellucid.build import build_learner, build_optimiser
from pellucid.recipe import compose
from pellucid.run import RunError, load, open_run, start_run
from pellucid.train import checkpoint

TINY = [
    "data.stored_size=8", "views.size=8", "projector.hidden=16", "projector.dimensions=8",
    "train.batch=8", "train.warmup_epochs=0",
]  # fmt: skip


def tiny(*settings, method="ncl"):
    return compose(method, "scenes", "small", [*TINY, *settings])


def saved(folder, recipe, step=3):
    """A run with a checkpoint of another seed's weights, so that loading them shows."""
    run = start_run(folder, recipe)
    torch.manual_seed(0)
    learner = build_learner(recipe)
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    checkpoint.save(folder, step, learner, build_optimiser(recipe, learner), {})
    return run, learner.framework.online


def test_a_new_run_holds_its_resolved_recipe(tmp_path):
    recipe = tiny()
    run = start_run(tmp_path / "a" / "b", recipe)
    assert run.name == "b"
    assert json.loads((run.folder / "recipe.json").read_text()) == json.loads(
        json.dumps(recipe.as_tree())
    )
    assert open_run(run.folder).recipe == recipe
    assert start_run(run.folder, recipe).recipe == recipe


def test_an_empty_folder_is_taken_and_a_full_one_is_not(tmp_path):
    start_run(tmp_path, tiny())
    (tmp_path / "recipe.json").unlink()
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(RunError, match=r"is not empty and holds no recipe\.json"):
        start_run(tmp_path, tiny())
    with pytest.raises(RunError, match="is a file; --out takes a new"):
        start_run(tmp_path / "thesis.tex", tiny())


def test_another_recipe_is_refused_with_what_differs(tmp_path):
    start_run(tmp_path, tiny("lr=0.4"))
    with pytest.raises(RunError) as caught:
        start_run(tmp_path, tiny("lr=0.5", "head.activation=relu"))
    words = str(caught.value)
    assert "lr: 0.4 there, 0.5 asked" in words
    assert "head.activation: rep-relu there, relu asked" in words
    assert "train" not in words.replace("pellucid pretrain", "")


def test_auto_precision_is_what_was_resolved_at_the_first_start(tmp_path):
    start_run(tmp_path, tiny("train.precision=bf16"))
    assert start_run(tmp_path, tiny()).recipe.train.precision == "bf16"
    with pytest.raises(RunError, match=r"train\.precision: bf16 there, fp32 asked"):
        start_run(tmp_path, tiny("train.precision=fp32"))


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"is no run directory: it holds no recipe\.json"):
        open_run(tmp_path)
    with pytest.raises(RunError, match="is no run directory"):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "text", ['{"method": "ncl"', '{"metod": "ncl"}', '{"head": {"name": "new"}}']
)
def test_a_recipe_that_cannot_be_read_is_named(tmp_path, text):
    (tmp_path / "recipe.json").write_text(text)
    with pytest.raises(RunError, match=r"recipe\.json cannot be read: "):
        open_run(tmp_path)


def test_a_run_without_a_checkpoint_says_what_to_run(tmp_path):
    run = start_run(tmp_path, tiny())
    with pytest.raises(RunError, match=r"no checkpoint yet: run `pellucid pretrain`"):
        run.trained_branch()


@pytest.mark.parametrize("method", ["ncl", "bayesncl", "ncl-ipw"])
def test_what_was_trained_is_what_is_loaded(tmp_path, method):
    run, online = saved(
        tmp_path, tiny("head.hidden=8" if method == "bayesncl" else "lr=1", method=method)
    )
    branch, step = run.trained_branch()
    assert step == 3
    assert not any(module.training for module in branch.modules())
    for name, value in online.state_dict().items():
        assert torch.equal(branch.state_dict()[name], value), name

    loaded, preprocess = load(tmp_path)
    pixels = torch.randint(0, 256, (3, 3, 8, 8), dtype=torch.uint8)
    with torch.no_grad():
        torch.testing.assert_close(
            loaded(preprocess(pixels)).z, online.eval()(preprocess(pixels)).z
        )


def test_preprocessing_is_the_recipes(tmp_path):
    recipe = tiny("data.mean=[0.1, 0.2, 0.3]", "data.std=[0.5, 0.6, 0.7]")
    run = start_run(tmp_path, recipe)
    pixels = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    ready = run.preprocess(pixels)
    for channel, (mean, std) in enumerate(zip((0.1, 0.2, 0.3), (0.5, 0.6, 0.7), strict=True)):
        torch.testing.assert_close(ready[:, channel], (pixels[:, channel] / 255 - mean) / std)
    assert run.preprocess(torch.zeros(1, 3, 20, 30, dtype=torch.uint8)).shape == (1, 3, 8, 8)


def test_the_untrained_branch_is_a_function_of_the_seed(tmp_path):
    run = start_run(tmp_path / "a", tiny())
    torch.manual_seed(1)
    first = run.untrained_branch()
    torch.manual_seed(2)
    second = run.untrained_branch()
    other = start_run(tmp_path / "b", tiny("train.seed=1")).untrained_branch()
    assert not first.training
    for name, value in first.state_dict().items():
        assert torch.equal(second.state_dict()[name], value), name
    assert not torch.equal(first.encoder.conv1.weight, other.encoder.conv1.weight)
