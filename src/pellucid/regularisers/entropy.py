"""The regulariser that keeps the entropy of the query."""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from pellucid.distributed import gather
from pellucid.losses.entropy import SHRINKAGE, gaussian_entropy, nearest_neighbour_entropy
from pellucid.regularisers.regulariser import Regulariser
from pellucid.types import Step, Terms

Estimator = Literal["gaussian", "nearest"]


class Entropy(Regulariser):
    """Term `entropy`: minus H(Z') in nats, of the query's unit projections on all ranks.

    Minus, because terms are minimised: with a weight of lambda the loss holds -lambda H.

    Source: IE-CL (arXiv 2603.12594); see `pellucid.losses.gaussian_entropy` for what is ours.

    Args:
        estimator: `gaussian`, or `nearest` for distances to nearest neighbours.
        shrinkage: of the Gaussian's covariance towards I / K.

    Raises:
        ValueError: a setting is impossible.
    """

    def __init__(self, estimator: Estimator = "gaussian", shrinkage: float = SHRINKAGE) -> None:
        super().__init__()
        estimators: dict[str, Callable[[Tensor], Tensor]] = {
            "gaussian": self._gaussian,
            "nearest": nearest_neighbour_entropy,
        }
        if estimator not in estimators:
            raise ValueError(f"estimator must be gaussian or nearest, got {estimator!r}")
        if not 0 < shrinkage <= 1:
            raise ValueError(f"shrinkage must be above 0 and at most 1, got {shrinkage}")
        self.estimator = estimators[estimator]
        self.shrinkage = shrinkage

    def forward(self, step: Step) -> Terms:
        return {"entropy": -self.estimator(gather(step.query.u))}

    def _gaussian(self, u: Float[Tensor, "n k"]) -> Float[Tensor, ""]:
        return gaussian_entropy(u, self.shrinkage)
