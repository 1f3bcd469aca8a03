"""SimCLR (Chen et al., ICML 2020, arXiv 2002.05709)."""

import math

from jaxtyping import Float
from torch import Tensor

from pellucid.branch import Branch
from pellucid.distributed import gather, world_size
from pellucid.frameworks.framework import Framework
from pellucid.losses import nt_xent
from pellucid.types import Step, Terms


class SimCLR(Framework):
    """One branch sees both views; NT-Xent over all images of all ranks (algorithm 1).

    Each view passes through batch norm by itself, as in the code of NCL and BayesNCL.
    """

    def __init__(self, online: Branch, temperature: float = 0.2) -> None:
        super().__init__(online)
        if temperature <= 0:
            raise ValueError(f"temperature must be positive, got {temperature}")
        self.temperature = temperature

    def forward(self, query: Float[Tensor, "b 3 h w"], key: Float[Tensor, "b 3 h w"]) -> Step:
        q, k = self.online(query), self.online(key)
        contrast = nt_xent(gather(q.z), gather(k.z), self.temperature)
        return Step({"contrast": contrast}, query=q, key=k, anchor=k)

    def observe(self, step: Step) -> Terms:
        """`information`: log(2N - 1) - loss, below the mutual information of the views in nats.

        Source: the bound of InfoNCE (van den Oord et al., 2018, arXiv 1807.03748), equation 4.
        """
        images = world_size() * len(step.query.z)
        return {"information": math.log(2 * images - 1) - step.terms["contrast"].detach()}
