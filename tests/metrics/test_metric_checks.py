import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pellucid import metrics
from pellucid.metrics import as_published
from pellucid.metrics.checks import checked_features, checked_labels

LABELLED: list[Callable[..., object]] = [
    metrics.semantic_consistency,
    metrics.semantic_entropy,
    metrics.retrieval_precision,
    as_published.semantic_consistency,
    as_published.semantic_entropy,
]
UNLABELLED: list[Callable[..., object]] = [
    metrics.activation_rate,
    metrics.density,
    metrics.effective_rank,
    metrics.orthogonality,
    metrics.rank_dimensions,
    as_published.effective_rank,
    as_published.orthogonality,
]


def name(metric: Callable[..., object]) -> str:
    return f"{metric.__module__.rpartition('.')[2]}.{metric.__name__}"


@pytest.mark.parametrize("metric", LABELLED, ids=name)
def test_labels_that_are_refused(metric: Callable[..., object]) -> None:
    features, labels = torch.ones(12, 3), torch.arange(12) % 3
    for wrong in (labels.float(), labels.bool(), labels[:, None]):
        with pytest.raises((TypeError, ValueError)):
            metric(features, wrong)
    with pytest.raises((TypeError, ValueError)):
        metric(features, labels[:-1])
    unlabelled = labels.clone()
    unlabelled[5] = -1
    with pytest.raises(ValueError, match="image 5 has label -1: leave images without a label out"):
        metric(features, unlabelled)


@pytest.mark.parametrize("metric", [*LABELLED, *UNLABELLED], ids=name)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_features_that_are_not_finite_are_refused(
    metric: Callable[..., object], bad: float
) -> None:
    features = torch.ones(12, 3)
    features[7, 1] = bad
    labels = [torch.arange(12) % 3] if metric in LABELLED else []
    with pytest.raises(ValueError, match="features must be finite: image 7 has"):
        metric(features, *labels)


@pytest.mark.parametrize("metric", [*LABELLED, *UNLABELLED], ids=name)
def test_features_that_need_a_gradient_are_taken_without(metric: Callable[..., object]) -> None:
    features = torch.randn(12, 3, requires_grad=True)
    labels = [torch.arange(12) % 3] if metric in LABELLED else []
    metric(features, *labels)
    assert features.grad is None


def test_a_row_far_into_the_blocks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.metrics.checks.ROWS", 5)
    features = torch.ones(23, 2)
    features[17] = math.nan
    with pytest.raises(ValueError, match="image 17"):
        checked_features(features)


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (torch.ones(3), ValueError, r"features must be \[N, K\], one row an image; got \(3,\)"),
        (torch.ones(2, 3, 4), ValueError, r"got \(2, 3, 4\)"),
        (torch.ones(0, 3), ValueError, "at least one image and one dimension"),
        (torch.ones(3, 0), ValueError, "at least one image and one dimension"),
        (torch.ones(3, 2, dtype=torch.long), TypeError, r"use features\.float\(\)"),
    ],
)
def test_messages_about_features(features: Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        checked_features(features)


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (torch.zeros(3), TypeError, r"integers 0\.\.C-1, got torch\.float32"),
        (torch.zeros(3, dtype=torch.bool), TypeError, r"got torch\.bool"),
        (torch.zeros(4, dtype=torch.long), ValueError, r"must be \[3\], one for each row"),
        (torch.zeros(3, 1, dtype=torch.long), ValueError, r"got \(3, 1\)"),
        (torch.tensor([0, 2, -7]), ValueError, "image 2 has label -7"),
    ],
)
def test_messages_about_labels(labels: Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        checked_labels(labels, torch.ones(3, 2))
