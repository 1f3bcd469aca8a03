"""Data sets that are made from a seed, by name."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from jaxtyping import Int, UInt8
from torch import Tensor

from pellucid.data.scenes import BACKGROUNDS, make_scenes
from pellucid.data.source import DataError


class Labels(NamedTuple):
    """One way to label every image of a set."""

    labels: Int[Tensor, " n"]
    classes: tuple[str, ...]


class Generated(NamedTuple):
    """A made split."""

    pixels: UInt8[Tensor, "n 3 s s"]
    labels: Labels
    extra: dict[str, Labels]
    """Further truths by name, such as `background`."""
    names: list[str]


def scenes(
    split: Literal["train", "test"], count: int | None, size: int | None, seed: int
) -> Generated:
    """Digits on photographs (see `scenes.make_scenes`); 10,240 training and 2,048 test images."""
    count = count or {"train": 10_240, "test": 2_048}[split]
    try:
        made = make_scenes(split, count, size=size or 32, seed=seed)
    except ValueError as error:
        raise DataError(
            f"scenes cannot be made with this stored_size, limit or seed: {error}"
        ) from error
    return Generated(
        made.pixels,
        Labels(made.objects, tuple("0123456789")),
        {"background": Labels(made.backgrounds, BACKGROUNDS)},
        [
            f"{split}/{digit}-on-{BACKGROUNDS[background]}-{index}"
            for index, (digit, background) in enumerate(
                zip(made.objects.tolist(), made.backgrounds.tolist(), strict=True)
            )
        ],
    )


GENERATED: dict[str, Callable[..., Generated]] = {"scenes": scenes}
