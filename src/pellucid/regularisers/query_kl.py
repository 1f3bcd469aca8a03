"""The regulariser that keeps the query's meaning."""

from pellucid.distributed import gather
from pellucid.losses.entropy import SHRINKAGE, gaussian_kl
from pellucid.regularisers.regulariser import Regulariser
from pellucid.types import Step, Terms


class QueryKL(Regulariser):
    """Term `query_kl`: KL(query || anchor) in nats, of the unit projections on all ranks.

    Gaussian, in closed form, with the anchor's statistics taken as given. It holds -H(query), so
    beside `entropy` the weight of the query's entropy is the sum of both weights.

    Source: IE-CL (arXiv 2603.12594); see `pellucid.losses.gaussian_kl` for what is ours.

    Args:
        shrinkage: of both covariances towards I / K.

    Raises:
        ValueError: shrinkage is not above 0 and at most 1.
    """

    def __init__(self, shrinkage: float = SHRINKAGE) -> None:
        super().__init__()
        if not 0 < shrinkage <= 1:
            raise ValueError(f"shrinkage must be above 0 and at most 1, got {shrinkage}")
        self.shrinkage = shrinkage

    def forward(self, step: Step) -> Terms:
        query, anchor = gather(step.query.u), gather(step.anchor.u.detach())
        return {"query_kl": gaussian_kl(query, anchor, self.shrinkage)}
