"""What every contrastive framework is."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from pellucid.branch import Branch
from pellucid.types import Step, Terms


class Framework(nn.Module, ABC):
    """Two views of a batch -> `Step`. `online` is the branch that is trained and evaluated."""

    symmetric = False
    """Whether a step is (query, key) and (key, query), whose losses are summed."""

    def __init__(self, online: Branch) -> None:
        super().__init__()
        self.online = online

    @abstractmethod
    def forward(self, query: Float[Tensor, "b 3 h w"], key: Float[Tensor, "b 3 h w"]) -> Step:
        """Compare the views; changes nothing but batch-norm statistics."""

    def after_step(self, steps: Sequence[Step], progress: float) -> None:
        """Move what gradients do not, once an optimiser step; `progress` runs from 0 to 1."""
        del steps, progress

    def observe(self, step: Step) -> Terms:
        """Values worth logging of a step that has not been followed by `after_step` yet."""
        del step
        return {}

    def remarks(self, images: int) -> list[str]:
        """What a user should know before training on so many images, in words."""
        del images
        return []
