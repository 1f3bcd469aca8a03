"""How much of a representation is in use: over dimensions, and over entries."""

from jaxtyping import Float
from torch import Tensor

from pellucid.metrics.activity import active_entries
from pellucid.metrics.checks import checked_features


def activation_rate(features: Float[Tensor, "n k"]) -> float:
    """The share of live dimensions, active on at least one image: the Act. of BayesNCL.

    Active means |z| > 1e-5 after rows are scaled to unit length. In 0..1; 0 for a dead model.

    Source: BayesNCL (arXiv 2605.28441).
    """
    active = active_entries(checked_features(features))
    return active.any(dim=0).sum().item() / active.shape[1]


def density(features: Float[Tensor, "n k"]) -> float:
    """The share of the N x K entries that are active, one minus the papers' sparsity.

    Active means |z| > 1e-5 after rows are scaled to unit length. In 0..1; 0 for a dead model.

    Source: NCL (arXiv 2403.12459).
    """
    active = active_entries(checked_features(features))
    return active.sum().item() / active.numel()
