"""SAIB, the learnt transform of IE-CL (Zhang et al., ICLR 2026, arXiv 2603.12594)."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.query_transforms.patches import PatchGrid
from pellucid.query_transforms.query_transform import QueryTransform
from pellucid.types import Terms


class Saib(QueryTransform):
    """A bottleneck over patches with three skips, [B, 3, H, W] -> [B, 3, H, W].

    With t the patches of x plus position codes, and act = GELU:
    e = act(conv1x1(t)), e' = e + act(conv3x3(e)), P' = t + conv1x1(e'), x' = x + image(P').

    Our reading of the paper's "1x1, 3x3, 1x1, two skips around it, a third to the input"; GELU,
    patch and expansion of 2 are ours. x' is close to 2x, so log |det J| is about D log 2 by scale
    alone: see `pellucid.metrics.volume`.

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
        self.project = nn.Conv2d(wide, narrow, 1)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b 3 h w"], Terms]:
        patches = self.patches.cut(images)
        t = patches + self.patches.codes_of(patches)
        e = F.gelu(self.expand(t))
        e = e + F.gelu(self.mix(e))
        changed = t + self.project(e)
        return images + self.patches.join(changed), {}
