"""The nearest images by cosine: every image is compared, and the order is that of float64."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pellucid.metrics.activity import active_entries
from pellucid.randomness import seeded

DECIMALS = 12
"""Cosines that agree to so many decimals are a tie: sums of parallel rows differ by less."""
ROWS = 1024
"""Rows in float64 at a time; it bounds memory and changes no result."""
PAIRS = 10_000
"""Random pairs whose median is the scale of a similarity."""


class Neighbour(NamedTuple):
    """An image that was found."""

    image: int
    cosine: float


class Standing(NamedTuple):
    """Where an image stands among the neighbours of another."""

    rank: int
    """From 1; ties stand in the order of the images."""
    of: int
    """Images that have a similarity to the query, this one among them and the query not."""


class Neighbours:
    """Images to search. A zero row has no similarity to anything and is never found.

    Args:
        z: the representation, [N, K]. A product in fp32 chooses candidates, so a copy of unit
            rows is kept.
    """

    def __init__(self, z: Float[Tensor, "n k"]) -> None:
        self._active_of = functools.cache(lambda: active_entries(z).numpy())
        self._z = z.numpy()
        self._unit = np.zeros(z.shape, np.float32)
        for some in _parts(len(z)):
            rows = self._z[some].astype(np.float64)
            length = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
            self._unit[some] = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
        self._defined = self._z.any(axis=1)
        # Twice the largest error of a product of unit rows in fp32, in whatever order it sums.
        self._error = (z.shape[1] + 8) * 2.0**-23

    @property
    def active(self) -> Bool[np.ndarray, "n k"]:
        """Whether each dimension is active on each image."""
        return self._active_of()

    def nearest(
        self,
        query: Float[Tensor, " k"],
        top: int,
        *,
        itself: int | None = None,
        with_dims: Sequence[int] = (),
        without_dims: Sequence[int] = (),
    ) -> list[Neighbour]:
        """The images with the largest cosine, ties in the order of the images.

        Args:
            query: a row of the same dimensions.
            top: how many; fewer come when fewer are left.
            itself: the image that the query is, which is left out; its duplicates are not.
            with_dims: dimensions that must be active on an image.
            without_dims: dimensions that must not be.

        Raises:
            ValueError: the query is zero, or `top` below 1.
        """
        if top < 1:
            raise ValueError(f"at least 1 image must be asked for, not {top}")
        row = _row(query)
        length = np.sqrt((row * row).sum())
        if length == 0:
            raise ValueError("a zero row has no similarity to anything")
        allowed: Any = self._defined.copy()
        for k in with_dims:
            allowed &= self.active[:, k]
        for k in without_dims:
            allowed &= ~self.active[:, k]
        if itself is not None:
            allowed[itself] = False
        candidates = np.flatnonzero(allowed)
        if len(candidates) > top:
            near = (self._unit @ (row / length).astype(np.float32))[candidates]
            last = np.partition(near, len(near) - top)[len(near) - top]
            # Whatever may belong to the nearest in float64; fp32 is wrong on both sides.
            candidates = candidates[near >= last - 2 * self._error]
        exact = _cosines(self._z[candidates], row, [None])[0]
        order = np.lexsort((candidates, -exact.round(DECIMALS)))[:top]
        return [Neighbour(int(candidates[i]), float(exact[i])) for i in order]

    def standings(
        self,
        query: Float[Tensor, " k"],
        other: Float[Tensor, " k"],
        *,
        itself: int | None = None,
        place: int | None = None,
        left_out: Sequence[int | None] = (None,),
    ) -> list[Standing | None]:
        """Where `other` stands among the neighbours of the query.

        Args:
            query: a row of the same dimensions.
            other: another.
            itself: the image that the query is; None where it is none of these.
            place: the image that `other` is; None where it is none of these: then it stands
                behind those that it ties with.
            left_out: dimensions to leave out, one at a time; None leaves none out.

        Returns:
            One for each of `left_out`; None where nothing is left of one of the two.
        """
        cosines = _cosines(self._z, _row(query), left_out).round(DECIMALS)
        own = _cosines(_row(other)[None], _row(query), left_out).round(DECIMALS)[:, 0]
        behind = len(self._z) if place is None else place
        found: list[Standing | None] = []
        for values, value in zip(cosines, own, strict=True):
            for taken_out in (itself, place):
                if taken_out is not None:
                    values[taken_out] = np.nan  # no comparison with it is true
            ahead = (values > value).sum() + (values[:behind] == value).sum()
            count = int(np.isfinite(values).sum()) + 1
            found.append(None if np.isnan(value) else Standing(int(ahead) + 1, count))
        return found


def median_of_random_pairs(z: Float[Tensor, "n k"], seed: int = 0) -> float | None:
    """The median cosine of random pairs of different images, none of them a zero row.

    None where there are not two such images.
    """
    chosen = z.any(dim=1).nonzero().flatten()
    if len(chosen) < 2:
        return None
    generator = seeded(seed, "random pairs")
    first = torch.randint(len(chosen), (PAIRS,), generator=generator)
    step = torch.randint(1, len(chosen), (PAIRS,), generator=generator)
    other = (first + step) % len(chosen)
    values = []
    for some in _parts(PAIRS):
        a, b = (z[chosen[rows[some]]].double() for rows in (first, other))
        values.append((a * b).sum(dim=1) / (a.norm(dim=1) * b.norm(dim=1)))
    return torch.cat(values).quantile(0.5).item()


def _row(row: Tensor) -> Float[np.ndarray, " k"]:
    return row.numpy().astype(np.float64)


def _parts(count: int) -> list[slice]:
    return [slice(start, start + ROWS) for start in range(0, count, ROWS)]


def _cosines(
    z: Float[np.ndarray, "n k"], query: Float[np.ndarray, " k"], left_out: Sequence[int | None]
) -> Float[np.ndarray, "m n"]:
    """Cosines in float64 without each of the dimensions; NaN where nothing is left of a row.

    Sums are taken row by row and not by BLAS, so that equal rows have equal cosines.
    """
    found = np.empty((len(left_out), len(z)))
    lengths = [np.sqrt(_sum_without((query * query)[None], k)) for k in left_out]
    for some in _parts(len(z)):
        rows = z[some].astype(np.float64)
        products, squares = rows * query, rows * rows
        for values, length, k in zip(found, lengths, left_out, strict=True):
            both = np.sqrt(_sum_without(squares, k)) * length
            nothing = np.full(len(rows), np.nan)
            values[some] = np.divide(_sum_without(products, k), both, out=nothing, where=both > 0)
    return found


def _sum_without(
    values: Float[np.ndarray, "n k"], dimension: int | None
) -> Float[np.ndarray, " n"]:
    if dimension is None:
        return values.sum(axis=1)
    kept = values[:, dimension].copy()
    values[:, dimension] = 0  # not subtracted from the sum: of a row's only dimension, 0 is left
    sums = values.sum(axis=1)
    values[:, dimension] = kept
    return sums
