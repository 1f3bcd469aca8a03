"""Parquet files in the Hugging Face hub's layout: an image column, labels, a split in the name."""

import bisect
import math
import os
import re
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.data.columns import Columns, choose_columns
from pellucid.data.folder import HELD_OUT
from pellucid.data.source import DataError, Source, fingerprint, hold_out, some

KEPT_BYTES = 256 * 2**20
"""Encoded images that a reader keeps in memory, as whole row groups; the last one always."""

_SHARD = re.compile(r"(?P<split>[A-Za-z]\w*)-(?P<part>\d{5})-of-(?P<parts>\d{5})(-\w+)?\.parquet")
_SPLITS = ("train", "unlabeled", *HELD_OUT)

Splits = dict[str, list[Path]]
"""Split name -> its files, sorted; "" for files that name no split."""


@dataclass
class RowBytes:
    """Reads the image column of some files, a row group at a time."""

    files: list[Path]
    column: str
    """The column to read, or the field of it that holds the bytes: "image.bytes"."""
    groups: list[tuple[int, int]]
    """The file and the row group that each run of rows lies in."""
    starts: list[int]
    """The index of the first row of each run."""
    _kept: OrderedDict[int, Any] = field(default_factory=OrderedDict, repr=False)
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def __call__(self, index: int) -> bytes:
        run = bisect.bisect_right(self.starts, index) - 1
        with self._lock:  # decoding threads share the reader
            rows = self._kept.get(run)
            if rows is None:
                rows = self._kept[run] = self._load(*self.groups[run])
                while len(self._kept) > 1 and self._size() > KEPT_BYTES:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(run)
        return rows[index - self.starts[run]].as_py() or b""

    def _load(self, file: int, group: int) -> Any:
        with pq.ParquetFile(self.files[file], memory_map=True) as opened:
            table = opened.read_row_group(group, columns=[self.column], use_threads=False)
        # In chunks: a row group may hold more bytes than one Arrow array can.
        return table.flatten().column(0)

    def _size(self) -> int:
        return sum(rows.nbytes for rows in self._kept.values())

    def __getstate__(self) -> dict[str, Any]:
        # What a worker process needs: neither the lock nor what is kept.
        return {**self.__dict__, "_kept": OrderedDict(), "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())


def find_parquet(root: Path) -> dict[Path, Splits]:
    """The parquet files below a folder, or one file: data set folder -> its splits.

    A file's split stands in its name (`train-00000-of-00002.parquet`, `train.parquet`) or is the
    name of the folder that it lies in.
    """
    files = [root] if root.is_file() else sorted(_below(root))
    found: dict[Path, Splits] = defaultdict(lambda: defaultdict(list))
    for file in files:
        shard = _SHARD.fullmatch(file.name)
        split = shard["split"].lower() if shard else re.split(r"\W", file.stem.lower())[0]
        folder = file.parent
        if not shard and split not in _SPLITS:
            split = folder.name.lower() if folder.name.lower() in _SPLITS else ""
        if folder.name.lower() == split and folder != root:
            folder = folder.parent
        found[folder][split].append(file)
    return {folder: dict(splits) for folder, splits in found.items()}


def _below(root: Path) -> Iterator[Path]:
    """The parquet files in a folder and the folders below it that are not hidden."""
    # `walk` passes by what it cannot enter, and makes no object of each of a million images.
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if not name.startswith(".")]
        for name in names:
            if name.endswith(".parquet") and not name.startswith("."):
                yield Path(folder, name)


def open_parquet(
    splits: Splits,
    split: str,
    root: Path,
    *,
    image_column: str | None = None,
    label_column: str | None = None,
    strict: bool = False,
    holdout: float = 0.1,
    with_unlabelled: bool = False,
) -> Source:
    """One split of a data set in parquet files, as `find_parquet` gives them.

    The held-out split is the first of test, valid, validation and val that has labels, or else
    the first; without one, `holdout` takes its share of train. Names are relative to `root`;
    `with_unlabelled` adds the split `unlabeled` to train.

    Raises:
        DataError: a file is damaged, a column or a split is missing, or `strict` and a part is;
            the message lists what there is.
    """
    train = splits.get("train") or splits.get("")
    if not train:
        raise DataError(f"{root}: no train split; there is {', '.join(sorted(splits))}")
    columns = choose_columns(_schema(train[0]), train[0], image_column, label_column)
    missing = [note for files in splits.values() if (note := _missing_parts(files))]
    if strict and missing:
        raise DataError(f"{root}: {'; '.join(missing)}; complete it, or open it without strict")

    values = {name: _values(splits[name], columns) for name in HELD_OUT if name in splits}
    labelled = [name for name, found in values.items() if any(_is_label(v) for v in found)]
    held_out = next(iter([*labelled, *values]), None)
    values["train"] = _values(train, columns)
    classes = columns.classes or _distinct(values, columns, missing)
    if split == "test" and held_out is not None:
        files, chosen = splits[held_out], values[held_out]
    else:
        files, chosen = train, values["train"]
    if with_unlabelled and split == "train":
        added = splits.get("unlabeled", [])
        files, chosen = [*files, *added], [*chosen, *[None] * sum(map(_rows, added))]
    source = Source(
        names=[name for file in files for name in _row_names(file, root)],
        labels=_labels(chosen, classes, columns, files) if classes else None,
        classes=tuple(map(str, classes)) if classes else None,
        read=_reader(files, columns.image),
        fingerprint=fingerprint([columns.image, repr(classes), *map(_state, files)]),
        notes=[*columns.notes, *missing],
    )
    return hold_out(source, split, holdout) if held_out is None else source


