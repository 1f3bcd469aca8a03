"""Parquet columns as arrays: lists of one length, and sparse pairs of lists."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pellucid.data.source import some
from pellucid.run import RunError

FACTS = b"pellucid"
"""The key of a file's metadata under which `pellucid embed` says what the columns do not."""
INDEX, VALUE = "z_index", "z_value"
"""The columns of a sparse z: the dimensions that are not zero, and what they are."""


def open_parquet(path: Path) -> Any:
    """A parquet file, its footer read.

    Raises:
        RunError: it is none, or cut off.
    """
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise RunError(f"{path} is not a whole parquet file: write it again ({error})") from error


def facts_of(opened: Any) -> dict[str, Any]:
    """What `pellucid embed` said in a file's metadata; nothing for another's file."""
    try:
        found = json.loads((opened.schema_arrow.metadata or {}).get(FACTS, b"{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def column(path: Path, opened: Any, name: str) -> Any:
    """One column, as a chunked array.

    Raises:
        RunError: it cannot be decoded.
    """
    try:
        return opened.read(columns=[name]).column(name)
    except (pa.ArrowException, OSError) as error:
        raise RunError(f"{path}: column {name} cannot be read ({error})") from error


def rows_of_lists(where: str, chunks: Any) -> np.ndarray:
    """A column of equally long lists of numbers as an array [N, K].

    Raises:
        RunError: an entry is missing, or lists differ in length.
    """
    lengths = pc.list_value_length(chunks)
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
    numbers = [values.to_numpy(zero_copy_only=False) for values in flat]
    return np.concatenate(numbers).reshape(len(chunks), sizes[0])


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
    counts = pc.list_value_length(indices)
    if counts.null_count or not counts.equals(pc.list_value_length(values)):
        raise RunError(f"{where}: {INDEX} and {VALUE} must hold lists of one length in every row")
    places, numbers = (
        np.concatenate([c.flatten().to_numpy(zero_copy_only=False) for c in column.chunks])
        for column in (indices, values)
    )
    if dimensions is None:
        dimensions = int(places.max(initial=-1)) + 1
    if places.size and not 0 <= places.min() <= places.max() < dimensions:
        wrong = places.min() if places.min() < 0 else places.max()
        raise RunError(f"{where}: {INDEX} holds {wrong}; dimensions are 0 to {dimensions - 1}")
    dense = np.zeros((len(indices), dimensions), dtype=np.float32)
    rows = np.repeat(np.arange(len(indices)), counts.to_numpy())
    dense[rows, places] = numbers
    return dense
