"""What `pellucid embed` left: its layout, and the way back from it."""

import json
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
    open_parquet,
    rows_of_lists,
    rows_of_pairs,
)
from pellucid.representation.feature_file import load_array
from pellucid.representation.feature_table import (
    FeatureTable,
    checked,
    class_indices,
    matrix,
    unique_names,
)
from pellucid.run import RunError

MANIFEST = "manifest.json"
FORMAT = 1
"""Of these folders; a reader refuses any other."""
STAGES = ("z", "h", "gate", "ungated")
"""What can be written of an image, each a matrix of its own."""
FILE, LABEL = "file", "label"
"""The columns of names and of labels."""
FILES_JSON, LABELS_NPY = "files.json", "labels.npy"
"""The same beside z.npy."""


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What is said of a folder; None where nothing is.

    Raises:
        RunError: it is damaged, or of another version.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise RunError(f"{path} cannot be read ({error}): embed into another folder") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise RunError(f"{path} has format {found}, this version reads {FORMAT}: embed again")
    return manifest


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
    try:
        read = _arrays if manifest["files"] == "npy" else _shards
        tensors, names, labels = read(folder, manifest)
        classes, rows = manifest["classes"], manifest["rows"]
        threshold, split = manifest["threshold"], manifest["split"]
        skipped, dimensions = len(manifest["skipped"]), manifest["dimensions"]
    except (KeyError, TypeError) as error:
        raise RunError(f"{folder / MANIFEST} is damaged ({error!r}): embed again") from error
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
    indices = None
    if labels is not None:
        indices, classes = class_indices(where, labels, classes)
    table = FeatureTable(
        z,
        unique_names(where, names),
        indices,
        None if classes is None else tuple(classes),
        threshold=threshold,
        split="test" if split == "test" else "train",
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
    tensors = {name: torch.empty(rows, width) for name, width in widths.items()}
    names: list[Any] = []
    labels = None if manifest["classes"] is None else np.empty(rows, np.int64)
    for shard in manifest["shards"]:
        path, first, last = folder / shard["file"], len(names), len(names) + shard["rows"]
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
            labels[first:last] = column(path, opened, LABEL).to_numpy()
        names += column(path, opened, FILE).to_pylist()
    return tensors, names, labels


def _arrays(folder: Path, manifest: Mapping[str, Any]) -> Parts:
    tensors = {}
    for name in manifest["stages"]:
        path = folder / f"{name}.npy"
        tensors[name] = matrix(str(path), load_array(path))
    path = folder / FILES_JSON
    try:
        names = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}): embed again") from error
    return tensors, names, None if manifest["classes"] is None else load_array(folder / LABELS_NPY)


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
