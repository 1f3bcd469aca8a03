"""Labels that stand in a file of their own."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from torch import Tensor

from pellucid.data.source import some
from pellucid.representation.feature_columns import column, facts_for, open_parquet, plain_values
from pellucid.representation.feature_file import LABELS, load_array, load_arrays, texts
from pellucid.representation.feature_parquet import FILES
from pellucid.representation.feature_parquet import LABELS as LABEL_COLUMNS
from pellucid.representation.feature_table import class_indices, unique_names
from pellucid.run import RunError

DIGITS = 18
"""Of an index; Python refuses to convert thousands of them."""


def read_labels(
    path: Path, count: int, names: Sequence[str] | None = None
) -> tuple[Int[Tensor, " n"], tuple[str, ...]]:
    """Labels of `count` images from a file, and the class names.

    - `.npy`: class indices, -1 where an image has none, or names;
    - `.npz`: labels, and classes if they have names;
    - `.txt`, `.csv`, `.tsv`: a class a line, by name or index, an empty line for no label; a table
      with a header gives its column label;
    - `.parquet`: the column label.

    A table with a column of file names is matched with the images by name, where these have names;
    anything else is in their order.

    Raises:
        RunError: it is none of these, or is not one class an image.
    """
    if not path.is_file():
        raise RunError(f"there is no {path}: labels are a .npy, .npz, .txt, .csv or .parquet file")
    ending = path.suffix.lower()
    files: list[Any] | None = None
    classes: Sequence[str] | None = None
    values: Any
    if ending == ".npy":
        values = load_array(path)
    elif ending == ".npz":
        values, classes = _of_npz(path)
    elif ending == ".parquet":
        values, files, classes = _of_parquet(path)
    elif ending in (".txt", ".csv", ".tsv"):
        values, files = _of_text(path, ending)
    else:
        raise RunError(
            f"{path} ends in {ending or 'nothing'}: labels are .npy, .npz, .txt, .csv or .parquet"
        )
    indices, found = class_indices(str(path), values, classes)
    if files is not None and names is not None:
        indices = indices[_places(path, unique_names(str(path), files), names)]
    if len(indices) != count:
        raise RunError(
            f"{path} has {len(indices):,} labels for {count:,} images: there must be "
            "one each, in their order"
        )
    return indices, found


def _of_npz(path: Path) -> tuple[np.ndarray, list[str] | None]:
    arrays = load_arrays(path)
    key = next((key for key in LABELS if key in arrays), None)
    if key is None:
        raise RunError(f"{path} has no array labels; there is {some(list(arrays), 8) or 'nothing'}")
    classes = arrays.get("classes")
    if classes is None:
        return arrays[key], None
    return arrays[key], texts(f"{path}: classes", classes)


def _of_parquet(path: Path) -> tuple[list[Any], list[Any] | None, Sequence[str] | None]:
    opened = open_parquet(path)
    there = opened.schema_arrow.names
    label = next((name for name in LABEL_COLUMNS if name in there), None)
    if label is None:
        raise RunError(f"{path} has no column label; there is {some(there, 8) or 'nothing'}")
    file = next((name for name in FILES if name in there), None)
    files = None
    if file is not None:
        files = plain_values(f"{path}: {file}", column(path, opened, file))
    values = plain_values(f"{path}: {label}", column(path, opened, label))
    return values, files, facts_for(path, opened).classes


def _of_text(path: Path, ending: str) -> tuple[list[Any], list[Any] | None]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path} cannot be read ({error}): save it as UTF-8 text") from error
    if ending == ".txt":
        lines = [line.strip() for line in text.removesuffix("\n").split("\n")] if text else []
        return _indices_or_names(path, lines), None
    try:
        separator = "\t" if ending == ".tsv" else ","
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error as error:
        raise RunError(f"{path} is no table ({error}): give a class a line") from error
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    label = next((header.index(name) for name in LABEL_COLUMNS if name in header), None)
    if label is None:
        if any(len(row) > 1 for row in rows):
            raise RunError(
                f"{path} has several columns: name that of the classes label, in the first line"
            )
        return _indices_or_names(path, [row[0].strip() if row else "" for row in rows]), None
    rows = rows[1:]
    short = [number for number, row in enumerate(rows, 2) if len(row) not in (0, len(header))]
    if short:
        raise RunError(f"{path}: line {short[0]} has not the {len(header)} cells of the first line")
    named = next((header.index(name) for name in FILES if name in header), None)
    rows = [row or [""] * len(header) for row in rows]
    labels = _indices_or_names(path, [row[label].strip() for row in rows])
    return labels, None if named is None else [row[named] for row in rows]


def _indices_or_names(path: Path, lines: list[str]) -> list[Any]:
    """Class indices if every line that is not empty is an integer, else names."""
    digits = [line.removeprefix("-") for line in lines if line]
    if digits and all(line.isascii() and line.isdecimal() for line in digits):
        longest = max(digits, key=len)
        if len(longest) > DIGITS:
            raise RunError(f"{path} holds {longest[:DIGITS]}…, of {len(longest)} digits: no class")
        return [int(line) if line else None for line in lines]
    return list(lines)


def _places(path: Path, files: list[str], names: Sequence[str]) -> list[int]:
    place = {name: row for row, name in enumerate(files)}
    missing = [repr(name) for name in names if name not in place]
    if missing:
        raise RunError(
            f"{path} has no label for {len(missing):,} images, first {some(missing)}; "
            f"its names are such as {files[0]!r}"
            if files
            else f"{path} is empty"
        )
    return [place[name] for name in names]
