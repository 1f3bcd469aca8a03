"""What a walk through a folder of images meets."""

import os
from dataclasses import dataclass
from pathlib import Path

from pellucid.data.decode import image_endings
from pellucid.data.source import some

_SYSTEM_FILES = {"thumbs.db", "desktop.ini", "__macosx"}


@dataclass(frozen=True)
class Listing:
    """What a walk through a folder met; names are sorted and relative to the root."""

    prefix: str
    """Where below the root the walk began: "train/", or nothing."""
    names: list[str]
    """The images."""
    states: list[str]
    """The size and the time of change of each image."""
    subfolders: list[str]
    strays: list[str]
    """What cannot be used: other files, broken links, pipes, folders that cannot be entered."""
    hidden: int
    folders: dict[str, str]
    """Every folder that was entered, with what changes when an entry comes or goes."""

    def folder_of(self, name: str) -> str | None:
        """The subfolder, its class, that an image lies in; None for an image beside them."""
        folder, slash, _ = name.removeprefix(self.prefix).partition("/")
        return folder if slash else None

    def classes(self) -> list[str]:
        """The subfolders that are classes: none for a set without labels."""
        folders = [self.folder_of(name) for name in self.names]
        classes = {folder for folder in folders if folder is not None}
        loose = folders.count(None)
        return sorted(classes) if len(classes) > 1 and loose <= len(folders) - loose else []

    def found(self) -> str:
        """What is there instead of images."""
        parts = [counted(len(self.strays), "other file")] if self.strays else []
        parts += [counted(self.hidden, "hidden file")] if self.hidden else []
        parts += [counted(len(self.subfolders), "folder")] if self.subfolders else []
        shown = [*self.subfolders, *self.strays]
        return f"{', '.join(parts) or 'nothing'} there" + (f" ({some(shown)})" if shown else "")


def state_of(entry: os.stat_result) -> str:
    """Changes when a file is written anew."""
    return f"{entry.st_size} {entry.st_mtime_ns}"


def folder_state(path: str | Path) -> str:
    """Changes when an entry of the folder comes, goes or is renamed.

    Unpacking and copying may set the time of change back, but not that of the status.

    Raises:
        OSError: it has gone.
    """
    found = os.stat(path)  # noqa: PTH116 - a Path for each of many folders takes longer
    return f"{found.st_dev} {found.st_ino} {found.st_mtime_ns} {found.st_ctime_ns}"


def list_folder(root: Path, prefix: str = "") -> Listing:
    """Every image below `root/prefix`, also through linked folders, and what was passed over."""
    states: dict[str, str] = {}
    strays: list[str] = []
    folders: dict[str, str] = {}
    hidden = 0
    endings = tuple(image_endings())
    pending, entered = [prefix], {os.path.realpath(root / prefix)}
    while pending:
        below = pending.pop()
        try:
            folders[below] = folder_state(root / below)  # before: what comes after is not missed
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
                states[name] = state_of(state)
    names = sorted(states)
    return Listing(
        prefix,
        names,
        [states[name] for name in names],
        subfolders(root / prefix),
        sorted(strays),
        hidden,
        folders,
    )


def subfolders(root: Path) -> list[str]:
    """The names of the folders directly below, sorted, without hidden ones."""
    names = [path.name for path in root.iterdir() if path.is_dir()]
    return sorted(n for n in names if not n.startswith(".") and n.lower() not in _SYSTEM_FILES)


def counted(number: int, what: str) -> str:
    """A number and its noun: "1 image", "2 images"."""
    return f"{number} {what}{'' if number == 1 else 's'}"
