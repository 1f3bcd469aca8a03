import dataclasses
import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pellucid.build import build_learner, build_optimiser
from pellucid.evaluate.evaluation import evaluate, evaluation_precision
from pellucid.evaluate.knn import knn_accuracy
from pellucid.evaluate.store import read_features, read_thumbnails
from pellucid.metrics import density, monosemanticity
from pellucid.recipe import Recipe, resolve
from pellucid.run import Run, RunError, start_run
from pellucid.train import checkpoint

SIDE, EACH = 12, 24


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write_images(folder: Path, count: int, mean: float, seed: int) -> None:
    folder.mkdir(parents=True)
    generator = np.random.default_rng(seed)
    for index in range(count):
        pixels = generator.normal(mean, 40, (SIDE, SIDE, 3)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{index:03d}.png")


def folder_of_images(root: Path, *, classes: bool = True, splits: bool = True) -> Path:
    for split in ("train", "test") if splits else ("",):
        for number, name in enumerate(("dark", "mid", "light") if classes else ("",)):
            write_images(root / split / name, EACH, 60 + 60 * number, 10 * number + len(split))
    return root


def recipe_of(source: Path | str, method: str = "bayesncl", **data: object) -> Recipe:
    heads = {
        "simclr": {"name": "signed"},
        "bayesncl": {"name": "bayes-gate", "activation": "rep-relu", "prior": 0.3, "layers": 1},
    }
    weights = {"contrast": 1.0} | ({"gate_kl": 1e-3} if method == "bayesncl" else {})
    return resolve(
        {
            "method": method,
            "data": {"source": str(source), **data},
            "encoder": {"name": "resnet18-thin"},
            "projector": {"hidden": 16, "dimensions": 40},
            "views": {"size": SIDE},
            "head": heads[method],
            "weights": weights,
            "train": {"batch": 16, "epochs": 2, "warmup_epochs": 0, "precision": "fp32"},
            "evaluation": {"min_support": 3},
        }
    )


def trained_run(folder: Path, recipe: Recipe, step: int = 8) -> Run:
    """A run directory whose last checkpoint differs from its beginning."""
    run = start_run(folder, recipe)
    learner = build_learner(recipe)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=generator)
        for _ in range(20):  # batch norm of images like those of the set
            learner.framework.online(torch.randn(16, 3, SIDE, SIDE, generator=generator))
    checkpoint.save(folder, step, learner, build_optimiser(recipe, learner), {})
    return run


def quiet(_: str) -> None:
    pass


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        found.update(path.read_bytes())
    return found.hexdigest()


def test_a_whole_evaluation(tmp_path: Path) -> None:
    recipe = recipe_of(folder_of_images(tmp_path / "images"))
    run = trained_run(tmp_path / "run", recipe)
    timing = '{"step": 8, "seconds": 4.0, "images_per_second": 32.0}\n'
    (run.folder / "timing.jsonl").write_text(timing)
    before, said = digest(run.folder / "checkpoint"), []
    scores = evaluate(run, device="cpu", say=said.append)

    # scores.json is the result, in strict JSON.
    text = (run.folder / "scores.json").read_text("utf-8")

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    assert json.loads(text, parse_constant=refuse) == json.loads(json.dumps(scores))
    assert digest(run.folder / "checkpoint") == before
    assert said == ["run: scoring 72 images after step 8"]

    # The stored features are those of the trained branch in eval mode, of the test images.
    stored = read_features(run)
    branch, _ = run.trained_branch()
    first = Image.open(tmp_path / "images" / "test" / stored.names[0].removeprefix("test/"))
    pixels = torch.from_numpy(np.asarray(first).copy()).permute(2, 0, 1)
    assert torch.equal(read_thumbnails(run)[0], pixels)
    with torch.no_grad():
        z = branch(run.preprocess(pixels[None])).z[0]
    torch.testing.assert_close(stored.features.z[0], z, rtol=1e-3, atol=1e-4)
    assert (stored.step, stored.split, stored.threshold) == (8, "test", 0.5)
    assert stored.classes == ("dark", "light", "mid")

    # Scores are those of these features.
    trained = scores["trained"]
    assert trained["density"]["value"] == density(stored.features.z)
    mono = monosemanticity(stored.features.z, stored.features.h, min_support=3)
    assert trained["monosemanticity"]["value"] == mono.value
    assert trained.keys() == scores["untrained"].keys()
    assert trained["linear_probe_top1"]["value"] > 0.7  # brightness is easily read off
    assert trained["linear_probe_top1"]["chance"] == pytest.approx(1 / 3)
    assert trained["linear_probe_top5"]["value"] is None
    assert "fewer than six classes" in trained["linear_probe_top5"]["reason"]
    assert trained["retrieval_at_1_of_32"]["dimensions"] == 32
    assert scores["planted"] is None
    assert scores["gradient_conflict"]["reason"] is None
    assert scores["cost"]["parameters"]["head"] > 0
    assert scores["timing"]["seconds_a_step"] == 0.5
    assert scores["notes"] == []

    # Everything that a number depends on is stated.
    settings = scores["settings"]
    expected = {
        "encoder": "resnet18-thin", "precision": "fp32", "image_size": SIDE, "features": 128,
        "dimensions": 40, "scored_split": "test", "scored_images": 72,
        "scored_images_labelled": 72, "train_images": 72, "train_images_read": 72, "classes": 3,
        "seed": 0, "min_support": 3, "active_above": 1e-5, "gate_threshold": 0.5,
    }  # fmt: skip
    assert settings | expected == settings
    assert settings["knn"] == {
        "neighbours": 20, "temperature": 0.07, "similarity": "cosine of h",
    }  # fmt: skip
    assert settings["linear_probe_chose"]["trained"]["C"] in settings["linear_probe"]["C_grid"]
    assert settings["untrained_branch"]["batch_norm_images"] == 72


