"""Batch norm over random groups of a batch."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

SMALLEST = 2
"""Images of a group, at least: batch norm needs two."""


class ShuffledGroups(nn.Module):
    """In training, images pass through an encoder in random groups; in evaluation all at once.

    Batch norm then takes its statistics over a random part of the batch, in place of the same
    images that a query's are taken over: those would mark which key belongs to it. MoCo shuffles
    keys over GPUs for this; groups do it within one process (each process shuffles its own).

    Source: shuffling batch norm, MoCo (arXiv 1911.05722), section 3.3.

    Args:
        encoder: images [B, 3, H, W] -> features [B, F].
        groups: at most this many, of at least two images each.
    """

    def __init__(self, encoder: nn.Module, groups: int) -> None:
        super().__init__()
        if groups < 1:
            raise ValueError(f"there must be at least 1 group, got {groups}")
        self.encoder = encoder
        self.groups = groups

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b f"]:
        count = len(images)
        groups = min(self.groups, count // SMALLEST)
        if not self.training or groups < 2:
            whole: Tensor = self.encoder(images)
            return whole
        # One draw whatever the batch, so that what is drawn later does not depend on its size.
        generator = torch.Generator().manual_seed(int(torch.randint(2**62, ())))
        order = torch.randperm(count, generator=generator).to(images.device)
        features = [self.encoder(some) for some in images[order].tensor_split(groups)]
        return torch.cat(features)[order.argsort()]

    def extra_repr(self) -> str:
        return f"groups={self.groups}"