def _schema(file: Path) -> Any:
    return _open(file).schema_arrow


def _rows(file: Path) -> int:
    return int(_open(file).metadata.num_rows)


def _open(file: Path) -> Any:
    try:
        return pq.ParquetFile(file)
    except FileNotFoundError:
        raise DataError(f"{file} is a broken link, or has just been removed") from None
    except (pa.ArrowException, OSError) as error:
        with file.open("rb") as opened:
            if opened.read(40).startswith(b"version https://git-lfs"):
                raise DataError(f"{file} is a Git LFS pointer: run `git lfs pull`") from None
        raise DataError(f"{file} is not a whole parquet file: fetch it again ({error})") from error


def _values(files: list[Path], columns: Columns) -> list[Any]:
    """The label column of some files, as Python values; None where there is no label."""
    values: list[Any] = []
    for file in files:
        names = _schema(file).names
        for column in (columns.image.split(".")[0], columns.label):
            if column is not None and column not in names:
                raise DataError(f"{file} has no column {column}, only {', '.join(names)}")
        if columns.label is None:
            values += [None] * _rows(file)
        else:
            column = _column(file, columns.label)
            found = column.to_pylist()
            if pa.types.is_floating(column.type):
                found = [_whole(value, columns.label, file) for value in found]
            values += found
    return values


def _column(file: Path, name: str) -> Any:
    try:
        return pq.read_table(file, columns=[name]).column(0)
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{file}: column {name} is damaged: fetch it again ({reason})") from error


def _whole(value: float | None, column: str, file: Path) -> int | None:
    """A class that is stored as a float, as pandas does where some are missing."""
    if value is None or math.isnan(value):
        return None
    if not value.is_integer():
        raise DataError(
            f"{file}: column {column} holds {value}, and a class is a whole number: "
            "name the column of classes with label_column"
        )
    return int(value)


def _is_label(value: Any) -> bool:
    return value is not None and value != -1  # the hub writes -1 for a hidden label


def _distinct(
    values: dict[str, list[Any]], columns: Columns, notes: list[str]
) -> tuple[Any, ...] | None:
    """The classes of a column that does not name them; none if every image has its own."""
    if columns.label is None:
        return None
    present = [value for found in values.values() for value in found if _is_label(value)]
    if len({isinstance(value, str) for value in present}) > 1:
        raise DataError(
            f"column {columns.label} holds words in one file and numbers in another: "
            "name a column that is alike in all with label_column"
        )
    classes = tuple(sorted(set(present)))
    if columns.guessed and len(classes) == len(present):
        notes.append(f"column {columns.label} differs in every row, so it is not taken for labels")
        return None
    return classes or None


def _labels(
    values: list[Any], classes: tuple[Any, ...], columns: Columns, files: list[Path]
) -> Int[Tensor, " n"]:
    named = columns.classes is not None  # then the values are indices already
    numbers = {
        value: index for index, value in enumerate(range(len(classes)) if named else classes)
    }
    numbers |= {None: -1, -1: -1}
    unknown = sorted({value for value in values if value not in numbers})
    if unknown:
        raise DataError(
            f"{files[0]}: column {columns.label} holds {some(list(map(str, unknown)))}, but "
            f"{len(classes)} classes are named: the values must be 0 to {len(classes) - 1}, or -1"
        )
    return torch.tensor([numbers[value] for value in values], dtype=torch.int64)


def _reader(files: list[Path], column: str) -> RowBytes:
    groups, starts, row = [], [], 0
    for number, file in enumerate(files):
        metadata = _open(file).metadata
        for group in range(metadata.num_row_groups):
            groups.append((number, group))
            starts.append(row)
            row += metadata.row_group(group).num_rows
    return RowBytes(files, column, groups, starts)


def _missing_parts(files: list[Path]) -> str | None:
    shards = [shard for file in files if (shard := _SHARD.fullmatch(file.name))]
    there = {int(shard["part"]) for shard in shards}
    lacking = (
        [f"{i:05}" for i in range(int(shards[0]["parts"])) if i not in there] if shards else []
    )
    if not lacking:
        return None
    return f"{files[0].name}: {len(lacking)} of {shards[0]['parts']} parts missing: {some(lacking)}"


def _row_names(file: Path, root: Path) -> list[str]:
    name = file.name if file == root else file.relative_to(root).as_posix()
    return [f"{name}:{row}" for row in range(_rows(file))]


def _state(file: Path) -> str:
    state = file.stat()
    return f"{file.resolve()} {state.st_size} {state.st_mtime_ns}"
