"""A copy of a net that follows it slowly."""

import copy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pellucid.types import Embedding


class MomentumCopy(nn.Module):
    """The target of MoCo and BYOL: images [B, 3, H, W] -> an `Embedding` that asks for nothing.

    Parameters are an exponential average of the online ones, in the precision they are stored in
    (fp32 under autocast). Batch norms keep their own statistics, those of the images that the copy
    sees; other buffers, such as a head's running frequencies, are those of the online net.

    Args:
        online: images -> `Embedding`; copied as it is now.
    """

    def __init__(self, online: nn.Module) -> None:
        super().__init__()
        self.net = copy.deepcopy(online).requires_grad_(False)

    @torch.no_grad()
    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Embedding:
        embedding: Embedding = self.net(images)
        return embedding._replace(terms={})

    @torch.no_grad()
    def follow(self, online: nn.Module, momentum: float) -> None:
        """Move to momentum * own + (1 - momentum) * online, once per optimiser step."""
        for own, new in zip(self.net.parameters(), online.parameters(), strict=True):
            own.lerp_(new.to(own.dtype), 1 - momentum)
        for own_buffer, buffer in zip(_state(self.net), _state(online), strict=True):
            own_buffer.copy_(buffer)


def _state(net: nn.Module) -> list[Tensor]:
    """Buffers of all modules but batch norms."""
    modules: list[Any] = [m for m in net.modules() if not isinstance(m, _BatchNorm)]
    return [buffer for module in modules for buffer in module.buffers(recurse=False)]
