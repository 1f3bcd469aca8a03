"""The head of plain contrastive learning."""

from jaxtyping import Float
from torch import Tensor

from pellucid.heads.head import Head
from pellucid.types import HeadOutput


class Signed(Head):
    """The projection as it is, z = u (SimCLR, MoCo, BYOL)."""

    def forward(self, u: Float[Tensor, "B K"], h: Float[Tensor, "B F"]) -> HeadOutput:
        return HeadOutput(u, {})