def test_knn_reads_h_of_training_and_test_images(tmp_path: Path) -> None:
    root = folder_of_images(tmp_path / "images")
    run = trained_run(tmp_path / "run", recipe_of(root, "simclr"))
    scores = evaluate(run, device="cpu", say=quiet)
    h = {}
    branch, _ = run.trained_branch()
    for split in ("train", "test"):
        paths = sorted((root / split).rglob("*.png"))
        pixels = np.stack([np.asarray(Image.open(path)) for path in paths])
        with torch.no_grad():
            batch = torch.from_numpy(pixels).permute(0, 3, 1, 2)
            h[split] = branch(run.preprocess(batch)).h
    labels = torch.arange(3).repeat_interleave(EACH)
    expected = knn_accuracy(h["train"], labels, h["test"], labels)
    assert scores["trained"]["knn"]["value"] == pytest.approx(expected, abs=0.02)
    assert scores["cost"]["parameters"]["head"] == 0
    assert scores["settings"]["gate_threshold"] is None


def test_the_untrained_branch_is_that_of_the_seed_with_statistics_of_the_images(
    tmp_path: Path,
) -> None:
    root = folder_of_images(tmp_path / "images")
    one = evaluate(trained_run(tmp_path / "one", recipe_of(root)), device="cpu", say=quiet)
    plan = dataclasses.replace(recipe_of(root).train, epochs=3)
    other = dataclasses.replace(recipe_of(root), train=plan)
    two = evaluate(trained_run(tmp_path / "two", other, step=9), device="cpu", say=quiet)
    assert one["untrained"] == two["untrained"]
    assert one["untrained"] != one["trained"]
    [note] = two["notes"]
    assert note.startswith("training stands at step 9 of 12; batch-norm statistics are those of")


def test_evaluating_again_gives_the_same(tmp_path: Path) -> None:
    run = trained_run(tmp_path / "run", recipe_of(folder_of_images(tmp_path / "images")))
    first = evaluate(run, device="cpu", say=quiet)
    features = digest(run.folder / "features")
    assert evaluate(run, device="cpu", say=quiet) == first
    assert digest(run.folder / "features") == features


def test_images_without_labels(tmp_path: Path) -> None:
    root = folder_of_images(tmp_path / "images", classes=False, splits=False)
    run = trained_run(tmp_path / "run", recipe_of(root, holdout=0.5))
    scores = evaluate(run, device="cpu", say=quiet)
    for name in ("knn", "linear_probe_top1", "semantic_consistency", "retrieval_at_1"):
        assert scores["trained"][name]["value"] is None
        assert "have no labels" in scores["trained"][name]["reason"]
    assert scores["trained"]["monosemanticity"]["value"] is not None
    assert scores["settings"]["classes"] == 0
    assert read_features(run).features.labels is None
    assert any("no held-out split" in note for note in scores["notes"])


def test_without_held_out_images_those_of_training_are_scored(tmp_path: Path) -> None:
    root = folder_of_images(tmp_path / "images", splits=False)
    run = trained_run(tmp_path / "run", recipe_of(root, holdout=0.0))
    scores = evaluate(run, device="cpu", say=quiet)
    assert scores["settings"]["scored_split"] == "train"
    assert scores["trained"]["semantic_consistency"]["value"] is not None
    for name in ("knn", "linear_probe_top1", "linear_probe_top5"):
        assert scores["trained"][name]["value"] is None
        assert "no images are held out" in scores["trained"][name]["reason"]
    assert read_features(run).split == "train"


def test_training_images_that_are_read_are_limited(tmp_path: Path) -> None:
    recipe = recipe_of(folder_of_images(tmp_path / "images"))
    limits = dataclasses.replace(recipe.evaluation, train_limit=30)
    run = trained_run(tmp_path / "run", dataclasses.replace(recipe, evaluation=limits))
    scores = evaluate(run, device="cpu", say=quiet)
    assert scores["settings"]["train_images_read"] == 30
    assert scores["notes"] == ["30 of 72 training images are read"]
    assert scores["settings"]["untrained_branch"]["batch_norm_images"] == 30


@pytest.mark.parametrize(("fast", "used"), [(True, "bf16"), (False, "fp32")])
def test_bf16_is_used_where_the_hardware_has_it(
    monkeypatch: pytest.MonkeyPatch, fast: bool, used: str
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: fast)
    recipe, cpu = recipe_of("scenes"), torch.device("cpu")
    for precision, expected in {"fp32": "fp32", "bf16": used, "auto": used}.items():
        plan = dataclasses.replace(recipe.train, precision=precision)
        assert evaluation_precision(dataclasses.replace(recipe, train=plan), cpu) == expected


def test_scenes_are_scored_against_their_planted_truth(tmp_path: Path) -> None:
    run = trained_run(tmp_path / "run", recipe_of("scenes", limit=64))
    scores = evaluate(run, device="cpu", say=quiet)
    planted = scores["planted"]
    assert {"object", "background"} <= planted["consistency"].keys()
    assert planted["gate"]["theory"]["price"] == pytest.approx(1e-3 * math.log(0.7 / 0.3))


def test_a_run_without_a_checkpoint_is_refused_before_data_are_read(tmp_path: Path) -> None:
    run = start_run(tmp_path / "run", recipe_of(tmp_path / "nowhere"))
    with pytest.raises(RunError, match="holds no checkpoint yet"):
        evaluate(run, device="cpu", say=quiet)
