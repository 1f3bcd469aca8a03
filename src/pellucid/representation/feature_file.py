"""Features that any program wrote: one npy, npz or parquet file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.data.source import some
from pellucid.representation.feature_parquet import BESIDE, read_parquet
from pellucid.representation.feature_table import (
    FEATURES,
    FeatureTable,
    checked,
    class_indices,
    matrix,
    unique_names,
)
from pellucid.run import RunError

LABELS, NAMES = ("labels", "label", "y"), ("names", "files", "file")


def read_feature_file(path: Path) -> FeatureTable:
    """A file of features [N, K], with what it says of the images.

    - `.npy`: the array;
    - `.npz`: z (or features, embeddings, or the only array of two axes), and, where they are
      there, labels, names, classes, h [N, F], gate and ungated [N, K], threshold;
    - `.parquet`: see `feature_parquet.read_parquet`.

    Raises:
        RunError: it is none of these, or what it holds cannot be used.
    """
    if not path.is_file():
        raise RunError(
            f"there is no {path}: give a run directory, a folder of `pellucid embed`, "
            "or a .npy, .npz or .parquet file of features"
        )
    ending = path.suffix.lower()
    if ending == ".npy":
        return FeatureTable(matrix(str(path), load_array(path)))
    if ending == ".npz":
        return _table(path, load_arrays(path))
    if ending == ".parquet":
        return read_parquet(path)
    raise RunError(f"{path} ends in {ending or 'nothing'}: features are .npy, .npz or .parquet")


def load_array(path: Path) -> np.ndarray:
    """The array of an npy file.

    Raises:
        RunError: it is damaged, or holds Python objects.
    """
    try:
        if path.exists() and not path.is_file():  # opening a pipe would wait for its other end
            raise OSError("it is no file")
        with path.open("rb") as file:
            array = np.load(file)
    except Exception as error:  # whatever the parsers that NumPy uses raise at a damaged file
        raise RunError(_unreadable(path, error)) from error
    if not isinstance(array, np.ndarray):
        raise RunError(f"{path} is an npz archive under another name: call it .npz")
    return array


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an npz file by name.

    Raises:
        RunError: it is damaged, or holds Python objects.
    """
    try:
        with path.open("rb") as file:
            opened = np.load(file)
            if isinstance(opened, np.ndarray):
                raise RunError(f"{path} is one npy array under another name: call it .npy")
            with opened:
                arrays = {name: opened[name] for name in opened.files}
    except RunError:
        raise
    except Exception as error:  # whatever the parsers of NumPy and of zip raise
        raise RunError(_unreadable(path, error)) from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # another file in the archive, as bytes
            raise RunError(f"{path} holds {name!r}, which is no array: save it again with NumPy")
    return arrays


def texts(where: str, values: np.ndarray) -> list[str]:
    """An array of names, as `unique_names` gives them.

    Raises:
        RunError: it has not one axis, or two are the same.
    """
    if values.ndim != 1:
        raise RunError(f"{where} has shape {list(values.shape)}: names are one a row")
    return unique_names(where, values.tolist())


def _table(path: Path, arrays: Mapping[str, np.ndarray]) -> FeatureTable:
    key = _key_of_z(path, arrays)
    names = _first(arrays, NAMES)
    labels, classes = None, _first(arrays, ("classes",))
    found = _first(arrays, LABELS)
    if found is not None:
        known = None if classes is None else texts(f"{path}: classes", classes)
        labels, classes = class_indices(f"{path}: labels", found, known)
    beside = {n: matrix(f"{path}: {n}", arrays[n]) for n in BESIDE if n in arrays}
    table = FeatureTable(
        matrix(f"{path}: {key}", arrays[key]),
        None if names is None else texts(f"{path}: names", names),
        labels,
        classes if isinstance(classes, tuple) else None,
        threshold=_threshold(path, arrays),
        notes=[] if key == "z" else [f"z is {key} of {path.name}"],
        h=beside.get("h"),
        gate=beside.get("gate"),
        ungated=beside.get("ungated"),
    )
    return checked(path, table)


def _key_of_z(path: Path, arrays: Mapping[str, np.ndarray]) -> str:
    named = [name for name in FEATURES if name in arrays]
    tables = [name for name, a in arrays.items() if a.ndim == 2 and name not in BESIDE]
    if named or len(tables) == 1:
        return [*named, *tables][0]
    listed = some([f"{name} {list(a.shape)}" for name, a in arrays.items()], 8) or "nothing"
    raise RunError(f"{path} has no clear array of features; there is {listed}: name one z, [N, K]")


def _first(arrays: Mapping[str, np.ndarray], keys: tuple[str, ...]) -> Any:
    return next((arrays[key] for key in keys if key in arrays), None)


def _threshold(path: Path, arrays: Mapping[str, np.ndarray]) -> float | None:
    if "threshold" not in arrays:
        return None
    value = arrays["threshold"]
    if value.size != 1 or value.dtype.kind not in "fiu" or not 0 <= float(value.item()) <= 1:
        raise RunError(f"{path}: threshold is no probability: a gate is open above it")
    return float(value.item())


def _unreadable(path: Path, error: Exception) -> str:
    if str(error).startswith("Object arrays"):
        return f"{path} holds Python objects, which are not read: save numbers, as float32"
    # NumPy takes whatever it does not know for a pickle, and advises to load it all the same.
    reason = "it holds no array; pickles are never loaded" if "pickle" in str(error) else error
    return f"{path} cannot be read ({reason}): save it again with NumPy"
