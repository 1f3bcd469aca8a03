"""Transforms of the query view, and the table of builders that recipes name."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from pellucid.query_transforms.monotone_saib import MonotoneSaib
from pellucid.query_transforms.query_transform import QueryTransform
from pellucid.query_transforms.saib import Saib
from pellucid.types import Terms

__all__ = ["QUERY_TRANSFORMS", "MonotoneSaib", "QueryTransform", "Saib", "Unchanged"]


class Unchanged(QueryTransform):
    """The query view as it is."""

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b 3 h w"], Terms]:
        return images, {}


def unchanged(image_size: int) -> Unchanged:
    """The query view as it is."""
    del image_size
    return Unchanged()


def saib(image_size: int, *, patch: int = 4, expansion: int = 2) -> Saib:
    """A learnt bottleneck over patches that adds entropy to the query view (arXiv 2603.12594).

    Args:
        image_size: side of the views in pixels; the grid of position codes is that of its patches.
        patch: side of a patch in pixels; must divide the image size.
        expansion: channels of the bottleneck over those of a patch.
    """
    return Saib(patch, expansion, grid=max(1, image_size // max(1, patch)))


def monotone_saib(image_size: int, *, patch: int = 4, expansion: int = 2) -> MonotoneSaib:
    """A SAIB whose entropy gain is above 0 at any weights (ours).

    Args:
        image_size: side of the views in pixels; the grid of position codes is that of its patches.
        patch: side of a patch in pixels; must divide the image size.
        expansion: channels of the bottleneck over those of a patch.
    """
    return MonotoneSaib(patch, expansion, grid=max(1, image_size // max(1, patch)))


QUERY_TRANSFORMS: dict[str, Callable[..., QueryTransform]] = {
    "unchanged": unchanged,
    "saib": saib,
    "monotone-saib": monotone_saib,
}
"""Builders (image size, *, settings) -> QueryTransform; a recipe's keys are their keywords."""
