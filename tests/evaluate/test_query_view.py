"""What a query transform does, counted by hand and on a tiny run."""

import json
import math

import pytest
import torch

from pellucid.evaluate.evaluation import evaluate
from pellucid.evaluate.query_view import drift, query_view, volumes
from pellucid.losses import gaussian_entropy
from pellucid.metrics.volume import log_abs_det
from pellucid.nets.batch_norm import recalibrate_batch_norm
from pellucid.pretraining import pretrain
from pellucid.recipe import compose

TINY = [
    "data.stored_size=8", "views.size=8", "projector.hidden=16", "projector.dimensions=8",
    "data.limit=32", "train.batch=8", "train.epochs=1", "train.warmup_epochs=0",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "ie"
    recipe = compose("ie-simclr", "scenes", "small", [*TINY, "query_transform.patch=2"])
    return pretrain(recipe, folder, device="cpu", say=lambda _: None)


@pytest.fixture
def images():
    torch.manual_seed(0)
    return torch.randn(24, 3, 8, 8)


def test_drift_counted_by_hand():
    anchors = torch.tensor([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.1]])
    queries = torch.tensor(
        [[2.0, 0.1], [5.0, 0.2], [-1.0, 0.0]]
    )  # the second has gone to the first
    labels = torch.tensor([4, 4, 1])
    found = drift(queries, anchors, labels)
    assert found == {
        "same_image": pytest.approx(2 / 3), "same_class": 1.0, "chance": pytest.approx(1 / 3),
    }  # fmt: skip
    assert drift(queries, anchors, torch.tensor([4, 0, 1]))["same_class"] == pytest.approx(2 / 3)
    assert drift(queries, anchors, torch.tensor([-1, 0, 1]))["same_class"] == pytest.approx(1 / 2)
    assert drift(queries, anchors, None)["same_class"] is None
    assert drift(queries, anchors, torch.full((3,), -1))["same_class"] is None
    assert drift(anchors, anchors, labels)["same_image"] == 1


def test_drift_needs_an_anchor_for_each_query():
    with pytest.raises(ValueError, match=r"one anchor for each query, got \(2, 3\) and \(3, 3\)"):
        drift(torch.ones(2, 3), torch.ones(3, 3), None)


def test_drift_over_many_images_is_that_of_all_pairs():
    torch.manual_seed(0)
    queries, anchors = torch.randn(2, 600, 4)
    similarity = torch.nn.functional.normalize(queries) @ torch.nn.functional.normalize(anchors).T
    expected = (similarity.argmax(dim=1) == torch.arange(600)).float().mean().item()
    assert drift(queries, anchors, None)["same_image"] == pytest.approx(expected)


def test_what_is_measured_of_a_trained_transform(run, images):
    learner, _ = run.trained_learner()
    before = {name: t.clone() for name, t in learner.state_dict().items()}
    found = query_view(run, learner, images, torch.arange(24) % 3)
    assert all(torch.equal(t, before[name]) for name, t in learner.state_dict().items())
    branch, transform = learner.framework.online, learner.query_transform
    with torch.no_grad():
        assert found["anchor_entropy"] == pytest.approx(
            gaussian_entropy(branch(images).u).item(), abs=1e-3
        )
        views = transform(images)[0]
    recalibrate_batch_norm(branch, [views])
    with torch.no_grad():
        assert found["query_entropy"] == pytest.approx(
            gaussian_entropy(branch(views).u).item(), abs=1e-3
        )
    exact = log_abs_det(lambda x: transform(x)[0], images[:16]).mean().item()
    assert found["entropy_gain"] == pytest.approx(exact, rel=1e-5)
    assert found["entropy_gain_scale_free"] < found["entropy_gain"]
    assert found["drift"]["chance"] == pytest.approx(1 / 24)
    assert found["transform_parameters"] == sum(p.numel() for p in transform.parameters())
    assert (run.folder / "transform.png").read_bytes()[:4] == b"\x89PNG"


def test_without_a_transform_queries_are_anchors_and_nothing_drifts(tmp_path, images):
    recipe = compose("simclr", "scenes", "small", TINY)
    plain = pretrain(recipe, tmp_path / "plain", device="cpu", say=lambda _: None)
    found = query_view(plain, plain.trained_learner()[0], images, None)
    assert found["query_entropy"] == found["anchor_entropy"]
    assert found["entropy_gain"] is None
    assert found["drift"] is None
    assert found["transform_parameters"] == 0
    assert not (plain.folder / "transform.png").exists()


def test_volumes_of_both_branches(run, images):
    found = volumes(run.trained_branch()[0], run.untrained_branch(), images)
    for which in ("trained", "untrained"):
        assert 0 < found[which]["rank"] <= 128
        assert math.isfinite(found[which]["log_volume"])
    assert found["images"] == 4


def test_an_evaluation_holds_all_of_it(run):
    evaluate(run, device="cpu", say=lambda _: None)
    scores = json.loads((run.folder / "scores.json").read_text("utf-8"))
    assert scores["query_view"]["images"] > 0
    assert 0 <= scores["query_view"]["drift"]["same_class"] <= 1
    assert scores["encoder_volume"]["threshold"] == 1e-3
