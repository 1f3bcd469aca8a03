"""Features from a file, checked: what every reader of features and labels gives."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pellucid.data.source import some
from pellucid.run import RunError

FEATURES = ("z", "features", "embeddings", "feature", "embedding")
"""What z is called in a file of several arrays or columns, the first that is there."""
MOST_CLASSES = 100_000
"""A label beyond this, without class names, is taken for something else than a class index."""


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Images in the dimensions of z, as a file or a folder of features holds them.

    `checked` sees to it that labels and h have a row an image, and gates the shape of z.
    """

    z: Float[Tensor, "n k"]
    names: list[str] | None = None
    """Of the images, unique; None where the file names none."""
    labels: Int[Tensor, " _"] | None = None
    """Class indices, -1 where an image has none."""
    classes: tuple[str, ...] | None = None
    h: Float[Tensor, "_ f"] | None = None
    gate: Float[Tensor, "_ _"] | None = None
    ungated: Float[Tensor, "_ _"] | None = None
    threshold: float | None = None
    """A gate is open when its probability is above this."""
    split: str = "train"
    """Which images of their folder these are: `train` (all, where there is one split) or `test`."""
    notes: list[str] = field(default_factory=list)


def matrix(where: str, values: np.ndarray) -> Float[Tensor, "n k"]:
    """Numbers of any precision as fp32.

    Args:
        where: the file and the key, for messages.
        values: should be [N, K], finite, with N and K at least 1.

    Raises:
        RunError: it is something else.
    """
    if values.dtype.kind == "V" and values.dtype.itemsize == 2 and values.dtype.names is None:
        # NumPy has no bfloat16: its two bytes, the upper half of an fp32, arrive without a type.
        values = (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if values.dtype.kind not in "fiub":
        raise RunError(f"{where} holds {values.dtype}, not numbers: save it as float32")
    if values.ndim != 2 or 0 in values.shape:
        raise RunError(
            f"{where} has shape {list(values.shape)}: features are [images, dimensions], "
            "at least one of each"
        )
    with np.errstate(over="ignore"):
        numbers = np.array(values, dtype=np.float32, order="C")
    found = torch.from_numpy(numbers)
    bad = ~found.isfinite().all(dim=1)
    if bool(bad.any()):
        raise RunError(
            f"{where} is NaN or infinite in fp32 on {int(bad.sum()):,} of {len(bad):,} rows, first "
            f"row {int(bad.int().argmax())}: leave these images out, or mend what computed them"
        )
    return found


def checked(path: Path, table: FeatureTable) -> FeatureTable:
    """A table whose parts belong together.

    Raises:
        RunError: a part has not one row an image, a gate not one entry for each of z, or is no
            probability.
    """
    parts = {"names": table.names, "labels": table.labels, "h": table.h}
    for name, part in parts.items():
        if part is not None and len(part) != len(table.z):
            raise RunError(
                f"{path} has {len(part):,} {name} for {len(table.z):,} images: there must be one "
                "each"
            )
    for name, entries in {"gate": table.gate, "ungated": table.ungated}.items():
        if entries is not None and entries.shape != table.z.shape:
            raise RunError(
                f"{path}: {name} has shape {list(entries.shape)} and z {list(table.z.shape)}: "
                "they must have the same"
            )
    if table.gate is not None and not bool(((table.gate >= 0) & (table.gate <= 1)).all()):
        raise RunError(f"{path}: gate is not between 0 and 1: it holds probabilities")
    return table


def unique_names(where: str, values: Iterable[Any]) -> list[str]:
    """Names of images as text; bytes that are no UTF-8 survive as a file system gives them.

    Raises:
        RunError: one is missing, or two are the same.
    """
    names = []
    for row, value in enumerate(values):
        if value is None:
            raise RunError(f"{where} names no image in row {row}: give every image a name")
        text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
        names.append(text)
    if len(set(names)) < len(names):
        seen: set[str] = set()
        twice = [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
        raise RunError(
            f"{where} names {len(twice):,} images twice: {some([repr(n) for n in twice])}; names "
            "must be unique, such as paths below the folder of images"
        )
    return names


def class_indices(
    where: str, values: Sequence[Any] | np.ndarray, classes: Sequence[str] | None = None
) -> tuple[Int[Tensor, " n"], tuple[str, ...]]:
    """Labels as class indices, and the names that they index.

    Args:
        where: the file and the key, for messages.
        values: names of classes, or their indices; -1, NaN and None stand for no label.
        classes: the names, where they are known; else texts are sorted, and the names of indices
            are their digits.

    Raises:
        RunError: they are neither, or out of range.
    """
    array = values if isinstance(values, np.ndarray) else _array(values)
    if array.ndim != 1:
        raise RunError(f"{where} has shape {list(array.shape)}: labels are one class an image")
    if array.dtype.kind in "OSU":
        return _named(where, array.tolist(), classes)
    if array.dtype.kind == "f":  # as data frames keep integers of which some are missing
        array = np.where(np.isnan(array), -1, array)
        if not np.isfinite(array).all():
            raise RunError(f"{where} holds an infinite number: give names or indices")
        if not (array == np.floor(array)).all():
            raise RunError(f"{where} holds fractions, not classes: give names or indices")
    if array.dtype.kind not in "iuf":
        raise RunError(f"{where} holds {array.dtype}, not classes: give names or indices")
    low, high = (int(array.min()), int(array.max())) if array.size else (-1, -1)
    most = MOST_CLASSES if classes is None else len(classes)
    if low < -1 or high >= most:
        known = f"{most:,} classes are named" if classes is not None else "no class is named"
        raise RunError(
            f"{where} holds {low if low < -1 else high}, and {known}: indices are 0 to "
            f"{most - 1:,}, or -1 for no label"
        )
    names = tuple(map(str, range(high + 1))) if classes is None else tuple(classes)
    return torch.from_numpy(array.astype(np.int64)), names


def _array(values: Sequence[Any]) -> np.ndarray:
    """Python values as one array: numbers, or objects for texts."""
    if all(value is None or isinstance(value, (int, float)) for value in values):
        missing = any(value is None or value != value for value in values)
        numbers = [-1 if value is None or value != value else value for value in values]
        return np.array(numbers if missing else values) if values else np.zeros(0, np.int64)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _named(
    where: str, values: list[Any], classes: Sequence[str] | None
) -> tuple[Int[Tensor, " n"], tuple[str, ...]]:
    texts = [None if v is None or v != v or v in ("", b"") else _text(v) for v in values]
    present = {text for text in texts if text is not None}
    names = tuple(sorted(present)) if classes is None else tuple(classes)
    number = {name: index for index, name in enumerate(names)}
    unknown = sorted(present - number.keys())
    if unknown:
        raise RunError(
            f"{where} holds {some([repr(name) for name in unknown])}, which is none of the "
            f"{len(names)} classes named: {some([repr(name) for name in names])}"
        )
    return torch.tensor([-1 if t is None else number[t] for t in texts], dtype=torch.int64), names


def _text(value: Any) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
