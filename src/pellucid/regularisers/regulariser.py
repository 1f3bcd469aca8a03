"""What every regulariser is."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import nn

from pellucid.types import Step, Terms


class Regulariser(nn.Module, ABC):
    """A module `Step -> Terms` that never asks which framework made the step."""

    @abstractmethod
    def forward(self, step: Step) -> Terms:
        """Unweighted terms; changes nothing."""

    def after_step(self, steps: Sequence[Step], progress: float) -> None:
        """Move what gradients do not, once an optimiser step; `progress` runs from 0 to 1."""
        del steps, progress
