"""Which columns of a parquet file are the images and the labels."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from pellucid.data.source import DataError


@dataclass(frozen=True)
class Columns:
    """The columns to read."""

    image: str
    """The column of bytes, or the field that holds them: "image.bytes"."""
    label: str | None
    classes: tuple[str, ...] | None
    """The names that the hub's metadata gives to the label's values 0, 1, ..."""
    guessed: bool
    """The label was taken for being the only column of integers."""
    notes: list[str] = field(default_factory=list)


def choose_columns(
    schema: pa.Schema, file: Path, image_column: str | None, label_column: str | None
) -> Columns:
    """The image column: the one of bytes or of {bytes, path}. The label column: see below.

    Labels: the given column, else `label`, `fine_label`, the only class label of the hub's
    metadata, or the only column of integers. Class names come from that metadata.

    Raises:
        DataError: there is no such column, or several that images may be in.
    """
    classes = _class_labels(schema)
    label, guessed, notes = label_column, False, []
    if label_column is None:
        integers = [f.name for f in schema if pa.types.is_integer(f.type)]
        named = [name for name in ("label", "fine_label") if name in schema.names]
        hub = list(classes) if len(classes) == 1 else []
        label = next(iter([*named, *hub]), None)
        if label is None and len(integers) == 1:
            label, guessed = integers[0], True
        if label is None and integers:
            notes = [f"no labels: label_column may be one of {', '.join(integers)}"]
    elif label_column not in schema.names:
        raise DataError(f"{file} has no column {label_column}, only {', '.join(schema.names)}")
    if label is not None and not _is_class(schema.field(label).type):
        raise DataError(f"{file}: column {label} holds {schema.field(label).type}, not classes")
    image = _image_column(schema, file, image_column)
    return Columns(image, label, classes.get(label or ""), guessed, notes)


def _image_column(schema: pa.Schema, file: Path, given: str | None) -> str:
    listed = ", ".join(f"{f.name} ({f.type})" for f in schema)
    fields = {f.name: place for f in schema if (place := _bytes_in(f)) is not None}
    if given is not None:
        if given not in fields:
            raise DataError(f"{file}: {given} is no column of images; there are {listed}")
        return fields[given]
    found = list(fields) if len(fields) == 1 else [n for n in ("image", "img") if n in fields]
    if len(found) != 1:
        raise DataError(f"{file}: name the column of images with image_column: {listed}")
    return fields[found[0]]


def _bytes_in(column: pa.Field) -> str | None:
    """Where in a column the encoded bytes are; None if it holds none."""
    if _is_binary(column.type):
        return str(column.name)
    if pa.types.is_struct(column.type):
        inner = column.type.get_field_index("bytes")
        if inner >= 0 and _is_binary(column.type.field(inner).type):
            return f"{column.name}.bytes"
    return None


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _is_class(kind: pa.DataType) -> bool:
    kinds = pa.types
    if kinds.is_dictionary(kind):  # what pandas calls a categorical
        kind = kind.value_type
    return any(
        test(kind)
        for test in (
            *(kinds.is_integer, kinds.is_boolean, kinds.is_string, kinds.is_large_string),
            kinds.is_floating,  # what pandas makes of whole numbers when some are missing
            kinds.is_null,  # all are
        )
    )


def _class_labels(schema: pa.Schema) -> dict[str, tuple[str, ...]]:
    """The columns that the hub's metadata calls class labels, with their names."""
    text = (schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        features: dict[str, Any] = json.loads(text)["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    return {
        name: tuple(feature["names"])
        for name, feature in features.items()
        if isinstance(feature, dict)
        and feature.get("_type") == "ClassLabel"
        and feature.get("names")
    }
