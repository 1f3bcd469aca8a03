import math

import pytest
import torch

from pellucid import metrics
from pellucid.evaluate.extract import Features
from pellucid.evaluate.interpretability import NEED_LABELS, interpretability
from pellucid.evaluate.score import Scores
from pellucid.metrics import as_published


def features(count: int = 200, width: int = 40, classes: int = 4, **changes: object) -> Features:
    """Non-negative features whose even dimensions follow the class."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % classes
    z = torch.randn(count, width, generator=generator).relu()
    own = (torch.arange(width) // 2 % classes) == labels[:, None]
    z = torch.where(own & (torch.arange(width) % 2 == 0), z + 2, z * (z > 0.5))
    h = torch.randn(count, 8, generator=generator) + 2 * torch.eye(8)[labels]
    plain = Features(h=h, u=z, z=z, gate=None, ungated=z, labels=labels)
    return plain._replace(**changes)


def run(found: Features, **settings: int) -> Scores:
    return interpretability(found, torch.arange(found.z.shape[1]), **settings)


def test_scores_are_those_of_the_metrics() -> None:
    found = features()
    scores = run(found, min_support=5, seed=3)
    right = metrics.semantic_consistency(found.z, found.labels, min_support=5, seed=3)
    assert scores["semantic_consistency"] == right._asdict() | {"reason": None}
    assert right.value > right.chance + 0.05
    for weighting in ("mass", "mean", "frequency"):
        entropy = metrics.semantic_entropy(
            found.z, found.labels, weighting=weighting, min_support=5, seed=3
        )
        assert scores[f"semantic_entropy_{weighting}"]["value"] == entropy.nats
        published = as_published.semantic_entropy(
            metrics.unit_rows(found.z), found.labels, weighting
        )
        assert scores[f"semantic_entropy_{weighting}_published"]["value"] == published
    mono = metrics.monosemanticity(found.z, found.h, min_support=5)
    assert scores["monosemanticity"]["value"] == mono.value
    assert scores["monosemanticity"]["chance"] == mono.chance
    assert scores["effective_rank"]["value"] == metrics.effective_rank(found.z)
    assert scores["effective_rank_published"]["value"] == pytest.approx(
        math.log(metrics.effective_rank(metrics.unit_rows(found.z))), abs=1e-3
    )
    retrieval = metrics.retrieval_precision(found.z, found.labels)
    for k, value in retrieval.precision.items():
        assert scores[f"retrieval_at_{k}"]["value"] == value
        assert scores[f"retrieval_at_{k}"]["chance"] == retrieval.chance


def test_normalised_entropy_and_its_chance_are_over_ln_c() -> None:
    scores = run(features())
    nats, over = scores["semantic_entropy_mass"], scores["semantic_entropy_normalised"]
    assert over["value"] == pytest.approx(nats["value"] / math.log(4))
    assert over["chance"] == pytest.approx(nats["chance"] / math.log(4))
    assert over["value"] < over["chance"] < 1.0


def test_every_score_states_what_it_rests_on() -> None:
    scores = run(features())
    assert all(score["value"] is not None and score["reason"] is None for score in scores.values())
    assert all(score["dimensions"] > 0 and score["support"] > 0 for score in scores.values())
    without_chance = {name for name, score in scores.items() if score["chance"] is None}
    assert without_chance == {
        "activation_rate", "density", "effective_rank", "effective_rank_published",
        "orthogonality", "orthogonality_published",
    }  # fmt: skip


def test_published_consistency_has_the_chance_of_rare_dimensions() -> None:
    z = torch.zeros(200, 40)
    z[torch.arange(40) * 5, torch.arange(40)] = 1.0  # each dimension active on one image
    scores = run(features(z=z))
    assert scores["semantic_consistency_published"]["value"] == 1.0
    assert scores["semantic_consistency_published"]["chance"] == 1.0
    assert scores["semantic_consistency_published"]["support"] == 1
    assert scores["semantic_consistency"]["value"] is None
    assert "active on 10 labelled images" in scores["semantic_consistency"]["reason"]


def test_the_strongest_dimensions_are_those_given() -> None:
    found = features()
    even_first = torch.cat([torch.arange(0, 40, 2), torch.arange(1, 40, 2)])
    scores = interpretability(found, even_first)
    chosen = metrics.retrieval_precision(found.z, found.labels, dimensions=even_first[:32])
    assert scores["retrieval_at_5_of_32"]["value"] == chosen.precision[5]
    assert scores["retrieval_at_5_of_32"]["dimensions"] == 32
    assert "retrieval_at_5_of_64" not in scores  # there are 40


@pytest.mark.parametrize("labels", [None, torch.full((200,), -1)])
def test_without_labels_the_rest_is_scored(labels: torch.Tensor | None) -> None:
    scores, whole = run(features(labels=labels)), run(features())
    assert scores.keys() == whole.keys()
    for name, found in scores.items():
        if name in NEED_LABELS or name.startswith("retrieval"):
            assert found["value"] is None
            assert found["reason"] == "the images have no labels"
        else:
            assert found == whole[name]


def test_unlabelled_images_are_left_out_of_what_needs_labels() -> None:
    found = features()
    known = torch.arange(200) % 7 > 0
    partly = run(found._replace(labels=found.labels.where(known, -1)))
    alone = run(Features(*(None if x is None else x[known] for x in found)))
    for name in (*NEED_LABELS, "retrieval_at_1"):
        assert partly[name] == alone[name]
    assert partly["density"] == run(found)["density"]


def test_a_dead_model_has_no_scores_but_zero_use() -> None:
    scores = run(features(z=torch.zeros(200, 40)))
    assert scores["activation_rate"]["value"] == scores["density"]["value"] == 0
    for name in (
        "semantic_consistency", "semantic_consistency_published", "semantic_entropy_mass",
        "semantic_entropy_normalised", "effective_rank", "effective_rank_published",
        "orthogonality", "orthogonality_published", "monosemanticity",
    ):  # fmt: skip
        assert scores[name]["value"] is None, name
        assert scores[name]["reason"], name


def test_too_few_images_for_some_neighbours() -> None:
    scores = run(Features(*(None if x is None else x[:4] for x in features())))
    assert scores["retrieval_at_3"]["value"] is not None
    assert scores["retrieval_at_5"]["value"] is None
    assert "too few" in scores["retrieval_at_5"]["reason"]
    alone = run(Features(*(None if x is None else x[:1] for x in features())))
    assert alone["retrieval_at_1"]["value"] is None
