"""A parquet file of features, whoever wrote it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pellucid.data.source import some
from pellucid.representation.feature_columns import (
    INDEX,
    VALUE,
    column,
    facts_for,
    open_parquet,
    plain_values,
    rows_of_lists,
    rows_of_pairs,
)
from pellucid.representation.feature_table import (
    FEATURES,
    FeatureTable,
    checked,
    class_indices,
    matrix,
    unique_names,
)
from pellucid.run import RunError

LABELS = ("label", "labels", "class", "target")
FILES = ("file", "files", "file_name", "filename", "name", "names", "path")
BESIDE = ("h", "gate", "ungated")
_FRAME_INDEX = "__index_level_0__"  # which pandas adds


@dataclass(frozen=True)
class _Columns:
    """Which columns are what."""

    features: list[str]
    """One column of lists, INDEX and VALUE, or a column of numbers for each dimension."""
    beside: list[str]
    label: str | None
    file: str | None


def read_parquet(path: Path) -> FeatureTable:
    """A parquet file of features.

    z is `z_index` and `z_value`, as `pellucid embed --sparse` writes them, or a column of lists
    named z, features or embeddings, or the only column of lists; without lists every column of
    numbers is a dimension, in the order of the file. The first of the columns `LABELS` holds
    labels, the first of `FILES` the names of the images; h, gate and ungated are taken if they are
    lists.

    Raises:
        RunError: there is no such column, or what it holds cannot be used.
    """
    opened = open_parquet(path)
    if opened.metadata.num_rows == 0:
        raise RunError(f"{path} holds no row: there must be one an image")
    facts, schema = facts_for(path, opened), opened.schema_arrow
    taken = _columns(path, schema)
    notes: list[str] = []

    def lists(name: str) -> np.ndarray:
        return rows_of_lists(f"{path}: {name}", column(path, opened, name))

    if taken.features == [INDEX, VALUE]:
        indices, values = (column(path, opened, name) for name in taken.features)
        found = rows_of_pairs(str(path), indices, values, facts.dimensions)
        if facts.dimensions is None:
            notes.append(f"{INDEX} says nothing of dimensions beyond {found.shape[1] - 1}")
    elif _is_list(schema.field(taken.features[0]).type):
        found = lists(taken.features[0])
    else:
        found = _side_by_side(path, [column(path, opened, name) for name in taken.features])
        notes.append(f"{len(taken.features)} columns of numbers are the dimensions")
    labels, classes, names = None, None, None
    if taken.label is not None:
        values = plain_values(f"{path}: {taken.label}", column(path, opened, taken.label))
        labels, classes = class_indices(f"{path}: {taken.label}", values, facts.classes)
    if taken.file is not None:
        values = plain_values(f"{path}: {taken.file}", column(path, opened, taken.file))
        names = unique_names(f"{path}: {taken.file}", values)
    beside = {name: matrix(f"{path}: {name}", lists(name)) for name in taken.beside}
    table = FeatureTable(
        matrix(f"{path}: {taken.features[0]}", found),
        names,
        labels,
        classes,
        threshold=facts.threshold,
        notes=notes,
        h=beside.get("h"),
        gate=beside.get("gate"),
        ungated=beside.get("ungated"),
    )
    return checked(path, table)


def _columns(path: Path, schema: pa.Schema) -> _Columns:
    kinds = {field.name: field.type for field in schema if field.name != _FRAME_INDEX}
    if len(kinds) + (_FRAME_INDEX in schema.names) < len(schema):
        raise RunError(f"{path} has two columns of one name: rename one")
    label = next((name for name in LABELS if name in kinds and not _is_list(kinds[name])), None)
    file = next((name for name in FILES if name in kinds and _is_name(kinds[name])), None)
    rest = [name for name in kinds if name not in (label, file)]
    lists = [name for name in rest if _is_list(kinds[name])]
    beside = [name for name in BESIDE if name in lists]
    candidates = [name for name in lists if name not in beside]
    named = [name for name in FEATURES if name in candidates]
    if {INDEX, VALUE} <= set(candidates) and "z" not in candidates:
        return _Columns([INDEX, VALUE], beside, label, file)
    if named or len(candidates) == 1:
        return _Columns([*named, *candidates][:1], beside, label, file)
    numbers = [name for name in rest if _is_number(kinds[name])]
    if not lists and numbers and numbers == rest:
        return _Columns(numbers, beside, label, file)
    listed = some([f"{name} ({kind})" for name, kind in kinds.items()], 8)
    raise RunError(
        f"{path} has no clear column of features; there are {listed}: name a column of lists z, "
        "or leave only columns of numbers, a label and a file"
    )


def _side_by_side(path: Path, columns: list[Any]) -> np.ndarray:
    if any(values.null_count for values in columns):
        raise RunError(f"{path} has missing numbers: fill them, or drop these rows")
    with np.errstate(over="ignore"):  # `matrix` says where
        return np.stack([values.to_numpy().astype(np.float32) for values in columns], axis=1)


def _is_list(kind: Any) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _is_number(kind: Any) -> bool:
    return bool(
        pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    )


def _is_name(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    return any(of_kind(kind) for of_kind in texts)
