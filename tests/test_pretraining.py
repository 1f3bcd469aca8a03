"""Pretraining from a recipe to its last checkpoint, with the real encoder at 8 pixels."""

import json
import signal

import pytest
import torch
from torch.nn import functional

from pellucid import pretraining
from pellucid.data.image_set import ImageSet
from pellucid.pretraining import fitting_batch, pretrain, with_plan
from pellucid.recipe import compose
from pellucid.run import RunError, open_run
from pellucid.settings import RecipeError
from pellucid.train import checkpoint
from pellucid.train.batches import TwoViews
from pellucid.train.finite import TrainingError
from pellucid.train.log import read_lines
from pellucid.train.stopping import InterruptedTrainingError

TINY = [
    "data.stored_size=8", "views.size=8", "projector.hidden=16", "projector.dimensions=8",
    "data.limit=17", "train.batch=8", "train.epochs=2", "train.warmup_epochs=1",
    "train.log_every=3", "train.precision=fp32",
]  # fmt: skip


def tiny(*settings, method="bayesncl"):
    gate = ["head.hidden=16", "head.variant=gumbel"] if method == "bayesncl" else []
    return compose(method, "scenes", "small", [*TINY, *gate, *settings])


def silent(_):
    pass


def unlabelled(count, size=8):
    return ImageSet.from_pixels(torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An undisturbed run, and what it said."""
    said = []
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return pretrain(tiny("train.accumulate=2"), folder, device="cpu", say=said.append), said


def test_a_run_leaves_its_traces(whole):
    run, said = whole
    names = {path.name for path in run.folder.iterdir() if path.name[:1] != "."}
    assert names == {
        "recipe.json",
        "environment.json",
        "metrics.jsonl",
        "timing.jsonl",
        "checkpoint",
    }
    assert checkpoint.newest(run.folder)[0] == 4
    assert [line["step"] for line in read_lines(run.folder / "metrics.jsonl")] == [3, 4]
    values = read_lines(run.folder / "metrics.jsonl")[0]
    assert {"loss", "contrast", "gate_kl", "density", "gate_open", "lr"} <= values.keys()
    environment = json.loads((run.folder / "environment.json").read_text())
    assert environment["data"]["images"] == 17
    assert environment["torch"] == torch.__version__
    assert open_run(run.folder).recipe == run.recipe
    assert any("bayesncl on scenes: 17 images of 8x8, resnet18-thin, fp32" in line for line in said)
    assert any("evaluate with: pellucid evaluate" in line for line in said)


GATED = [
    "train.accumulate=2", "head.name=bayes-gate", "head.hidden=16", "head.variant=gumbel",
    "weights.gate_kl=1e-3",
]  # fmt: skip
METHODS = {
    "bayesncl": GATED,
    "ie-moco": [*GATED, "framework.queue=11", "framework.momentum=0.9"],
    "ie-byol": [*GATED, "framework.predictor_hidden=16", "framework.momentum=0.9"],
}


@pytest.mark.parametrize("method", METHODS)
def test_a_run_cut_off_amid_an_epoch_and_started_again_equals_the_whole_one(
    tmp_path, monkeypatch, method
):
    """With gate, queue, slow copy, transform and power iterations."""

    def stop(self, images, step, rows, call=TwoViews.__call__):
        if step == 2 and rows.start == 0:
            signal.raise_signal(signal.SIGTERM)
        return call(self, images, step, rows)

    recipe = tiny(*METHODS[method], method=method)
    folder, whole = tmp_path / "cut", pretrain(recipe, tmp_path / "whole", device="cpu", say=silent)
    with monkeypatch.context() as patch:
        patch.setattr(TwoViews, "__call__", stop)
        with pytest.raises(InterruptedTrainingError, match="saved at step 3 of 4"):
            pretrain(recipe, folder, device="cpu", say=silent)
    pretrain(recipe, folder, device="cpu", say=silent)
    (_, once), (_, again) = checkpoint.newest(whole.folder), checkpoint.newest(folder)
    assert once.keys() == again.keys()
    for name, value in once.items():
        assert torch.equal(value, again[name]), name
    for name in ("metrics.jsonl", "recipe.json"):
        assert (folder / name).read_bytes() == (whole.folder / name).read_bytes()


def test_another_recipe_in_the_same_folder_is_refused(whole):
    with pytest.raises(RunError, match=r"another recipe \(train\.epochs: 2 there, 3 asked\)"):
        pretrain(
            tiny("train.accumulate=2", "train.epochs=3"), whole[0].folder, device="cpu", say=silent
        )


def test_what_cannot_be_built_is_refused_before_data_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(pretraining, "open_images", None)
    with pytest.raises(RecipeError, match="nothing computes entropi"):
        pretrain(tiny("weights.entropi=1"), tmp_path / "run", device="cpu", say=silent)
    assert not (tmp_path / "run").exists()


IMPOSSIBLE = {
    "framework.temperature=0": r"temperature must be .*0",
    "framework.temperature=nan": r"framework\.temperature takes a finite number, got nan",
    "head.prior=0": r"prior must .*0",
    "head.prior=1": r"prior must .*1",
    "head.temperature=0": r"temperature must .*0",
    "head.name=top-k head.k=9 weights.gate_kl=none lr_of.framework.online.head.gate=none":
        r"k must be at most the 8 dimensions of z, got 9",
    "framework.name=moco framework.queue=0": r"queue needs sizes of at least 1, got 0",
    "framework.name=moco framework.momentum=1.5": r"momentum must .*1\.5",
    "query_transform.name=saib query_transform.patch=3": r"patches of 3 do not divide .*8x8",
    "train.batch=1": r"train: batch must be at least 2",
    "train.batch=8 train.accumulate=8": r"accumulate=8 leaves one image of batch=8",
    "weights.gate_kl=-1": r"weights\.gate_kl must be at least 0, got -1",
    "weights.contrast=inf": r"weights\.contrast takes a finite number",
    "lr=-0.1": r"lr must be at least 0, got -0\.1",
    "lr_of.framework.online.head.gate=-1": r"lr_of\.\S+\.gate must be at least 0",
    "optimiser.momentum=1": r"momentum must be at least 0 and below 1, got 1",
    "data.std=[0,1,1]": r"data: std must be above 0",
    "data.bad_share=2": r"data: bad_share must be a share, 0 to 1, got 2",
    "encoder.stem_stride=0": r"encoder: stem_stride must be at least 1, got 0",
    "projector.dimensions=0": r"projector: dimensions must be at least 1, got 0",
    "evaluation.knn_neighbours=0": r"evaluation: knn_neighbours must be at least 1, got 0",
    "evaluation.knn_temperature=0": r"evaluation: knn_temperature must be above 0",
}  # fmt: skip


@pytest.mark.parametrize("asked", IMPOSSIBLE)
def test_impossible_settings_are_refused_by_name_before_data_are_read(tmp_path, monkeypatch, asked):
    monkeypatch.setattr(pretraining, "open_images", None)
    with pytest.raises(RecipeError, match=IMPOSSIBLE[asked]):
        pretrain(tiny(*asked.split()), tmp_path / "run", device="cpu", say=silent)
    assert not (tmp_path / "run").exists()


def test_a_set_smaller_than_the_batch_is_trained_on_whole_aloud(tmp_path):
    said = []
    recipe = tiny("train.batch=64", "train.epochs=1", method="ncl")
    run = pretrain(recipe, tmp_path / "run", device="cpu", say=said.append)
    assert "only 17 training images: train.batch 64 becomes 17" in said
    assert checkpoint.newest(run.folder)[0] == 1
    assert run.recipe.train.batch == 64  # so that the same command takes it up again
    with pytest.raises(RunError, match=r"has 17 training images, fewer than train\.batch=64"):
        pretrain(recipe, tmp_path / "strict", device="cpu", strict=True, say=silent)


@pytest.mark.parametrize(
    ("count", "settings", "batch"),
    [
        (64, ["train.batch=64"], 64),
        (1000, ["train.batch=64"], 64),
        (63, ["train.batch=64"], 63),
        (63, ["train.batch=64", "train.accumulate=4"], 60),
        (2, ["train.batch=64"], 2),
    ],
)
def test_the_batch_is_the_largest_that_is_filled(count, settings, batch):
    assert fitting_batch(unlabelled(count), tiny(*settings), False, silent) == batch


def test_too_few_images_to_contrast_are_refused():
    with pytest.raises(RunError, match=r"has 1 training images.*and 2 are the fewest for 1 proc"):
        fitting_batch(unlabelled(1), tiny("train.batch=64"), False, silent)
    with pytest.raises(RunError, match=r"has 7 .*8 are the fewest .*train\.accumulate=4"):
        fitting_batch(unlabelled(7), tiny("train.batch=64", "train.accumulate=4"), False, silent)


@pytest.mark.parametrize(("count", "batch", "accumulate"), [(5, 8, 1), (9, 4, 1), (9, 4, 2)])
@pytest.mark.parametrize("method", ["simclr", "ie-moco", "ie-byol"])
def test_no_batch_of_one_image_goes_through_batch_norm(
    tmp_path, monkeypatch, method, count, batch, accumulate
):
    seen, batch_norm = [], functional.batch_norm

    def spy(x, mean, variance, weight, bias, training, *rest):
        seen.extend([len(x)] if training else [])
        return batch_norm(x, mean, variance, weight, bias, training, *rest)

    monkeypatch.setattr(functional, "batch_norm", spy)
    cheap = {"ie-moco": ["framework.queue=11"], "ie-byol": ["framework.predictor_hidden=16"]}
    loop = [f"data.limit={count}", f"train.batch={batch}", f"train.accumulate={accumulate}"]
    recipe = tiny(*loop, *cheap.get(method, []), method=method)
    pretrain(recipe, tmp_path / "run", device="cpu", say=silent)
    assert min(seen) >= 2


def test_a_batch_that_processes_cannot_share_is_refused(monkeypatch):
    monkeypatch.setattr(pretraining.distributed, "world_size", lambda: 3)
    with pytest.raises(
        RunError, match=r"train\.batch=64 .*3 processes x 2 micro-steps.*multiple of 6"
    ):
        fitting_batch(unlabelled(64), tiny("train.batch=64", "train.accumulate=2"), False, silent)


def test_images_without_labels_train(tmp_path, monkeypatch):
    monkeypatch.setattr(pretraining, "open_images", lambda **_: unlabelled(9))
    run = pretrain(tiny("train.epochs=1", method="ncl"), tmp_path / "run", device="cpu", say=silent)
    assert checkpoint.newest(run.folder)[0] == 1


def test_a_loss_that_is_not_finite_stops_with_the_step_named(tmp_path):
    with pytest.raises(TrainingError, match=r"not finite at step \d of 4: loss="):
        pretrain(tiny("lr=1e30", "optimiser.name=sgd"), tmp_path / "run", device="cpu", say=silent)


def test_skipped_files_are_listed_without_the_escape_sequences_of_their_names(
    tmp_path, monkeypatch
):
    images = unlabelled(9)
    bad = [("a\tb\x1b[31m.png", "no image\nat all")]
    monkeypatch.setattr(ImageSet, "skipped", property(lambda _: bad))
    monkeypatch.setattr(pretraining, "open_images", lambda **_: images)
    run = pretrain(tiny("train.epochs=1", method="ncl"), tmp_path / "run", device="cpu", say=silent)
    text = (run.folder / "skipped.tsv").read_text("utf-8")
    assert text == "file\treason\na\\tb\\x1b[31m.png\tno image\\nat all\n"


def test_what_a_framework_remarks_is_said(tmp_path):
    said = []
    settings = ["framework.name=moco", "framework.queue=20"]
    pretrain(tiny(*settings, method="simclr"), tmp_path / "run", device="cpu", say=said.append)
    assert [line for line in said if "warning: the queue of 20 keys" in line]


def test_other_numbers_of_the_loop_leave_the_rest():
    recipe = tiny()
    changed = with_plan(recipe, batch=4)
    assert changed.train.batch == 4
    assert with_plan(changed, batch=8) == recipe
