"""Folders of images: class folders, split folders, or images without labels."""

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from pellucid.data.decode import image_endings
from pellucid.data.source import DataError, Source, fingerprint, hold_out, some

HELD_OUT = ("test", "valid", "validation", "val")
"""The names that a held-out split goes by, in the order they are looked for."""

_SYSTEM_FILES = {"thumbs.db", "desktop.ini", "__macosx"}


class NoImagesError(DataError):
    """A folder without an image."""


@dataclass(frozen=True)
class FileBytes:
    """Reads the files of a folder."""

    root: Path
    names: list[str]

    def __call__(self, index: int) -> bytes:
        return (self.root / self.names[index]).read_bytes()


@dataclass(frozen=True)
class Listing:
    """What a walk through a folder met; names are sorted and relative to the root."""

    prefix: str
    """Where below the root the walk began: "train/", or nothing."""
    states: dict[str, str]
    """The images, each with its size and time of change."""
    subfolders: list[str]
    strays: list[str]
    """What cannot be used: other files, broken links, pipes, folders that cannot be entered."""
    hidden: int

    def folder_of(self, name: str) -> str | None:
        """The subfolder, its class, that an image lies in; None for an image beside them."""
        folder, slash, _ = name.removeprefix(self.prefix).partition("/")
        return folder if slash else None

    def classes(self) -> list[str]:
        """The subfolders that are classes: none for a set without labels."""
        folders = [self.folder_of(name) for name in self.states]
        classes = {folder for folder in folders if folder is not None}
        loose = folders.count(None)
        return sorted(classes) if len(classes) > 1 and loose <= len(folders) - loose else []

    def found(self) -> str:
        """What is there instead of images."""
        parts = [_count(len(self.strays), "other file")] if self.strays else []
        parts += [_count(self.hidden, "hidden file")] if self.hidden else []
        parts += [_count(len(self.subfolders), "folder")] if self.subfolders else []
        shown = [*self.subfolders, *self.strays]
        return f"{', '.join(parts) or 'nothing'} there" + (f" ({some(shown)})" if shown else "")


def list_folder(root: Path, prefix: str = "") -> Listing:
    """Every image below `root/prefix`, also through linked folders, and what was passed over."""
    states: dict[str, str] = {}
    strays: list[str] = []
    hidden = 0
    endings = tuple(image_endings())
    pending, entered = [prefix], {os.path.realpath(root / prefix)}
    while pending:
        below = pending.pop()
        try:
            entries = list(os.scandir(root / below))
        except OSError as error:
            strays.append(f"{below} ({error.strerror})")
            continue
        for entry in entries:
            name = below + entry.name
            try:
                is_folder, is_file = entry.is_dir(), entry.is_file()
                state = entry.stat() if is_file else None
            except OSError as error:  # a link to itself, or a file that has just gone
                strays.append(f"{name} ({error.strerror})")
                continue
            is_image = entry.name.lower().endswith(endings)
            if entry.name.startswith(".") or entry.name.lower() in _SYSTEM_FILES:
                hidden += 1
            elif is_folder:
                real = os.path.realpath(entry.path)
                if is_image:
                    strays.append(f"{name} (a folder)")
                elif real not in entered:  # a link may lead back up
                    entered.add(real)
                    pending.append(f"{name}/")
            elif state is None:
                what = "a broken link" if entry.is_symlink() else "no file"
                strays.append(f"{name} ({what})")
            elif not is_image:
                strays.append(name)
            elif not os.access(entry.path, os.R_OK):
                strays.append(f"{name} (not readable)")
            else:
                states[name] = f"{state.st_size} {state.st_mtime_ns}"
    states = dict(sorted(states.items()))
    return Listing(prefix, states, subfolders(root / prefix), sorted(strays), hidden)


def subfolders(root: Path) -> list[str]:
    """The names of the folders directly below, sorted, without hidden ones."""
    names = [path.name for path in root.iterdir() if path.is_dir()]
    return sorted(n for n in names if not n.startswith(".") and n.lower() not in _SYSTEM_FILES)


def open_folder(root: Path, split: str, *, strict: bool = False, holdout: float = 0.1) -> Source:
    """The images of a folder: `root/class/..`, `root/train/..` beside a test folder, or flat.

    A folder named train, in any case, makes the folders beside it splits; the held-out one is
    the first of test, valid, validation and val that has labels, or else that has images. Two or
    more subfolders with images are classes, unless more images lie beside them than in them.

    Raises:
        NoImagesError: there is no image.
        DataError: `strict`, and something was passed over.
    """
    splits = {name.lower(): name for name in reversed(subfolders(root))}
    train = list_folder(root, f"{splits['train']}/" if "train" in splits else "")
    if not train.states:
        raise NoImagesError(f"{root / train.prefix} holds no image: {train.found()}")
    held_out = _held_out(root, splits) if "train" in splits else None
    if held_out is None:
        source = _source(root, train, train.classes(), strict)
        return hold_out(source, split, holdout)
    # Both splits number the classes alike, whichever of them lacks one.
    wanted = held_out if split == "test" else train
    classes = sorted({*train.classes(), *held_out.classes()}) if wanted.classes() else []
    return _source(root, wanted, classes, strict)


def _held_out(root: Path, splits: dict[str, str]) -> Listing | None:
    listings = [list_folder(root, f"{splits[name]}/") for name in HELD_OUT if name in splits]
    listings = [listing for listing in listings if listing.states]
    # ImageNet's test folder has no labels, and its val folder has.
    labelled = [listing for listing in listings if listing.classes()]
    return next(iter(labelled or listings), None)


def _source(root: Path, listing: Listing, classes: list[str], strict: bool) -> Source:
    names, strays, empty = list(listing.states), list(listing.strays), []
    if classes:
        loose = [name for name in names if listing.folder_of(name) is None]
        strays = sorted(strays + loose)
        names = [name for name in names if listing.folder_of(name) is not None]
        full = {listing.folder_of(name) for name in names}
        empty = [folder for folder in listing.subfolders if folder not in full]
    notes = [f"class folder '{listing.prefix}{folder}' holds no image" for folder in empty]
    if strays:
        notes.append(f"{_count(len(strays), 'stray file')} skipped: {some(strays)}")
    if strict and notes:
        raise DataError(f"{root}: {'; '.join(notes)}; remove them, or open it without strict")
    if listing.hidden:
        notes.append(f"{_count(listing.hidden, 'hidden file')} ignored")
    number = {folder: index for index, folder in enumerate(classes)}
    labels = [number[listing.folder_of(name) or ""] for name in names] if classes else None
    states = (f"{name} {listing.states[name]}" for name in names)
    return Source(
        names=names,
        labels=None if labels is None else torch.tensor(labels),
        classes=tuple(classes) or None,
        read=FileBytes(root, names),
        fingerprint=fingerprint([str(root.resolve()), *classes, *states]),
        notes=notes,
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
