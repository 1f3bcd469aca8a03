"""Names and paths to sources: the known data sets, and anything else as a path."""

import difflib
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pellucid.data.folder import NoImagesError, open_folder
from pellucid.data.parquet import Splits, find_parquet, open_parquet
from pellucid.data.source import DataError, Source, fingerprint, some


@dataclass(frozen=True)
class Known:
    """What a name stands for."""

    classes: int
    label_column: str | None = None
    torchvision: str | None = None
    """torchvision's class, for a set that it fetches."""
    folder: str = ""
    """The folder that torchvision keeps the set's files in."""


KNOWN = {
    "cifar10": Known(10, torchvision="CIFAR10", folder="cifar-10-batches-py"),
    "cifar100": Known(100, "fine_label", "CIFAR100", "cifar-100-python"),
    "stl10": Known(10, torchvision="STL10", folder="stl10_binary"),
    "imagenet100": Known(100),
    "imagenet": Known(1000),
}


@dataclass(frozen=True)
class PixelBytes:
    """Wraps raw pixels as PPM files, so that decoded and encoded sets take the same way."""

    pixels: np.ndarray
    """[N, H, W, 3], uint8."""

    def __call__(self, index: int) -> bytes:
        _, height, width, _ = self.pixels.shape
        return b"P6 %d %d 255\n" % (width, height) + self.pixels[index].tobytes()


def cache_folder(cache_dir: Path | None = None) -> Path:
    """Where decoded and fetched sets are kept: the given folder, or the user's cache."""
    if cache_dir is not None:
        return cache_dir
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pellucid"


def open_source(
    name_or_path: str,
    split: str,
    *,
    root: str | Path | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    download: bool = False,
    strict: bool = False,
    holdout: float = 0.1,
    cache_dir: Path | None = None,
) -> Source:
    """The images of one split of a known data set, a folder of images or one of parquet files.

    `cifar10`, `cifar100` and `stl10` are looked for below `root`, as parquet files in the hub's
    layout or as torchvision's own files, and can be fetched by torchvision; `imagenet100` and
    `imagenet` need `root`, a folder of class folders or of parquet files. STL-10's train split is
    its labelled and its unlabelled images. Anything else is a path.

    Args:
        name_or_path: A known name, or a folder or parquet file.
        split: "train" or "test".
        root: Where a known set's files are, or where it is fetched to (by default the user's
            cache); what a path is relative to.
        image_column: The column of images in parquet files, where it is not clear.
        label_column: The column of classes in parquet files, where it is not the usual one.
        download: Fetch a known set that is not there.
        strict: Refuse stray files, empty class folders and missing parts instead of noting them.
        holdout: The share of the images that becomes the test split where there is none.
        cache_dir: Where listings of large folders are kept; they are not for None.

    Raises:
        DataError: nothing usable is there; the message says what was found and what to do.
    """
    if split not in ("train", "test"):
        raise ValueError(f"split must be train or test, not {split!r}")
    known = KNOWN.get(name_or_path)
    options: dict[str, Any] = {"strict": strict, "holdout": holdout, "image_column": image_column}
    if known is None:
        path = Path(name_or_path).expanduser()
        if root is not None:
            path = Path(root).expanduser() / path
        if not path.exists():
            raise DataError(_unknown(name_or_path, path))
        return _open_path(path, split, {**options, "label_column": label_column}, cache_dir)

    options["label_column"] = label_column or known.label_column
    below = None if root is None else Path(root).expanduser()
    if below is not None and not below.is_dir() and not download:
        raise DataError(f"{below}, the root of {name_or_path}, is no folder")
    if known.torchvision is None:
        if below is None:
            raise DataError(
                f"{name_or_path} cannot be fetched: set data.root=PATH, the folder of its files"
            )
        return _checked(name_or_path, known, below, _open_path(below, split, options, cache_dir))
    source = None if below is None else _below(name_or_path, known, below, split, options)
    if source is None:
        source = _from_torchvision(name_or_path, known, below, split, download)
    return source if label_column else _checked(name_or_path, known, below, source)


def _open_path(path: Path, split: str, options: dict[str, Any], cache_dir: Path | None) -> Source:
    """A folder of parquet files whose names or folders say their split, or one of images."""
    if path.is_file() and path.suffix != ".parquet":
        raise DataError(f"{path} is a file: give a folder of images, or a parquet file")
    found = find_parquet(path)
    if not any(set(splits) - {""} for splits in found.values()) and not path.is_file():
        try:
            folder = {name: options[name] for name in ("strict", "holdout")}
            return open_folder(path, split, cache_dir=cache_dir, **folder)
        except NoImagesError:
            if not found:
                raise
    if len(found) > 1:
        listed = some([str(folder) for folder in sorted(found)], 8)
        raise DataError(f"{path} holds several sets of parquet files; give one of {listed}")
    return open_parquet(next(iter(found.values())), split, path, **options)


def _below(
    name: str, known: Known, root: Path, split: str, options: dict[str, Any]
) -> Source | None:
    """A known set's parquet files, in the only folder of them or in one that bears its name."""
    found = find_parquet(root)
    if not found:
        return None
    named = {
        folder: splits
        for folder, splits in found.items()
        if any(part.lower().replace("-", "") == name for part in folder.parts)
    }
    chosen: list[Splits] = list((named or found).values())
    if len(chosen) > 1:
        listed = some([str(folder) for folder in sorted(named or found)], 8)
        raise DataError(f"{root} holds several sets of parquet files; give one of {listed} as root")
    return open_parquet(chosen[0], split, root, with_unlabelled=name == "stl10", **options)


def _checked(name: str, known: Known, root: Path | None, source: Source) -> Source:
    if source.classes is not None and len(source.classes) != known.classes:
        raise DataError(
            f"{name} has {known.classes} classes, and what is in {root} {len(source.classes)}: "
            "give another root, or the path itself in place of the name"
        )
    return source


def _from_torchvision(
    name: str, known: Known, root: Path | None, split: str, download: bool
) -> Source:
    """A set in torchvision's own files, fetched first if asked to."""
    folder = root or cache_folder() / "fetched"
    if not (folder / known.folder).is_dir() and not download:
        raise DataError(
            f"{name} is not in {folder}: set data.root=PATH, the folder of its files (parquet in "
            f"the hub's layout, or torchvision's {known.folder}), or fetch it with --download"
        )
    from torchvision import datasets  # here, because it takes a second

    stl = name == "stl10"
    which: Any = {"train": "train+unlabeled", "test": "test"}[split] if stl else split == "train"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the files' old pickles make NumPy warn
            opened = getattr(datasets, known.torchvision or "")(folder, which, download=download)
    except (RuntimeError, OSError) as error:
        raise DataError(f"{name} in {folder} is damaged or cannot be fetched: {error}") from error
    pixels = opened.data.transpose(0, 2, 3, 1) if stl else opened.data
    labels = opened.labels if stl else opened.targets
    files = sorted(path for path in (folder / known.folder).iterdir() if path.is_file())
    states = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files]
    return Source(
        names=[f"{name}/{split}:{row}" for row in range(len(pixels))],
        labels=torch.tensor(labels, dtype=torch.int64),
        classes=tuple(opened.classes),
        read=PixelBytes(pixels),
        fingerprint=fingerprint([name, split, *states]),
        notes=[],
    )


def _unknown(name: str, path: Path) -> str:
    near: Sequence[str] = difflib.get_close_matches(name, KNOWN, cutoff=0.5)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{name} is no known data set, and {path} no path: {meant}Known: {', '.join(KNOWN)}"
