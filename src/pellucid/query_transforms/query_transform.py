"""What every query transform is."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from pellucid.types import Terms


class QueryTransform(nn.Module, ABC):
    """A map of the normalised query view: images [B, 3, H, W] -> (images, terms)."""

    @abstractmethod
    def forward(
        self, images: Float[Tensor, "b 3 h w"]
    ) -> tuple[Float[Tensor, "b 3 h w"], Terms]: ...
