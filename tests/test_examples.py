"""The example scripts do what they say, on little data."""

import importlib.util
import math
from pathlib import Path

import pytest

from pellucid.pretraining import pretrain
from pellucid.recipe import compose

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def script(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_each_fits_on_one_screen(path):
    assert len(path.read_text("utf-8").splitlines()) <= 60


def test_compose_trains(capsys):
    assert math.isfinite(script("compose").main(steps=2))
    said = capsys.readouterr().out
    assert "step 0: loss" in said
    assert "step 1: loss" in said
    assert "gates open" in said


@pytest.mark.parametrize("name", ["saib_in_your_loop", "saib_on_lightly"])
def test_saib_and_the_regularisers_train_outside_of_a_learner(name, capsys):
    assert math.isfinite(script(name).main(steps=2))
    said = capsys.readouterr().out
    assert "step 0: loss" in said
    assert "step 1: loss" in said


def test_your_own_head_becomes_sparser():
    module = script("your_own_head")
    try:
        first, last = module.main()
    finally:
        module.HEADS.pop("shrunk", None)
    assert 0 < last < first


def test_read_a_representation_names_images(tmp_path, capsys, monkeypatch):
    settings = [
        "data.stored_size=8", "views.size=8", "projector.hidden=16", "projector.dimensions=8",
        "data.limit=16", "train.batch=8", "train.epochs=1", "train.warmup_epochs=0",
    ]  # fmt: skip
    recipe = compose("ncl", "scenes", "small", settings)
    pretrain(recipe, tmp_path / "run", device="cpu", say=lambda _: None)
    strongest = script("read_a_representation").main(tmp_path / "run", dimensions=3)
    said = capsys.readouterr().out
    assert len(set(strongest)) == 3
    for dimension in strongest:
        assert f"dimension {dimension}, active on" in said
    assert "test/" in said
    assert "consistency with the labels" in said
