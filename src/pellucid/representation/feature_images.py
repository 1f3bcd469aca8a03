"""The images that features are of, found in a folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from pellucid.data.image_set import ImageSet, open_images
from pellucid.data.source import DataError, some
from pellucid.evaluate.store import thumbnails
from pellucid.representation.feature_table import FeatureTable
from pellucid.run import RunError


@dataclass(frozen=True, eq=False)
class FoundImages:
    """The images of a table, in its order."""

    names: list[str]
    hashes: list[str]
    labels: Int[Tensor, " n"] | None
    classes: tuple[str, ...] | None
    thumbnails: Callable[[], UInt8[Tensor, "n 3 t w"]]
    notes: list[str]


def find_images(table: FeatureTable, path: Path, folder: Path) -> FoundImages:
    """The images of a table in a folder: by name, or, where the table has none, by sorted order.

    Args:
        table: features.
        path: the file that they were read from, for messages.
        folder: of images, or of parquet files that hold them.

    Raises:
        RunError: an image is not there, or without names the numbers differ.
    """
    try:
        images = open_images(str(folder), table.split, holdout=0.0, bad_share=1.0)
    except DataError as error:
        raise RunError(f"the images of {path} cannot be read: {error}") from error
    hashes = images.hashes()  # a streamed set knows its unreadable images only afterwards
    notes = [f"{folder.name}: {note}" for note in images.notes]
    order = _order(table, path, images, folder, notes)
    unreadable = {name for name, _ in images.skipped}
    names = [images.names[i] for i in order]
    bad = [repr(name) for name in names if name in unreadable]
    if bad:
        raise RunError(f"{folder}: {some(bad)} cannot be read, of which {path} has features")

    def small() -> Tensor:
        return thumbnails(images)[torch.tensor(order)]

    return FoundImages(
        names=names,
        hashes=[hashes[i] for i in order],
        labels=None if images.labels is None else images.labels[order],
        classes=images.classes,
        thumbnails=small,
        notes=notes,
    )


def _order(
    table: FeatureTable, path: Path, images: ImageSet, folder: Path, notes: list[str]
) -> list[int]:
    count = len(table.z)
    if table.names is None:
        if len(images) != count:
            raise RunError(
                f"{path} has {count:,} images without names, and {folder} holds {len(images):,} "
                f"that can be read ({len(images.skipped):,} cannot): they must be as many, to be "
                "matched in sorted order"
            )
        notes.append(f"{path.name} names no images: taken in the sorted order of {folder.name}")
        return list(range(count))
    place = {name: i for i, name in enumerate(images.names)}
    missing = [repr(name) for name in table.names if name not in place]
    if missing:
        raise RunError(
            f"{folder} lacks {len(missing):,} of the {count:,} images of {path}, first "
            f"{some(missing)}; its names are such as {images.names[0]!r}: give the folder that the "
            "names are relative to"
        )
    if len(images) > count:
        notes.append(f"{len(images) - count:,} images of {folder.name} have no features")
    return [place[name] for name in table.names]
