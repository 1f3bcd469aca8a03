"""What can be read off h: nearest neighbours and the linear probe, on labelled images."""

import math
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.evaluate.knn import knn_accuracy
from pellucid.evaluate.linear_probe import linear_probe
from pellucid.evaluate.score import Score, Scores, score, unscored
from pellucid.evaluate.splits import labelled

NAMES = ("knn", "linear_probe_top1", "linear_probe_top5")


def transfer(
    train: Float[Tensor, "n f"],
    train_labels: Int[Tensor, " n"] | None,
    test: Float[Tensor, "m f"],
    test_labels: Int[Tensor, " m"] | None,
    *,
    classes: int,
    neighbours: int,
    temperature: float,
    seed: int = 0,
    device: torch.device | None = None,
) -> tuple[Scores, dict[str, Any]]:
    """Accuracy of weighted kNN and of the linear probe, and what the probe chose.

    Chance is what always naming the most frequent training class (or the five) scores on the test
    images; the interval is 95 % of a binomial over the test images.

    Args:
        train: h of training images.
        train_labels: their classes, -1 where there is none; None without labels.
        test: h of held-out images.
        test_labels: likewise.
        classes: how many classes the labels index.
        neighbours: of kNN.
        temperature: of kNN.
        seed: of the training images that the probe holds out.
        device: where to compute; the CPU by default.
    """
    if train_labels is None or not labelled(train_labels):
        return unscored(NAMES, "the training images have no labels"), {}
    if test_labels is None or not labelled(test_labels):
        return unscored(NAMES, "the held-out images have no labels"), {}
    fit, ask = train_labels >= 0, test_labels >= 0
    x, y = train[fit].to(device), train_labels[fit].to(device)
    asked, truth = test[ask].to(device), test_labels[ask].to(device)
    near = knn_accuracy(x, y, asked, truth, neighbours=neighbours, temperature=temperature)
    probe = linear_probe(x, y, asked, truth, classes=classes, seed=seed)
    by_frequency = y.bincount(minlength=classes).argsort(descending=True, stable=True)
    scores = {
        "knn": _accuracy(near, truth, by_frequency[:1], x.shape[1]),
        "linear_probe_top1": _accuracy(probe.top1, truth, by_frequency[:1], x.shape[1]),
        "linear_probe_top5": _accuracy(probe.top5, truth, by_frequency[:5], x.shape[1]),
    }
    chosen = {
        "C": probe.strength,
        "held_out_accuracy": {f"{c:g}": value for c, value in probe.held_out.items()},
        "converged": probe.converged,
    }
    return scores, chosen


def _accuracy(value: float | None, truth: Tensor, guesses: Tensor, width: int) -> Score:
    """An accuracy beside that of constant guesses, with its binomial interval."""
    if value is None:
        return score(None, reason="there are fewer than six classes")
    reach = 1.96 * math.sqrt(value * (1 - value) / len(truth))
    return score(
        value,
        chance=torch.isin(truth, guesses).float().mean().item(),
        low=max(value - reach, 0.0),
        high=min(value + reach, 1.0),
        dimensions=width,
        support=len(truth),
    )
