"""BYOL (Grill et al., NeurIPS 2020, arXiv 2006.07733)."""

import math
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from pellucid.branch import Branch
from pellucid.frameworks.framework import Framework
from pellucid.losses import cosine_regression
from pellucid.nets import MomentumCopy
from pellucid.types import Step


class BYOL(Framework):
    """The online branch predicts what a slow copy of it says of the other view; no negatives.

    The predictor follows the head. Symmetric: the losses of both directions are summed. The copy's
    momentum rises from `momentum` to 1 along half a cosine.

    Source: BYOL, equations 1 and 2, and section 3.3 for the momentum.

    Args:
        online: the branch to train.
        predictor: representation [B, K] -> prediction [B, K].
        momentum: of the copy at the start.

    Raises:
        ValueError: momentum is not between 0 and 1.
    """

    symmetric = True

    def __init__(self, online: Branch, predictor: nn.Module, momentum: float = 0.996) -> None:
        super().__init__(online)
        if not 0 <= momentum <= 1:
            raise ValueError(f"momentum must lie between 0 and 1, got {momentum}")
        self.target = MomentumCopy(online)
        self.predictor = predictor
        self.momentum = momentum

    def forward(self, query: Float[Tensor, "b 3 h w"], key: Float[Tensor, "b 3 h w"]) -> Step:
        q, k = self.online(query), self.target(key)
        # A mean over images, so the ranks' losses average to that of one process without a gather.
        contrast = cosine_regression(self.predictor(q.z), k.z)
        return Step({"contrast": contrast}, query=q, key=k, anchor=k)

    def after_step(self, steps: Sequence[Step], progress: float) -> None:
        """Move the copy by the momentum of this point of the training."""
        self.target.follow(self.online, momentum_at(self.momentum, progress))


def momentum_at(start: float, progress: float) -> float:
    """1 - (1 - start) (cos(pi progress) + 1) / 2: `start` at 0, 1 at the end of the training."""
    return 1 - (1 - start) * (math.cos(math.pi * progress) + 1) / 2
