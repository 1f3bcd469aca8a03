"""What `pellucid embed` left: its layout, and the way back from it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.representation.feature_columns import (
    INDEX,
    VALUE,
    column,
    integers,
    open_parquet,
    plain_values,
    rows_of_lists,
    rows_of_pairs,
)
from pellucid.representation.feature_file import load_array
from pellucid.representation.feature_manifest import MANIFEST, inside, read_manifest
from pellucid.representation.feature_table import (
    FeatureTable,
    checked,
    class_indices,
    matrix,
    unique_names,
)
from pellucid.run import RunError
from pellucid.text import read_json

FILE, LABEL = "file", "label"
"""The columns of names and of labels."""
FILES_JSON, LABELS_NPY = "files.json", "labels.npy"
"""The same beside z.npy."""


def read_feature_folder(folder: Path) -> FeatureTable:
    """A finished folder of `pellucid embed`.

    Raises:
        RunError: it is none, is not finished, or a file is missing or damaged.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        raise RunError(
            f"{folder} is no run directory and no folder of `pellucid embed`: it holds neither "
            f"recipe.json nor {MANIFEST}"
        )
    if not manifest.get("complete"):
        raise RunError(f"{folder} is unfinished: give the same `pellucid embed` command again")
    rows, dimensions, skipped = manifest["rows"], manifest["dimensions"], len(manifest["skipped"])
    if rows == 0:
        raise RunError(f"{folder} holds no image: embed a set of which some can be read")
    read = _arrays if manifest["files"] == "npy" else _shards
    tensors, names, labels = read(folder, manifest)
    classes: list[str] | None = manifest["classes"]
    z = tensors.pop("z")
    if z.shape != (rows, dimensions):
        raise RunError(
            f"{folder} holds z {list(z.shape)}, and {MANIFEST} says {rows:,} images of "
            f"{dimensions} dimensions: embed again"
        )
    where, notes = str(folder / MANIFEST), []
    if skipped:
        notes.append(f"{skipped:,} unreadable images are left out: see {MANIFEST}")
    if "gate" in tensors and "ungated" not in tensors:
        notes.append("what closed gates took away is not known: embed with --only z,gate,ungated")
    indices = None if labels is None else class_indices(where, labels, classes)[0]
    table = FeatureTable(
        z,
        unique_names(where, names),
        indices,
        None if classes is None else tuple(classes),
        threshold=manifest["threshold"],
        split="test" if manifest["split"] == "test" else "train",
        notes=notes,
        h=tensors.get("h"),
        gate=tensors.get("gate"),
        ungated=tensors.get("ungated"),
    )
    return checked(folder, table)


Parts = tuple[dict[str, Tensor], list[Any], np.ndarray | None]
"""Matrices by stage, names, and labels if there are any."""


def _shards(folder: Path, manifest: Mapping[str, Any]) -> Parts:
    stages, rows = manifest["stages"], manifest["rows"]
    widths = {name: manifest["features" if name == "h" else "dimensions"] for name in stages}
    try:
        tensors = {name: torch.empty(rows, width) for name, width in widths.items()}
    except RuntimeError as error:  # how PyTorch says that there is no memory
        raise RunError(
            f"{folder / MANIFEST} says {rows:,} images of {manifest['dimensions']:,} dimensions, "
            "which do not fit into memory"
        ) from error
    names: list[Any] = []
    labels = None if manifest["classes"] is None else np.empty(rows, np.int64)
    for shard in manifest["shards"]:
        path, first = inside(folder, shard["file"]), len(names)
        last = first + shard["rows"]
        if first == last:
            continue
        opened = open_parquet(path)
        if opened.metadata.num_rows != shard["rows"] or last > rows:
            raise RunError(
                f"{path} has not the {shard['rows']:,} rows that {MANIFEST} says: "
                "give the same `pellucid embed` command again"
            )
        for name, whole in tensors.items():
            values = read_stage(path, opened, name, manifest["layout"], widths[name])
            whole[first:last] = matrix(f"{path}: {name}", values)
        if labels is not None:
            labels[first:last] = integers(f"{path}: {LABEL}", column(path, opened, LABEL))
        names += plain_values(f"{path}: {FILE}", column(path, opened, FILE))
    return tensors, names, labels


def _arrays(folder: Path, manifest: Mapping[str, Any]) -> Parts:
    tensors = {}
    for name in manifest["stages"]:
        path = inside(folder, f"{name}.npy")
        tensors[name] = matrix(str(path), load_array(path))
    path = inside(folder, FILES_JSON)
    try:
        names = read_json(path)
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}): embed again") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RunError(f"{path} is no list of names: embed again")
    labelled = manifest["classes"] is not None
    return tensors, names, load_array(inside(folder, LABELS_NPY)) if labelled else None


def read_stage(path: Path, opened: Any, name: str, layout: str, width: int) -> np.ndarray:
    """One stage of a shard, [N, width].

    Raises:
        RunError: the file does not hold it.
    """
    if name == "z" and layout == "sparse":
        indices, numbers = (column(path, opened, part) for part in (INDEX, VALUE))
        return rows_of_pairs(str(path), indices, numbers, width)
    values = rows_of_lists(f"{path}: {name}", column(path, opened, name))
    if values.shape[1] != width:
        raise RunError(f"{path}: {name} has {values.shape[1]} dimensions, not {width}: embed again")
    return values
