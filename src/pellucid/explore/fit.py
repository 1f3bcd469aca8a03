"""As many images as a budget of bytes holds, in the largest thumbnails that it holds."""

import json
from typing import Any, NamedTuple

from jaxtyping import UInt8
from torch import Tensor

from pellucid.explore import thumbnails
from pellucid.explore.content import Statistics, content
from pellucid.explore.pack import Packed, compress, pack
from pellucid.explore.sample import sample
from pellucid.explore.thumbnails import Thumbnails
from pellucid.explore.versus import matched, versus
from pellucid.representation.representation import Representation
from pellucid.run import RunError

FEWEST = 20
"""Images below which a page would show nothing."""
SPARE = 0.97
"""Of the room: estimates are of a choice of images."""


class Fitted(NamedTuple):
    """What the page holds of its images."""

    images: Tensor
    """Their indices, ascending."""
    tree: dict[str, Any]
    content: bytes
    """The tree with what belongs to images, compressed JSON."""
    entries: Packed
    thumbnails: Thumbnails | None


def fit(
    representation: Representation,
    counted: Statistics,
    other: Representation | None,
    *,
    room: int,
    most: int | None = None,
    pictures: bool = True,
    file_names: bool = True,
) -> Fitted:
    """Choose images and the size of their thumbnails.

    All images with the largest thumbnails that fit; where not even the smallest do, fewer images,
    each class with its share.

    Args:
        representation: whose images.
        counted: the statistics, over all images.
        other: a second representation of the same images, which the page compares with.
        room: bytes that text, activations and thumbnails may take, as base64.
        most: images that the user allows.
        pictures: whether there are thumbnails.
        file_names: whether file names are written down.

    Raises:
        RunError: not even a few images fit, or none are allowed.
    """
    if most is not None and most < 1:
        raise RunError(f"a page holds at least 1 image, not {most}")
    total = len(representation.z)
    matching = None if other is None else matched(representation, other)
    count = min(total, most or total)
    pixels = representation.thumbnails() if pictures and representation.thumbnails else None
    sizes = {} if pixels is None else _estimates(pixels)
    while True:
        images = sample(representation.labels, total, count)
        tree = content(representation, counted, images, file_names=file_names)
        tree["versus"] = (
            None
            if other is None or matching is None
            else versus(representation, other, matching, images)
        )
        entries = pack(representation, images)
        packed = compress(json.dumps(tree, separators=(",", ":"), allow_nan=False).encode())
        left = room - in_base64(packed) - in_base64(entries.data)
        if pixels is None:
            if left >= 0:
                return Fitted(images, tree, packed, entries, None)
            need = float(room - left)
        else:
            for side, each in sizes.items():
                if each * count * 4 / 3 <= left:
                    encoded = thumbnails.encode(pixels, images, side)
                    if in_base64(encoded.data) <= left:
                        return Fitted(images, tree, packed, entries, encoded)
                    sizes[side] = len(encoded.data) / count  # the estimate was too low
            need = room - left + min(sizes.values()) * count * 4 / 3
        if count <= FEWEST:
            raise RunError(
                f"{count} images of {representation.label} do not fit into the budget: they take "
                f"{need / 1e6:.1f} MB, {max(room, 0) / 1e6:.1f} MB are left; give a larger --budget"
            )
        count = max(FEWEST, min(count - 1, int(count * room / need * SPARE)))


def in_base64(data: bytes) -> int:
    """Bytes that they take in the file."""
    return 4 * ((len(data) + 2) // 3)


def _estimates(pixels: UInt8[Tensor, "n 3 t w"]) -> dict[int, float]:
    """Bytes of an image by side, the largest side first."""
    return {side: thumbnails.bytes_each(pixels, side) for side in thumbnails.sides(pixels)}
