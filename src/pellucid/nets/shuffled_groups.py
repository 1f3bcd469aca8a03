"""Batch norm over random groups of a batch."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.transfer import send

SMALLEST = 2
"""Rows of a group, at least: batch norm needs two."""


class ShuffledGroups(nn.Module):
    """In training, rows pass through a net in random groups; in evaluation all at once.

    Batch norm then takes its statistics over a random part of the batch, in place of the same
    images that a query's are taken over: those would mark which key belongs to it. MoCo shuffles
    keys over GPUs for this; groups do it within one process (each process shuffles its own).

    Source: shuffling batch norm, MoCo (arXiv 1911.05722), section 3.3.

    Args:
        net: rows [B, ...] -> rows [B, F].
        groups: at most this many, of at least two rows each.
    """

    def __init__(self, net: nn.Module, groups: int) -> None:
        super().__init__()
        if groups < 1:
            raise ValueError(f"there must be at least 1 group, got {groups}")
        self.net = net
        self.groups = groups

    def forward(self, rows: Float[Tensor, "b ..."]) -> Float[Tensor, "b f"]:
        if not self.training:
            return self._whole(rows)
        # One draw whatever the batch, so that what is drawn later does not depend on its size.
        generator = torch.Generator().manual_seed(int(torch.randint(2**62, ())))
        count = len(rows)
        groups = min(self.groups, count // SMALLEST)
        if groups < 2:
            return self._whole(rows)
        order = send(torch.randperm(count, generator=generator), rows.device)
        features = [self.net(some) for some in rows[order].tensor_split(groups)]
        return torch.cat(features)[order.argsort()]

    def _whole(self, rows: Tensor) -> Tensor:
        features: Tensor = self.net(rows)
        return features

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
