"""Activations as few bytes: what the page decodes, and nothing that it could get wrong.

A bitmap says which entries are stored, row by row. For each of them follow a 16-bit value, as a
share of its image's largest, and bits: is the dimension active there (the metrics' own rule, so
rounding never switches a dimension on or off), is its gate open, is it negative.
"""

import gzip
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.evaluate.representation import Representation
from pellucid.metrics import active_entries

LEVELS = 65_535
"""8 bits move a cosine by up to 0.03 and lose active entries; 16 move it by 2e-5 and lose none."""


class Packed(NamedTuple):
    """The stored entries of some images, compressed."""

    data: bytes
    """gzip of: bitmap, active bits, open bits if gated, negative bits if signed, high bytes of
    the values, low bytes, and one little-endian float32 scale an image. Bits start at the lowest
    of a byte, and each part begins at a byte of its own."""
    entries: int
    """Stored entries."""


def pack(representation: Representation, images: Tensor) -> Packed:
    """The entries of the images with these indices: all of z, and what a hard gate took away."""
    z = representation.z[images]
    closed = representation.closed
    taken = None if closed is None else closed[images]
    stored = z != 0 if taken is None else (z != 0) | taken
    values = (
        z
        if taken is None or representation.ungated is None
        else _before(representation, images, taken)
    )
    size = values.abs().where(stored, values.new_zeros(())).double().numpy()
    scale = size.max(axis=1, initial=0.0).astype("<f4")
    kept = stored.numpy()
    divisor = np.where(scale > 0, scale, 1).astype(np.float64)
    levels = np.rint(size / divisor[:, None] * LEVELS)[kept].clip(1, LEVELS).astype(np.uint16)
    parts = [_bits(kept), _bits(active_entries(z).numpy()[kept])]
    if taken is not None:
        parts.append(_bits(~taken.numpy()[kept]))
    if representation.signed:
        parts.append(_bits((values < 0).numpy()[kept]))
    high, low = (levels >> 8).astype(np.uint8), (levels & 255).astype(np.uint8)
    parts += [high.tobytes(), low.tobytes(), scale.tobytes()]
    return Packed(compress(b"".join(parts)), int(kept.sum()))


def compress(data: bytes) -> bytes:
    """Gzip without a clock in it: the same data give the same bytes."""
    return gzip.compress(data, compresslevel=9, mtime=0)


def _before(
    representation: Representation, images: Tensor, taken: Bool[Tensor, "n k"]
) -> Float[Tensor, "n k"]:
    assert representation.ungated is not None
    return representation.ungated[images].where(taken, representation.z[images])


def _bits(values: np.ndarray) -> bytes:
    return np.packbits(values.ravel(), bitorder="little").tobytes()
