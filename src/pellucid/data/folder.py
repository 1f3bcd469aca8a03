"""Folders of images: class folders, split folders, or images without labels."""

from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import torch

from pellucid.data.remember import remembered
from pellucid.data.source import DataError, Source, fingerprint, hold_out, some
from pellucid.data.walk import Listing, counted, subfolders

HELD_OUT = ("test", "valid", "validation", "val")
"""The names that a held-out split goes by, in the order they are looked for."""


class NoImagesError(DataError):
    """A folder without an image."""


@dataclass(frozen=True)
class FileBytes:
    """Reads the files of a folder."""

    root: Path
    names: list[str]

    def __call__(self, index: int) -> bytes:
        return (self.root / self.names[index]).read_bytes()


def open_folder(
    root: Path,
    split: str,
    *,
    strict: bool = False,
    holdout: float = 0.1,
    cache_dir: Path | None = None,
) -> Source:
    """The images of a folder: `root/class/..`, `root/train/..` beside a test folder, or flat.

    A folder named train, in any case, makes the folders beside it splits; the held-out one is
    the first of test, valid, validation and val that has labels, or else that has images. Two or
    more subfolders with images are classes, unless more images lie beside them than in them.
    The listing of a large folder is kept in `cache_dir`, if one is given (see `remembered`).

    Raises:
        NoImagesError: there is no image.
        DataError: `strict`, and something was passed over.
    """
    splits = {name.lower(): name for name in reversed(subfolders(root))}
    train = remembered(root, f"{splits['train']}/" if "train" in splits else "", cache_dir)
    if not train.names:
        raise NoImagesError(f"{root / train.prefix} holds no image: {train.found()}")
    held_out = _held_out(root, splits, cache_dir) if "train" in splits else None
    if held_out is None:
        source = _source(root, train, train.classes(), strict)
        return hold_out(source, split, holdout)
    # Both splits number the classes alike, whichever of them lacks one.
    wanted = held_out if split == "test" else train
    classes = sorted({*train.classes(), *held_out.classes()}) if wanted.classes() else []
    return _source(root, wanted, classes, strict)


def _held_out(root: Path, splits: dict[str, str], cache_dir: Path | None) -> Listing | None:
    listings = [
        remembered(root, f"{splits[name]}/", cache_dir) for name in HELD_OUT if name in splits
    ]
    listings = [listing for listing in listings if listing.names]
    # ImageNet's test folder has no labels, and its val folder has.
    labelled = [listing for listing in listings if listing.classes()]
    return next(iter(labelled or listings), None)


def _source(root: Path, listing: Listing, classes: list[str], strict: bool) -> Source:
    names, states, strays, empty = listing.names, listing.states, list(listing.strays), []
    labels: list[int] | None = None
    if classes:
        number: dict[str | None, int] = {folder: index for index, folder in enumerate(classes)}
        folders = [listing.folder_of(name) for name in names]
        inside = [folder is not None for folder in folders]
        if not all(inside):
            loose = [name for name, is_inside in zip(names, inside, strict=True) if not is_inside]
            strays = sorted(strays + loose)
            names, states = list(compress(names, inside)), list(compress(states, inside))
        labels = [number[folder] for folder in folders if folder is not None]
        full = set(folders)
        empty = [folder for folder in listing.subfolders if folder not in full]
    notes = [f"class folder '{listing.prefix}{folder}' holds no image" for folder in empty]
    if strays:
        notes.append(f"{counted(len(strays), 'stray file')} skipped: {some(strays)}")
    if strict and notes:
        raise DataError(f"{root}: {'; '.join(notes)}; remove them, or open it without strict")
    if listing.hidden:
        notes.append(f"{counted(listing.hidden, 'hidden file')} ignored")
    items = map(" ".join, zip(names, states, strict=True))
    return Source(
        names=names,
        labels=None if labels is None else torch.tensor(labels),
        classes=tuple(classes) or None,
        read=FileBytes(root, names),
        fingerprint=fingerprint([str(root.resolve()), *classes, *items]),
        notes=notes,
    )
