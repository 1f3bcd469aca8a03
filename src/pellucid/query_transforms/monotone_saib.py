"""A SAIB that cannot shrink volume."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.query_transforms.patches import PatchGrid
from pellucid.query_transforms.query_transform import QueryTransform
from pellucid.types import Terms


class MonotoneSaib(QueryTransform):
    """x' = x + W' s(W x + b), with s = softplus - log 2 and W two convolutions over patches.

    Its log |det J| is above 0 at any weights but W = 0:

    1. the residual W' s(W x + b) is the gradient of sum_i S(w_i x + b_i) with S' = s;
    2. so J = I + W' diag(s') W is symmetric, and s' = sigmoid > 0 makes W' diag(s') W positive
       semi-definite, with a positive eigenvalue unless W = 0;
    3. all eigenvalues of J are then at least 1 and one is above 1: log |det J| > 0.

    Ours, not the paper's; made of the same parts as `Saib`: position codes, expansion, a skip
    around the 3x3 convolution, the skip to the input.

    Args:
        patch: side of a patch in pixels; must divide the images' sides.
        expansion: channels of the bottleneck over those of a patch.
        grid: side of the grid of position codes; other grids interpolate them.

    Raises:
        ValueError: a setting is impossible; in the first forward, images that the patch does not
            divide.
    """

    def __init__(self, patch: int = 4, expansion: int = 2, grid: int = 8) -> None:
        super().__init__()
        if expansion < 1:
            raise ValueError(f"expansion must be at least 1, got {expansion}")
        self.patches = PatchGrid(patch, grid)
        narrow, wide = self.patches.channels, expansion * self.patches.channels
        self.expand = nn.Conv2d(narrow, wide, 1)
        self.mix = nn.Conv2d(wide, wide, 3, padding=1)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b 3 h w"], Terms]:
        patches = self.patches.cut(images)
        with torch.autocast(images.device.type, enabled=False):  # W' must be W's to the last bit
            patches = patches.to(torch.promote_types(patches.dtype, torch.float32))
            e = self.expand(patches + self.patches.codes_of(patches))
            s = F.softplus(e + self.mix(e)) - math.log(2)  # 0 at 0: no shift of the mean
            s = s + F.conv_transpose2d(s, self.mix.weight, padding=1)
            residual = F.conv_transpose2d(s, self.expand.weight)
        return images + self.patches.join(residual), {}
