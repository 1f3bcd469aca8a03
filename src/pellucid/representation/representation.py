"""Images in a representation, wherever it was made: what pages and answers are given to read."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from pellucid.evaluate.store import read_features, read_thumbnails
from pellucid.representation.feature_file import read_feature_file
from pellucid.representation.feature_folder import read_feature_folder
from pellucid.representation.feature_images import find_images
from pellucid.representation.label_file import read_labels
from pellucid.representation.score_file import read_scores
from pellucid.run import RECIPE, Run, RunError, open_run
from pellucid.text import read_json
from pellucid.train.whole import write_text

NAMES = "names.json"
LONGEST_NAME = 200
"""Letters of a dimension's name."""


@dataclass(frozen=True, eq=False)
class Representation:
    """Images in the dimensions of z, and what is known of them. Dimension k is column k of z."""

    label: str
    """What to call it: the run's or the file's name."""
    origin: Path
    """The run directory or the file that it was read from."""
    z: Float[Tensor, "n k"]
    """In fp32; for a gated run after the gate."""
    names: list[str]
    """Of the images, unique: paths below the root of their set, or numbers."""
    named: bool = True
    """Whether the images have names of their own; numbers stand for them otherwise."""
    labels: Int[Tensor, " n"] | None = None
    """Class indices, -1 where an image has none; None without labels."""
    classes: tuple[str, ...] | None = None
    """Names that the labels index."""
    h: Float[Tensor, "n f"] | None = None
    """Encoder features of the same images, where they are known."""
    ungated: Float[Tensor, "n k"] | None = None
    """What z would be with every gate open; None without gates."""
    gate: Float[Tensor, "n k"] | None = None
    """The probability that each gate is open; None without gates."""
    threshold: float | None = None
    """A gate is open when its probability is above this; None without hard gates."""
    hashes: list[str] | None = None
    """A digest of each image's pixels; None where the images are not known."""
    thumbnails: Callable[[], UInt8[Tensor, "n 3 t w"]] | None = None
    """Reads small copies of the images, in their order; None where there are no images."""
    run: Run | None = None
    """The run that made it; None for a file of features."""
    scores: Mapping[str, Any] | None = None
    """What scores.json holds; None where nothing was scored."""
    notes: list[str] = field(default_factory=list)
    """What was assumed or left out in reading, in words."""

    @property
    def signed(self) -> bool:
        """Whether any entry is negative: shares of a similarity then mean nothing."""
        return bool((self.z < 0).any())

    @property
    def closed(self) -> Bool[Tensor, "n k"] | None:
        """Where a hard gate took away what would have been there; None without hard gates."""
        if self.gate is None or self.threshold is None or self.ungated is None:
            return None
        return (self.gate <= self.threshold) & (self.ungated != 0)

    def names_file(self) -> Path:
        """Where the names that people give to dimensions are kept."""
        if self.origin.is_dir():
            return self.origin / NAMES
        return self.origin.with_name(f"{self.origin.name}.{NAMES}")

    def dimension_names(self) -> dict[int, str]:
        """The names that people gave to dimensions.

        Raises:
            RunError: the file of names is damaged, or names a dimension that is not there.
        """
        path = self.names_file()
        return read_names(path, self.z.shape[1]) if path.is_file() else {}

    def keep_names(self, path: Path) -> dict[int, str]:
        """Check a file of names that the page wrote, and keep it with the representation.

        Raises:
            RunError: it cannot be read, or names a dimension that is not there.
        """
        names = read_names(path, self.z.shape[1])
        write_names(self.names_file(), names)
        return names

    def position(self, image: str) -> int:
        """The place of an image that is named, or numbered from 0.

        Raises:
            RunError: there is no such image.
        """
        if image in self.names:
            return self.names.index(image)
        if _is_number(image) and int(image) < len(self.names):
            return int(image)
        raise RunError(
            f"{self.label} has no image {image!r}: give a number from 0 to {len(self.names) - 1}, "
            f"a name such as {self.names[0]!r}, or the path of a file"
        )


def of_run(run: Run) -> Representation:
    """What `pellucid evaluate` left of a run.

    Raises:
        RunError: the run has not been evaluated, or its files are damaged.
    """
    stored = read_features(run)
    features = stored.features
    return Representation(
        label=run.name,
        origin=run.folder,
        z=features.z,
        names=stored.names,
        labels=features.labels,
        classes=stored.classes,
        h=features.h,
        ungated=None if features.gate is None else features.ungated,
        gate=features.gate,
        threshold=stored.threshold,
        hashes=stored.hashes,
        thumbnails=lambda: read_thumbnails(run, len(features.z)),
        run=run,
        scores=read_scores(run),
    )


