"""Images as a grid of patches, with a learnt code for each place."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class PatchGrid(nn.Module):
    """Images [B, 3, H, W] <-> patches [B, 3 p^2, H/p, W/p], and position codes of that grid.

    Codes are learnt on a grid of `grid` x `grid` places, and interpolated to others.

    Args:
        patch: p, the side of a patch in pixels.
        grid: side of the grid of codes; image side / p needs no interpolation.

    Raises:
        ValueError: either is below 1.
    """

    def __init__(self, patch: int, grid: int) -> None:
        super().__init__()
        if patch < 1 or grid < 1:
            raise ValueError(f"patch and grid must be at least 1, got {patch} and {grid}")
        self.patch = patch
        self.channels = 3 * patch**2
        self.codes = nn.Parameter(0.02 * torch.randn(1, self.channels, grid, grid))

    def cut(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c y x"]:
        """Cut images into patches.

        Raises:
            ValueError: the patch does not divide the images' sides.
        """
        height, width = images.shape[-2:]
        if height % self.patch or width % self.patch:
            fits = [p for p in range(1, min(height, width) + 1) if not (height % p or width % p)]
            raise ValueError(
                f"patches of {self.patch} do not divide images of {height}x{width}; "
                f"set query_transform.patch to one of {', '.join(map(str, fits))}"
            )
        return F.pixel_unshuffle(images, self.patch)

    def join(self, patches: Float[Tensor, "b c y x"]) -> Float[Tensor, "b 3 h w"]:
        """Put patches back into images; the inverse of `cut`."""
        return F.pixel_shuffle(patches, self.patch)

    def codes_of(self, patches: Float[Tensor, "b c y x"]) -> Float[Tensor, "1 c y x"]:
        """The position codes of a grid of this size."""
        size = tuple(patches.shape[-2:])
        if size == tuple(self.codes.shape[-2:]):
            return self.codes
        return F.interpolate(self.codes, size, mode="bilinear", align_corners=False)
