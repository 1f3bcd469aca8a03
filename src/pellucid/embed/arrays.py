"""Shards joined to one npy file a stage, without holding more than a shard."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pellucid.representation.feature_columns import column, integers, open_parquet
from pellucid.representation.feature_folder import (
    FILE,
    FILES_JSON,
    LABEL,
    LABELS_NPY,
    read_stage,
)
from pellucid.train.whole import whole_file, write_text


def join_shards(
    shards: Sequence[Path], folder: Path, widths: dict[str, int], *, rows: int, labelled: bool
) -> list[str]:
    """Write `STAGE.npy` [N, width] in fp32, `labels.npy` [N] in int64 and `files.json`.

    Args:
        shards: dense ones, in order.
        folder: where to write.
        widths: the dimensions of each stage.
        rows: N, of all shards.
        labelled: whether the shards have labels.

    Returns:
        The names of the files. Each is written under a temporary name, then renamed.
    """
    written = []
    for stage, width in widths.items():

        def numbers(path: Path, opened: Any, stage: str = stage, width: int = width) -> np.ndarray:
            return read_stage(path, opened, stage, "dense", width)

        written.append(f"{stage}.npy")
        _join(shards, folder / written[-1], "<f4", (rows, width), numbers)
    if labelled:
        written.append(LABELS_NPY)
        _join(shards, folder / LABELS_NPY, "<i8", (rows,), _labels)
    names: list[str] = []
    for path in shards:
        for name in column(path, open_parquet(path), FILE).to_pylist():
            text = name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name
            names.append(text)
    write_text(folder / FILES_JSON, json.dumps(names, indent=0))
    return [*written, FILES_JSON]


def _labels(path: Path, opened: Any) -> np.ndarray:
    return integers(f"{path}: {LABEL}", column(path, opened, LABEL))


def _join(
    shards: Sequence[Path],
    path: Path,
    kind: str,
    shape: tuple[int, ...],
    read: Callable[[Path, Any], np.ndarray],
) -> None:
    with whole_file(path) as temporary, temporary.open("wb") as file:
        _write_header(file, kind, shape)
        for shard in shards:
            opened = open_parquet(shard)
            if opened.metadata.num_rows:
                file.write(np.ascontiguousarray(read(shard, opened), dtype=kind).tobytes())


def _write_header(file: BinaryIO, kind: str, shape: tuple[int, ...]) -> None:
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
