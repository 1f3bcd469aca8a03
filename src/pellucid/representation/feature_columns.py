"""Parquet columns as arrays: lists of one length, and sparse pairs of lists."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pellucid.data.source import some
from pellucid.representation.feature_manifest import is_probability
from pellucid.run import RunError

DAMAGE = (pa.ArrowException, ValueError, TypeError, KeyError, OverflowError, MemoryError)
"""What pyarrow raises at files that are damaged, or made to do damage."""
MOST = 1_000_000
"""Dimensions: a sparse file of a few bytes could ask for any number."""
NUMBERS = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean)
FACTS = b"pellucid"
"""The key of a file's metadata under which `pellucid embed` says what the columns do not."""
INDEX, VALUE = "z_index", "z_value"
"""The columns of a sparse z: the dimensions that are not zero, and what they are."""


class Facts(NamedTuple):
    """What the columns do not say."""

    dimensions: int | None
    classes: list[str] | None
    threshold: float | None


def open_parquet(path: Path) -> Any:
    """A parquet file, its footer read.

    Raises:
        RunError: it is none, or cut off.
    """
    try:
        if not path.is_file():  # opening a pipe would wait for its other end
            raise OSError("it is no file")
        opened = pq.ParquetFile(path)
        [field.name for field in opened.schema_arrow]  # which are decoded only now
        return opened
    except (*DAMAGE, OSError) as error:
        raise RunError(f"{path} is not a whole parquet file: write it again ({error})") from error


def facts_of(opened: Any) -> dict[str, Any]:
    """What `pellucid embed` said in a file's metadata; nothing for another's file."""
    try:
        found = json.loads((opened.schema_arrow.metadata or {}).get(FACTS, b"{}"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def facts_for(path: Path, opened: Any) -> Facts:
    """The facts that readers of features use, checked.

    Raises:
        RunError: they are there, and not what `pellucid embed` writes.
    """
    facts = facts_of(opened)
    dimensions, classes, threshold = map(facts.get, ("dimensions", "classes", "threshold"))
    if dimensions is not None and not (type(dimensions) is int and 0 < dimensions <= MOST):
        raise RunError(f"{path}: its metadata says {dimensions!r} dimensions, not 1 to {MOST:,}")
    if classes is not None and not (
        isinstance(classes, list) and all(isinstance(name, str) for name in classes)
    ):
        raise RunError(f"{path}: the classes in its metadata are no texts")
    if threshold is not None and not is_probability(threshold):
        raise RunError(f"{path}: its metadata says a threshold of {threshold!r}, no probability")
    return Facts(dimensions, classes, threshold)


def column(path: Path, opened: Any, name: str) -> Any:
    """One column, as a chunked array.

    Raises:
        RunError: it cannot be decoded.
    """
    try:
        return opened.read(columns=[name]).column(name)
    except (*DAMAGE, OSError) as error:
        raise RunError(f"{path}: column {name} cannot be read ({error})") from error


def plain_values(where: str, chunks: Any) -> list[Any]:
    """A column as Python values.

    Raises:
        RunError: an entry has none, such as a text that is no UTF-8.
    """
    try:
        values: list[Any] = chunks.to_pylist()
    except DAMAGE as error:
        raise RunError(f"{where} cannot be read ({error})") from error
    return values


def rows_of_lists(where: str, chunks: Any) -> np.ndarray:
    """A column of equally long lists of numbers as an array [N, K].

    Raises:
        RunError: an entry is missing, or lists differ in length.
    """
    lengths = _lengths(where, chunks)
    if lengths.null_count:
        raise RunError(f"{where} has no value in {lengths.null_count:,} rows: fill or drop them")
    sizes = pc.unique(lengths).to_pylist()
    if len(sizes) != 1:
        raise RunError(
            f"{where} has lists of {some([str(n) for n in sorted(sizes)])} numbers: "
            "all images have the same dimensions"
        )
    flat = [chunk.flatten() for chunk in chunks.chunks]
    if any(values.null_count for values in flat):
        raise RunError(f"{where} has lists with missing numbers: fill them, or drop these rows")
    numbers = [_numbers(where, values) for values in flat]
    return np.concatenate(numbers).reshape(len(chunks), sizes[0])


def integers(where: str, chunks: Any) -> np.ndarray:
    """A column of integers, none missing, as an array [N].

    Raises:
        RunError: it is something else.
    """
    if not pa.types.is_integer(chunks.type) or chunks.null_count:
        raise RunError(f"{where} holds {chunks.type}, or nothing in some rows, not integers")
    values: np.ndarray = chunks.to_numpy()
    return values


def _lengths(where: str, chunks: Any) -> Any:
    try:
        return pc.list_value_length(chunks)
    except DAMAGE as error:
        raise RunError(f"{where} holds {chunks.type}, and not a list in each row") from error


def _numbers(where: str, values: Any) -> np.ndarray:
    if not any(is_one(values.type) for is_one in NUMBERS):
        raise RunError(f"{where} has lists of {values.type}, not numbers")
    found: np.ndarray = values.to_numpy(zero_copy_only=False)
    return found


def rows_of_pairs(where: str, indices: Any, values: Any, dimensions: int | None) -> np.ndarray:
    """Sparse columns as an array [N, K].

    Args:
        where: the file, for messages.
        indices: lists of the dimensions that are not zero.
        values: lists of what they are.
        dimensions: K; None for the largest index and one.

    Raises:
        RunError: the two do not fit, or a dimension is out of range.
    """
    counts = _lengths(f"{where}: {INDEX}", indices)
    if counts.null_count or not counts.equals(_lengths(f"{where}: {VALUE}", values)):
        raise RunError(f"{where}: {INDEX} and {VALUE} must hold lists of one length in every row")
    flat = [[chunk.flatten() for chunk in column.chunks] for column in (indices, values)]
    if any(chunk.null_count for column in flat for chunk in column):
        raise RunError(f"{where}: {INDEX} or {VALUE} has lists with missing numbers")
    places, numbers = (
        np.concatenate([_numbers(f"{where}: {name}", chunk) for chunk in column])
        for name, column in zip((INDEX, VALUE), flat, strict=True)
    )
    if places.dtype.kind not in "iu":
        raise RunError(f"{where}: {INDEX} holds {places.dtype}, not the numbers of dimensions")
    if dimensions is None:
        dimensions = min(int(places.max(initial=-1)) + 1, MOST)
    if places.size and not 0 <= places.min() <= places.max() < dimensions:
        wrong = places.min() if places.min() < 0 else places.max()
        raise RunError(f"{where}: {INDEX} holds {wrong}; dimensions are 0 to {dimensions - 1}")
    try:
        dense = np.zeros((len(indices), dimensions), dtype=np.float32)
    except MemoryError as error:
        raise RunError(
            f"{where}: {len(indices):,} images of {dimensions:,} dimensions do not fit into memory"
        ) from error
    rows = np.repeat(np.arange(len(indices)), counts.to_numpy())
    dense[rows, places] = numbers
    return dense
