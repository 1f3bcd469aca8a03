"""Weighted nearest neighbours on frozen features."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from pellucid.metrics.checks import COSINES


@torch.no_grad()
def knn_accuracy(
    train: Float[Tensor, "n f"],
    train_labels: Int[Tensor, " n"],
    test: Float[Tensor, "m f"],
    test_labels: Int[Tensor, " m"],
    *,
    neighbours: int = 20,
    temperature: float = 0.07,
) -> float:
    """The share of test images that their nearest training images name rightly, 0..1.

    The `neighbours` training images of the highest cosine vote for their class, each with weight
    exp(cosine / temperature); of classes with equal votes the first wins. With fewer training
    images than `neighbours`, all vote.

    Source: Wu et al. (2018), Unsupervised feature learning via non-parametric instance
    discrimination, section 3.4.

    Raises:
        ValueError: a set is empty, a label is negative, or a setting is not positive.
    """
    if neighbours < 1 or not temperature > 0:
        raise ValueError(
            f"neighbours and temperature must be positive, got {neighbours} and {temperature}"
        )
    check_labels(train_labels, "train_labels")
    check_labels(test_labels, "test_labels")
    classes = int(torch.maximum(train_labels.max(), test_labels.max())) + 1
    unit_train = F.normalize(train.float(), dim=1)
    at_a_time = max(1, COSINES // len(train))
    right = 0
    for queries, labels in zip(
        torch.split(test, at_a_time), torch.split(test_labels, at_a_time), strict=True
    ):
        cosine = F.normalize(queries.float(), dim=1) @ unit_train.T
        nearest = cosine.topk(min(neighbours, len(train)), dim=1)
        # Relative to the nearest, so that no temperature overflows.
        weight = ((nearest.values - nearest.values[:, :1]) / temperature).exp()
        votes = weight.new_zeros(len(queries), classes)
        votes.scatter_add_(1, train_labels[nearest.indices], weight)
        right += int((votes.argmax(dim=1) == labels).sum())
    return right / len(test)


def check_labels(labels: Int[Tensor, " n"], name: str) -> None:
    """Refuse an empty set, or images without a label, by name.

    Raises:
        ValueError: says what would be right.
    """
    if len(labels) == 0:
        raise ValueError(f"{name} must hold at least one label, got none")
    if int(labels.min()) < 0:
        raise ValueError(
            f"{name} must be class indices 0..C-1, got {int(labels.min())}: "
            "leave images without a label out"
        )
