"""Transforms of the query view, and the table of builders that recipes name."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from pellucid.query_transforms.query_transform import QueryTransform
from pellucid.types import Terms

__all__ = ["QUERY_TRANSFORMS", "QueryTransform", "Unchanged"]


class Unchanged(QueryTransform):
    """The query view as it is."""

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b 3 h w"], Terms]:
        return images, {}


QUERY_TRANSFORMS: dict[str, Callable[..., QueryTransform]] = {"unchanged": Unchanged}
