"""MoCo v2 (He et al., CVPR 2020, arXiv 1911.05722; Chen et al., 2020, arXiv 2003.04297)."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.branch import Branch
from pellucid.distributed import gather
from pellucid.frameworks.framework import Framework
from pellucid.losses import info_nce
from pellucid.nets import KeyQueue, MomentumCopy, ShuffledGroups
from pellucid.types import Step, Terms


class MoCo(Framework):
    """Queries of the online branch against keys of a slow copy of it and a queue of older keys.

    One-sided. A step's own keys enter the queue after the step, so no query meets its own key among
    the negatives; the first step has no negatives, and a loss of 0. Keys pass through batch norm in
    random groups (`pellucid.nets.ShuffledGroups`).

    Source: MoCo, algorithm 1; v2 adds the MLP projector and stronger views.

    Args:
        online: the branch to train.
        queue: of the older keys.
        temperature: divides the cosines.
        momentum: of the copy; it keeps this share of itself at every optimiser step.
        groups: that keys pass through batch norm in; 1 for the whole batch.

    Raises:
        ValueError: a setting is impossible.
    """

    def __init__(
        self,
        online: Branch,
        queue: KeyQueue,
        temperature: float = 0.2,
        momentum: float = 0.999,
        groups: int = 4,
    ) -> None:
        super().__init__(online)
        if temperature <= 0:
            raise ValueError(f"temperature must be positive, got {temperature}")
        if not 0 <= momentum <= 1:
            raise ValueError(f"momentum must lie between 0 and 1, got {momentum}")
        self.target = MomentumCopy(online)
        for part in ("encoder", "projector"):
            whole = self.target.net.get_submodule(part)
            self.target.net.set_submodule(part, ShuffledGroups(whole, groups))
        self.queue = queue
        self.temperature = temperature
        self.momentum = momentum

    def forward(self, query: Float[Tensor, "b 3 h w"], key: Float[Tensor, "b 3 h w"]) -> Step:
        q, k = self.online(query), self.target(key)
        # Every rank computes the loss of all queries, as SimCLR does, and logs the same value.
        contrast = info_nce(gather(q.z), gather(k.z), self.queue.keys(), self.temperature)
        return Step({"contrast": contrast}, query=q, key=k, anchor=k)

    @torch.no_grad()
    def after_step(self, steps: Sequence[Step], progress: float) -> None:
        """Move the copy, then take the keys of all micro-steps and ranks into the queue."""
        self.target.follow(self.online, self.momentum)
        for step in steps:
            self.queue.put(gather(step.key.z))

    def observe(self, step: Step) -> Terms:
        """`information`: log(1 + negatives) - loss, a bound as SimCLR's; `queue`: its keys."""
        negatives = len(self.queue)
        contrast = step.terms["contrast"].detach()
        return {
            "information": math.log(1 + negatives) - contrast,
            "queue": torch.tensor(float(negatives), device=contrast.device),
        }

    def remarks(self, images: int) -> list[str]:
        """Name a queue that holds older keys of the queries' own images."""
        if self.queue.size < images:
            return []
        return [
            f"the queue of {self.queue.size} keys is as long as the {images} images or longer: it "
            "always holds an older key of every query's own image as a negative; "
            f"set framework.queue well below {images}"
        ]
