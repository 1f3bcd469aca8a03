"""Regularisers: what a step should also keep to, and the table of builders that recipes name."""

from collections.abc import Callable

from torch import nn

from pellucid.losses.entropy import SHRINKAGE
from pellucid.regularisers.entropy import Entropy, Estimator
from pellucid.regularisers.query_kl import QueryKL
from pellucid.regularisers.regulariser import Regulariser
from pellucid.regularisers.spectral import Spectral
from pellucid.regularisers.transform_decay import TransformDecay

__all__ = ["REGULARISERS", "Entropy", "QueryKL", "Regulariser", "Spectral", "TransformDecay"]


def entropy(
    encoder: nn.Module,
    transform: nn.Module,
    *,
    estimator: Estimator = "gaussian",
    shrinkage: float = SHRINKAGE,
) -> Entropy:
    """Minus the entropy of the query's projections, in nats (arXiv 2603.12594).

    Args:
        encoder: not needed here.
        transform: not needed here.
        estimator: of the entropy; nearest makes no Gaussian assumption.
        shrinkage: of the Gaussian's covariance.
    """
    del encoder, transform
    return Entropy(estimator, shrinkage)


def query_kl(encoder: nn.Module, transform: nn.Module, *, shrinkage: float = SHRINKAGE) -> QueryKL:
    """KL of the query's projections from the anchor's, in nats (arXiv 2603.12594).

    Args:
        encoder: not needed here.
        transform: not needed here.
        shrinkage: of both covariances.
    """
    del encoder, transform
    return QueryKL(shrinkage)


def spectral(encoder: nn.Module, transform: nn.Module, *, folded: bool = True) -> Spectral:
    """Mean squared largest singular value of the encoder's layers (arXiv 2603.12594).

    Args:
        encoder: whose layers.
        transform: not needed here.
        folded: with the batch norm behind each layer; false is the plain published form.
    """
    del transform
    return Spectral(encoder, folded)


def transform_decay(encoder: nn.Module, transform: nn.Module) -> TransformDecay:
    """Sum of squares of the query transform's parameters (arXiv 2603.12594).

    Args:
        encoder: not needed here.
        transform: whose parameters.
    """
    del encoder
    return TransformDecay(transform)


REGULARISERS: dict[str, Callable[..., Regulariser]] = {
    "entropy": entropy,
    "query_kl": query_kl,
    "spectral": spectral,
    "transform_decay": transform_decay,
}
"""Builders (encoder, query transform, *, settings) by the name of the term that each computes."""