def of_features(
    path: Path, *, labels: Path | None = None, images: Path | None = None
) -> Representation:
    """What `pellucid embed` wrote, or a bare file of features; see `open_representation`.

    Raises:
        RunError: it is neither, or does not fit its labels or images.
    """
    table = read_feature_folder(path) if path.is_dir() else read_feature_file(path)
    names, indices, classes, notes = table.names, table.labels, table.classes, list(table.notes)
    found = None if images is None else find_images(table, path, images)
    if found is not None:
        names, notes = found.names, notes + found.notes
        if indices is None:
            indices, classes = found.labels, found.classes
    if names is None:
        notes.append(
            f"{path.name} names no images: beside others its rows are taken in their order"
        )
    if labels is not None:
        if table.labels is not None:
            notes.append(f"labels are those of {labels.name}, not of {path.name}")
        indices, classes = read_labels(labels, len(table.z), names)
    if table.gate is not None and not path.is_dir():
        if table.ungated is None:
            notes.append("z before the gate is not in the file, so the gate cannot be shown")
        elif table.threshold is None:
            notes.append("the file gives no threshold of the gate: it is read as a soft one")
    if names is not None and any(Path(name).is_absolute() for name in names):
        names = _below(names)
        notes.append("images are named from the folder on that all of them share")
    return Representation(
        label=path.resolve().name if path.is_dir() else path.stem,
        origin=path,
        z=table.z,
        names=[str(i) for i in range(len(table.z))] if names is None else names,
        named=names is not None,
        labels=indices,
        classes=classes,
        h=table.h,
        ungated=table.ungated if table.gate is not None else None,
        gate=table.gate,
        threshold=table.threshold,
        hashes=None if found is None else found.hashes,
        thumbnails=None if found is None else found.thumbnails,
        notes=notes,
    )


def _below(names: list[str]) -> list[str]:
    """Paths without the folders that all share, which say where somebody's files are."""
    paths = [PurePath(name) for name in names]
    shared = os.path.commonpath([path.parent for path in paths if path.is_absolute()])
    return [
        str(path.relative_to(shared)) if path.is_absolute() else name
        for path, name in zip(paths, names, strict=True)
    ]


def open_representation(
    path: Path, *, labels: Path | None = None, images: Path | None = None
) -> Representation:
    """An evaluated run, what `pellucid embed` wrote, or a bare file of features.

    Args:
        path: a run directory, a folder of `pellucid embed`, or an npy, npz or parquet file (see
            `feature_file.read_feature_file`).
        labels: of features, a file with one class an image (see `label_file.read_labels`); in
            place of what the features say themselves.
        images: of features, the folder of images that they are of: matched by name, or, where the
            features name no images, in sorted order. It gives hashes and thumbnails, and, where
            nothing else does, labels by its class folders.

    Raises:
        RunError: it is none of these, or cannot be read.
    """
    if (path / RECIPE).is_file():
        for name, given in (("labels", labels), ("images", images)):
            if given is not None:
                raise RunError(
                    f"{path} is a run, which knows its own {name}: leave out {given}, or embed it"
                )
        return of_run(open_run(path))
    return of_features(path, labels=labels, images=images)


def read_names(path: Path, dimensions: int) -> dict[int, str]:
    """Names by dimension from a JSON object such as {"17": "stripes"}; empty ones are left out.

    Raises:
        RunError: it cannot be read, is something else, or names a dimension that is not there.
    """
    try:
        tree = read_json(path)
    except (OSError, ValueError) as error:
        raise RunError(f"names of dimensions: {path} cannot be read ({error})") from error
    if not isinstance(tree, dict) or not all(isinstance(name, str) for name in tree.values()):
        raise RunError(f'{path} must hold names by dimension, such as {{"17": "stripes"}}')
    for key in tree:
        if not _is_number(key) or int(key) >= dimensions:
            raise RunError(f"{path} names dimension {key!r}; there are 0 to {dimensions - 1}")
    names = {int(key): name.strip()[:LONGEST_NAME] for key, name in tree.items()}
    return {key: names[key] for key in sorted(names) if names[key]}


def _is_number(text: str) -> bool:
    # Of more digits than any index has; Python refuses to convert thousands of them.
    return text.isascii() and text.isdecimal() and len(text) < 16


def write_names(path: Path, names: Mapping[int, str]) -> None:
    """Write names by dimension, whole or not at all."""
    text = json.dumps({str(key): names[key] for key in sorted(names)}, indent=1)
    write_text(path, text)


def same_images(first: Representation, other: Representation) -> None:
    """Check that two representations are of the same images in the same order.

    Images are compared by content where both know it, else by name. Where one names no images, the
    same number of them is all that can be asked.

    Raises:
        RunError: they are not; the message counts and names what differs.
    """
    pair = f"{first.label} and {other.label}"
    if len(first.z) != len(other.z):
        raise RunError(
            f"{pair} are of different images: {len(first.z):,} and {len(other.z):,} of them"
        )
    if not (first.named and other.named) and (first.hashes is None or other.hashes is None):
        return
    known = first.hashes is not None and other.hashes is not None
    ours = first.hashes if known and first.hashes is not None else first.names
    theirs = other.hashes if known and other.hashes is not None else other.names
    differing = [i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
    if differing:
        names = ", ".join(repr(first.names[i]) for i in differing[:3])
        raise RunError(
            f"{pair} are of different images: {len(differing):,} of {len(ours):,} differ in "
            f"{'content' if known else 'name'}, first {names}"
        )
