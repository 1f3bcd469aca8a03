"""The regulariser that keeps the query transform small."""

import torch
from torch import nn

from pellucid.regularisers.regulariser import Regulariser
from pellucid.types import Step, Terms


class TransformDecay(Regulariser):
    """Term `transform_decay`: the sum of squares of the query transform's parameters.

    Source: gamma ||phi||^2 of IE-CL (arXiv 2603.12594).

    Args:
        transform: whose parameters; held, not owned: a learner trains and saves it.

    Raises:
        ValueError: it has no parameters.
    """

    def __init__(self, transform: nn.Module) -> None:
        super().__init__()
        if next(transform.parameters(), None) is None:
            raise ValueError(
                "transform_decay needs a query transform with parameters; set "
                "query_transform.name=saib, or weights.transform_decay=none"
            )
        self.held = (transform,)  # in a tuple, or its parameters would be saved twice

    def forward(self, step: Step) -> Terms:
        del step
        squares = [parameter.square().sum() for parameter in self.held[0].parameters()]
        return {"transform_decay": torch.stack(squares).sum()}
