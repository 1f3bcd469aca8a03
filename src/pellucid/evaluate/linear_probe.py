"""The linear probe: regularised logistic regression on frozen features, to convergence."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from pellucid.evaluate.knn import check_labels
from pellucid.randomness import seeded

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""The values of C to choose from; a larger one regularises less."""
HELD_OUT = 0.2
"""The share of the training images that C is chosen on."""
TOLERANCE = 1e-5
"""Converged is a largest gradient entry below this, of the loss averaged over images. In fp32,
rounding of the loss stops a fit at about 1e-4."""
ITERATIONS = 1000


class Classifier(NamedTuple):
    """A linear map from features to class scores."""

    weight: Float[Tensor, "c f"]
    bias: Float[Tensor, " c"]
    converged: bool
    """Whether the optimum was reached within the allowed iterations."""


class Probe(NamedTuple):
    """What a linear classifier makes of features, and how it was chosen."""

    top1: float
    """Share of test images whose class scores highest."""
    top5: float | None
    """Share whose class is among the five highest; None with fewer than six classes."""
    strength: float
    """The C that was chosen."""
    held_out: dict[float, float]
    """Accuracy on the held-out training images for each C; empty when there were too few."""
    converged: bool
    """Whether the fit on all training images reached its optimum."""


def linear_probe(
    train: Float[Tensor, "n f"],
    train_labels: Int[Tensor, " n"],
    test: Float[Tensor, "m f"],
    test_labels: Int[Tensor, " m"],
    *,
    classes: int,
    strengths: Sequence[float] = STRENGTHS,
    seed: int = 0,
) -> Probe:
    """Accuracy of multinomial logistic regression on standardised features.

    C is the one that is best on a held-out fifth of the training images (of equals the smallest),
    each fitted in fp32; the classifier is then fitted anew on all of them, in fp64. Features are
    standardised by the mean and standard deviation of the images that are fitted. No test image
    takes part in any choice.

    Raises:
        ValueError: a set is empty, a label is not in 0..classes-1, or there is no C to choose.
    """
    check_labels(train_labels, "train_labels")
    check_labels(test_labels, "test_labels")
    if (most := int(torch.maximum(train_labels.max(), test_labels.max()))) >= classes:
        raise ValueError(f"labels must be 0..{classes - 1} for {classes} classes, got {most}")
    if not strengths:
        raise ValueError("strengths must name at least one C to choose from")
    strengths = sorted(strengths)
    held_out = _held_out_accuracy(train, train_labels, classes, strengths, seed)
    best = max(strengths, key=lambda c: held_out.get(c, 0.0))  # max takes the first of equals
    centre, spread = _moments(train)
    rows = ((train - centre) / spread).double()
    fitted = fit_logistic(rows, train_labels, classes, best)
    scores = F.linear((test - centre) / spread, fitted.weight.float(), fitted.bias.float())
    highest = scores.topk(min(5, classes), dim=1).indices == test_labels[:, None]
    return Probe(
        top1=highest[:, 0].float().mean().item(),
        top5=highest.any(dim=1).float().mean().item() if classes > 5 else None,
        strength=best,
        held_out=held_out,
        converged=fitted.converged,
    )


def fit_logistic(
    features: Float[Tensor, "n f"],
    labels: Int[Tensor, " n"],
    classes: int,
    strength: float,
    start: Classifier | None = None,
) -> Classifier:
    """The minimum of C * sum of cross-entropies + |weight|^2 / 2, by L-BFGS; biases are free.

    Args:
        features: of the images, best standardised; the fit is in their precision.
        labels: class indices.
        classes: how many there are.
        strength: C; as scikit-learn's `LogisticRegression`.
        start: a classifier to start from, such as that of the next smaller C; zero by default.
    """
    count, width = features.shape
    # In these coordinates the curvature is about 1 in every direction, so that correlated features
    # take tens of steps and not hundreds; the optimum is the same.
    values, axes = torch.linalg.eigh((features.T @ features).double() / count)
    scale = (values.clamp(min=0) / classes + 1 / (strength * count)).rsqrt().to(features)
    axes = axes.to(features)
    rows = features @ (axes * scale)
    weight, bias = features.new_zeros(classes, width), features.new_zeros(classes)
    if start is not None:
        weight = start.weight.to(features) @ axes / scale
        bias = start.bias.to(features).clone()
    parameters = [weight.requires_grad_(), bias.requires_grad_()]
    optimiser = torch.optim.LBFGS(
        parameters,
        max_iter=ITERATIONS,
        tolerance_grad=0.1 * TOLERANCE * min(1.0, float(scale.min())),
        tolerance_change=1e-12,
        history_size=20,
        line_search_fn="strong_wolfe",
    )

    def objective() -> Tensor:
        loss = F.cross_entropy(F.linear(rows, weight, bias), labels)
        return loss + (weight * scale).square().sum() / (2 * strength * count)

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = objective()
        torch.autograd.backward(loss)
        return loss

    with torch.enable_grad():
        optimiser.step(closure)  # type: ignore[no-untyped-call]
        by_weight, by_bias = torch.autograd.grad(objective(), parameters)
    slopes = ((by_weight / scale) @ axes.T, by_bias)  # of the features as they were given
    steepest = max(float(slope.abs().max()) for slope in slopes)
    found = (weight.detach() * scale) @ axes.T
    return Classifier(found, bias.detach(), converged=steepest <= TOLERANCE)


def _held_out_accuracy(
    features: Tensor, labels: Tensor, classes: int, strengths: Sequence[float], seed: int
) -> dict[float, float]:
    """Accuracy on a fixed fifth of the images for each C, fitted on the rest; empty below five."""
    held = int(HELD_OUT * len(features))
    if held == 0 or len(strengths) == 1:
        return {}
    order = torch.randperm(len(features), generator=seeded(seed, "probe")).to(features.device)
    chosen, fitted_on = order[:held], order[held:]
    centre, spread = _moments(features[fitted_on])
    rows = (features[fitted_on] - centre) / spread
    asked = (features[chosen] - centre) / spread
    accuracy = {}
    classifier = None
    for strength in strengths:
        classifier = fit_logistic(rows, labels[fitted_on], classes, strength, classifier)
        scores = F.linear(asked, classifier.weight, classifier.bias)
        accuracy[strength] = (scores.argmax(dim=1) == labels[chosen]).float().mean().item()
    return accuracy


def _moments(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each feature; a constant feature is divided by 1."""
    spread, centre = torch.std_mean(features, dim=0, correction=0)
    return centre, spread.where(spread > 1e-6 * (centre.abs() + 1e-6), torch.ones_like(spread))
