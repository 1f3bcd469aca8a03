"""Activations as few bytes: what the page decodes, and nothing that it could get wrong.

A bitmap says which entries are stored, row by row. For each of them follow a 16-bit value, as a
share of its image's largest, and bits: is the dimension active there (the metrics' own rule, so
rounding never switches a dimension on or off), is its gate open, is it negative. What a gate took
away is a share of the largest that it took: large or small, it costs the rest no digits.
"""

import gzip
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.metrics import active_entries
from pellucid.representation.representation import Representation

LEVELS = 65_535
"""8 bits move a cosine by up to 0.03 and lose active entries; 16 move it by 2e-5 and lose none."""


class Packed(NamedTuple):
    """The stored entries of some images, compressed."""

    data: bytes
    """gzip of: bitmap, active bits, open bits if gated, negative bits if signed, high bytes of
    the values, low bytes, one little-endian float32 scale an image, and if gated one more an image
    for entries that are not open. A value is a share of 65,535 of its scale. Bits start at the
    lowest of a byte, and each part begins at a byte of its own."""
    entries: int
    """Stored entries."""
    signed: bool
    """Whether negative bits are stored."""


def pack(representation: Representation, images: Tensor) -> Packed:
    """The entries of the images with these indices: all of z, and what a hard gate took away."""
    z, closed = representation.z[images], representation.closed
    values, taken = z, np.zeros(z.shape, dtype=bool)
    if closed is not None and representation.ungated is not None:
        values = representation.ungated[images].where(closed[images], z)
        taken = closed[images].numpy()
    kept = (z != 0).numpy() | taken
    size, shut = values.abs().numpy(), taken[kept]
    scale, scale_taken = (_largest(size, which) for which in (~taken, taken))
    row = np.arange(len(z)).repeat(kept.sum(axis=1))
    share = size[kept].astype(np.float64) / np.where(shut, scale_taken[row], scale[row])
    levels = np.rint(share * LEVELS).clip(1, LEVELS).astype(np.uint16)
    parts = [_bits(kept), _bits(active_entries(z).numpy()[kept])]
    if closed is not None:
        parts.append(_bits(~shut))
    signed = bool((values < 0).any())
    if signed:
        parts.append(_bits((values < 0).numpy()[kept]))
    high, low = (levels >> 8).astype(np.uint8), (levels & 255).astype(np.uint8)
    parts += [high.tobytes(), low.tobytes(), scale.tobytes()]
    if closed is not None:
        parts.append(scale_taken.tobytes())
    return Packed(compress(b"".join(parts)), int(kept.sum()), signed)


def compress(data: bytes) -> bytes:
    """Gzip without a clock in it: the same data give the same bytes."""
    return gzip.compress(data, compresslevel=9, mtime=0)


def _largest(
    size: Float[np.ndarray, "n k"], which: Bool[np.ndarray, "n k"]
) -> Float[np.ndarray, " n"]:
    return size.max(axis=1, initial=0.0, where=which).astype("<f4")


def _bits(values: np.ndarray) -> bytes:
    return np.packbits(values.ravel(), bitorder="little").tobytes()
