"""The head of non-negative contrastive learning."""

from typing import Literal, get_args

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from pellucid.heads.head import Head
from pellucid.types import HeadOutput

Activation = Literal["rep-relu", "relu", "softplus"]


class NonNegative(Head):
    """A representation without negative entries.

    `rep-relu` is relu forward and the gradient of GELU backward, so that a dimension that is off
    can come back; `relu` and `softplus` are themselves. With `layer_norm`, u is first brought to
    mean 0 and variance 1 over K in each image, without learnt scale or shift.

    Source: NCL (Wang et al., 2024, arXiv 2403.12459).

    Raises:
        ValueError: the activation is unknown.
    """

    def __init__(self, activation: Activation = "rep-relu", layer_norm: bool = False) -> None:
        super().__init__()
        if activation not in get_args(Activation):
            valid = ", ".join(get_args(Activation))
            raise ValueError(f"activation must be one of {valid}, got {activation!r}")
        self.activation = activation
        self.layer_norm = layer_norm

    def forward(self, u: Float[Tensor, "B K"], h: Float[Tensor, "B F"]) -> HeadOutput:
        if self.layer_norm:
            u = F.layer_norm(u, u.shape[1:])
        if self.activation == "relu":
            return HeadOutput(F.relu(u), {})
        if self.activation == "softplus":
            return HeadOutput(F.softplus(u), {})
        gelu = F.gelu(u)
        # g - sg[g] is 0 exactly, whatever g is, so the sum is relu(u) to the last bit.
        return HeadOutput((gelu - gelu.detach()) + F.relu(u.detach()), {})

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}, layer_norm={self.layer_norm}"
