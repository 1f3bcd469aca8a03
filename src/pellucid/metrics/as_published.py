"""The metrics exactly as the authors of BayesNCL compute them, to compare with their tables.

The forms are those of the BayesNCL code (github.com/Cui-Peng-624/BayesNCL, commit f79404b,
solo/methods/bayesncl_eval_helper_functions.py), without the loops over dimensions. Their
evaluation hands these functions rows of unit length. `semantic_entropy`, `effective_rank` and
`orthogonality` take features as given: to compare, pass `pellucid.metrics.unit_rows(features)`.
Labels that they would drop silently are refused here as everywhere.
"""

import math

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from pellucid.metrics.activity import active_entries, class_sums
from pellucid.metrics.checks import checked_features, checked_labels
from pellucid.metrics.entropy import Weighting, check_weighting

EPSILON = 1e-5
HUGE = 1e200
ORDINARY = 40
"""Binary digits before or behind the point; squares of more could leave fp32."""


def semantic_consistency(features: Float[Tensor, "n k"], labels: Integer[Tensor, " n"]) -> float:
    """The plain mean over live dimensions of the share of the most frequent class, 0..1.

    Unlike `metrics.semantic_consistency` it scores a dimension that is active on a single image
    (as 1), counts images and not class-balanced rates (9 in 10 of one class give 0.9 to random
    features), and has no level of chance: random features of 2,000 images in 10 balanced classes
    score 0.11 when half of the entries are active, and 0.64 when one in a thousand is.
    NaN for a dead model.

    Raises:
        TypeError, ValueError: features or labels are unfit.
    """
    features = checked_features(features)
    labels = checked_labels(labels, features)
    counts = class_sums(active_entries(features), labels)[0]
    active = counts.sum(dim=0)
    live = active > 0
    return (counts.amax(dim=0)[live] / active[live]).mean().item()


def semantic_entropy(
    features: Float[Tensor, "n k"], labels: Integer[Tensor, " n"], weighting: Weighting = "mass"
) -> float:
    """The mean over dimensions of the entropy over classes, in nats, 0..ln C.

    Unlike `metrics.semantic_entropy` it is not divided by ln C, it depends on the scale of the
    features (a dimension whose sum is below 1e-5 is dropped, an entry below 1e-5 is inactive), it
    skips classes with a share below 1e-5, it scores dimensions at any support, and a dead model
    has 0, the best value there is.

    Raises:
        TypeError, ValueError: features or labels are unfit, or the weighting is not one of the
            three.
    """
    features = checked_features(features).abs()
    labels = checked_labels(labels, features)
    check_weighting(weighting)
    live = features.sum(dim=0, dtype=torch.float64) > EPSILON
    values = features[:, live] > EPSILON if weighting == "frequency" else features[:, live]
    if values.dtype == torch.float64:  # whose sums could overflow; as shares they mean the same
        values = values.where(values.amax(dim=0) < HUGE, torch.ldexp(values, torch.tensor(-512)))
    weights, sizes = class_sums(values, labels)
    if weighting == "mean":
        weights = weights / (sizes[:, None] + EPSILON)
    weights = weights[:, weights.sum(dim=0) >= EPSILON]
    if weights.shape[1] == 0:
        return 0.0
    shares = weights / weights.sum(dim=0)
    entropy: Tensor = torch.special.entr(shares.where(shares > EPSILON, 0.0)).sum(dim=0)
    return entropy.mean().item()


def effective_rank(features: Float[Tensor, "n k"]) -> float:
    """The entropy of the normalised singular values, in nats, 0..ln min(N, K).

    Unlike `metrics.effective_rank` it is the entropy and not its exponential, and 1e-6 is added
    inside the logarithm. NaN for a dead model.

    Raises:
        TypeError, ValueError: features are unfit.
    """
    features = checked_features(features)
    singular: Tensor = torch.linalg.svdvals(_in_fp32(features)).double()
    shares = singular / singular.sum()
    return -(shares * (shares + 1e-6).log()).sum().item()


def orthogonality(features: Float[Tensor, "n k"]) -> float:
    """The mean over a D x D matrix of |cos| of different columns, each divided by D (D - 1).

    Unlike `metrics.orthogonality` it is divided twice, by the number of pairs and then by that of
    entries, which at D = 256 makes it 65,536 times smaller: it prints as 0.000 whatever the
    features. NaN with fewer than two of the D live dimensions, those that are not all zero.

    Raises:
        TypeError, ValueError: features are unfit.
    """
    features = checked_features(features)
    columns = _in_fp32(features[:, features.abs().amax(dim=0) > 0])
    count = columns.shape[1]
    if count < 2:
        return math.nan
    columns = torch.nn.functional.normalize(columns, dim=0)
    overlap = (columns.T @ columns - torch.eye(count, device=columns.device)).abs()
    return (overlap / (count * (count - 1))).mean().item()


def _in_fp32(features: Tensor) -> Tensor:
    """Features in fp32; such as would overflow in it, or in its squares, are scaled down.

    Where scale means nothing. By a power of two, so that no digit changes.
    """
    if features.numel() == 0:
        return features.float()
    _, exponent = torch.frexp(features.abs().amax().double())
    if -ORDINARY < int(exponent) < ORDINARY:
        return features.float()
    return torch.ldexp(features.double(), -exponent).float()
