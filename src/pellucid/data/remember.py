"""The listing of a large folder, kept in the cache: walking a million files takes many seconds."""

import contextlib
import hashlib
import json
import os
import time
from pathlib import Path

from pellucid.data.decode import image_endings
from pellucid.data.source import fingerprint
from pellucid.data.walk import Listing, folder_state, list_folder, state_of

LARGE = 100_000
"""Images from which a listing is kept. A smaller folder is walked every time, in a second."""

CHECKED = 100_000
"""Files that are looked at before a kept listing is believed: all, or as many of more."""

FORMAT = 1
"""Raise when a walk would find other images, or the file's layout changes."""

_ENDING = ".listing"
_SETTLED = 2.0
"""Seconds from the last change of a folder to the walk: clocks of file systems are coarse, and a
file that came in the same tick as the listing would be missed for ever."""


def remembered(root: Path, prefix: str, cache_dir: Path | None) -> Listing:
    """`list_folder`, from the cache where no folder below has changed since.

    A file that is added, removed or renamed changes its folder, and all is listed anew. Files that
    were written anew in place are seen if they are among the hundred thousand that are looked at:
    whoever changes a few of a million images under their names removes `*.listing` from the cache.
    """
    if cache_dir is None:
        return list_folder(root, prefix)
    key = fingerprint([str(root.resolve()), prefix, str(FORMAT), *sorted(image_endings())])
    path = cache_dir / f"{key}{_ENDING}"
    listing = _read(path, root, prefix)
    if listing is None:
        began = time.time()
        listing = list_folder(root, prefix)
        if len(listing.names) >= LARGE and _lasting(listing, began):
            _write(path, listing)
    return listing


def forget(cache_dir: Path) -> None:
    """Walk all folders anew the next time."""
    for path in cache_dir.glob(f"*{_ENDING}"):
        with contextlib.suppress(OSError):
            path.unlink()


def _lasting(listing: Listing, began: float) -> bool:
    """Whether whatever changes the listing later changes the state of a folder."""
    newest = max(int(time) for state in listing.folders.values() for time in state.split()[2:])
    # The target of a broken link may appear, and permissions be given: strays with a reason.
    mends = any(stray.endswith(")") for stray in listing.strays)
    return newest < (began - _SETTLED) * 1e9 and not mends


def _write(path: Path, listing: Listing) -> None:
    """A line of JSON, then names and states with a zero byte between, which is in neither."""
    body = "\0".join([*listing.names, *listing.states]).encode(errors="surrogateescape")
    facts = {
        "digest": hashlib.blake2b(body, digest_size=16).hexdigest(),
        "prefix": listing.prefix,
        "folders": listing.folders,
        "subfolders": listing.subfolders,
        "strays": listing.strays,
        "hidden": listing.hidden,
    }
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.writing")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(json.dumps(facts).encode() + b"\n" + body)
        unfinished.replace(path)
    except OSError:  # a full or read-only cache costs time at the next start, no more
        with contextlib.suppress(OSError):
            unfinished.unlink()


def _read(path: Path, root: Path, prefix: str) -> Listing | None:
    """What is kept; None if that is nothing, damaged, or no longer so."""
    try:
        first, _, body = path.read_bytes().partition(b"\n")
        facts = json.loads(first)
        digest = hashlib.blake2b(body, digest_size=16).hexdigest()
        if facts["digest"] != digest or facts["prefix"] != prefix:
            return None
        folders: dict[str, str] = facts["folders"]
        if any(folder_state(root / below) != state for below, state in folders.items()):
            return None
        parts = body.decode(errors="surrogateescape").split("\0")
        names, states = parts[: len(parts) // 2], parts[len(parts) // 2 :]
        above = f"{root}/"  # a Path for each would take longer than the look
        for place in range(0, len(names), max(1, len(names) // CHECKED)):
            if state_of(os.stat(above + names[place])) != states[place]:  # noqa: PTH116
                return None
        return Listing(
            prefix=prefix,
            names=names,
            states=states,
            subfolders=facts["subfolders"],
            strays=facts["strays"],
            hidden=facts["hidden"],
            folders=folders,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
