"""The head that keeps the strongest dimensions of each image."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.heads.head import Head
from pellucid.heads.non_negative import NonNegative
from pellucid.types import Embedding, HeadOutput


class TopK(Head):
    """The k largest entries of each image's inner representation; the others become 0.

    Exactly k positions are kept, also among ties; gradients reach those only.

    Raises:
        ValueError: k is below 1 (at construction) or above K (at the first forward pass).
    """

    def __init__(self, k: int, inner: Head | None = None) -> None:
        super().__init__()
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        self.k = k
        self.inner = NonNegative() if inner is None else inner

    def forward(self, u: Float[Tensor, "B K"], h: Float[Tensor, "B F"]) -> HeadOutput:
        inner: HeadOutput = self.inner(u, h)
        return inner._replace(z=self._strongest(inner.z))

    def ungated(self, u: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Select among the inner head's entries before its gates."""
        return self._strongest(self.inner.ungated(u))

    def after_step(self, embeddings: Sequence[Embedding], progress: float) -> None:
        """Let the inner head move what it has."""
        self.inner.after_step(embeddings, progress)

    def _strongest(self, z: Tensor) -> Tensor:
        if self.k > z.shape[1]:
            raise ValueError(f"k must be at most the {z.shape[1]} dimensions of z, got {self.k}")
        values, places = z.topk(self.k, dim=1)
        return torch.zeros_like(z).scatter(1, places, values)

    def extra_repr(self) -> str:
        return f"k={self.k}"
