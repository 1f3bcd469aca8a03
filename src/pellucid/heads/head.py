"""The contract of a head."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from pellucid.types import Embedding, HeadOutput


class Head(nn.Module, ABC):
    """Turns a projection into a representation, and names what it wants minimised."""

    @abstractmethod
    def forward(self, u: Float[Tensor, "B K"], h: Float[Tensor, "B F"]) -> HeadOutput:
        """Map projection u and features h to z, unweighted terms and gates; change nothing."""

    def ungated(self, u: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Compute what z would be with every gate open, so that a page can show what gates remove.

        A head that reads h must say so itself: the default offers it features of width 0.
        """
        return self(u, u.new_empty(len(u), 0)).z

    def after_step(self, embeddings: Sequence[Embedding], progress: float) -> None:
        """Move what gradients do not, once per optimiser step; the default has nothing to move.

        `embeddings` are this process' query embeddings of all micro-steps of the optimiser step,
        `progress` is the share of training that is done, from 0 to 1.
        """
