"""What manifest.json says of a folder of features, checked: the folder may come from a stranger."""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from pellucid.run import RunError
from pellucid.text import read_json

MANIFEST = "manifest.json"
FORMAT = 1
"""Of these folders; a reader refuses any other."""
STAGES = ("z", "h", "gate", "ungated")
"""What can be written of an image, each a matrix of its own."""
COUNTS = ("rows", "dimensions", "features")
MOST = 2**31
"""Images, or dimensions; more is no manifest of `pellucid embed`."""


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What is said of a folder; None where nothing is.

    Raises:
        RunError: it is damaged, of another version, or names files that are not in the folder.
    """
    path = folder / MANIFEST
    try:
        manifest = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({error}): embed into another folder") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else None
        raise RunError(f"{path} has format {found!r}, this version reads {FORMAT}: embed again")
    if (wrong := _wrong(manifest)) is not None:
        raise RunError(f"{path} is damaged ({wrong}): embed into another folder")
    return manifest


def inside(folder: Path, name: str) -> Path:
    """The file of this name in a folder.

    Raises:
        RunError: it is a link to somewhere else.
    """
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise RunError(f"{path} is a link out of its folder: copy the file itself there")
    return path


def _wrong(manifest: Mapping[str, Any]) -> str | None:
    """What is wrong with a manifest, in words; None when nothing is."""
    whole = bool(manifest.get("complete"))
    required = ("files", "layout", "stages", "classes", "threshold", "split")
    for key in (*required, *COUNTS, "shards", "skipped") if whole else ():
        if key not in manifest:
            return f"{key} is missing"
    for key in COUNTS:
        value = manifest.get(key, 0)
        if type(value) is not int or not 0 <= value < MOST:
            return f"{key} is {value!r}, not a count"
    for key, choices in {"files": ("parquet", "npy"), "layout": ("dense", "sparse")}.items():
        if manifest.get(key, choices[0]) not in choices:
            return f"{key} is {manifest[key]!r}, not one of {', '.join(choices)}"
    stages = manifest.get("stages", ["z"])
    if not _texts(stages) or not {"z"} <= set(stages) <= set(STAGES):
        return f"stages are {stages!r}, not z and others of {', '.join(STAGES)}"
    classes, threshold = manifest.get("classes"), manifest.get("threshold")
    if classes is not None and not _texts(classes):
        return "classes are no texts"
    if threshold is not None and not is_probability(threshold):
        return f"threshold is {threshold!r}, no probability"
    if not isinstance(manifest.get("skipped", []), list):
        return "skipped is no list"
    return _wrong_files(manifest)


def _wrong_files(manifest: Mapping[str, Any]) -> str | None:
    shards, arrays = manifest.get("shards", []), manifest.get("arrays", [])
    if not isinstance(shards, list) or not _texts(arrays):
        return "shards or arrays is no list of files"
    rows = 0
    for shard in shards:
        if not isinstance(shard, dict) or not isinstance(shard.get("file"), str):
            return "a shard names no file"
        if type(shard.get("rows")) is not int or not 0 <= shard["rows"] < MOST:
            return f"shard {shard['file']!r} has no count of rows"
        rows += shard["rows"]
    for name in [*(shard["file"] for shard in shards), *arrays]:
        # On any system: a folder may be read elsewhere than it was written.
        if name in ("", ".", "..") or "\0" in name or _parts(name) != 1:
            return f"{name!r} is no file of the folder"
    if shards and rows != manifest.get("rows"):
        return f"shards have {rows:,} rows and not {manifest.get('rows')}"
    return None


def _parts(name: str) -> int:
    return max(len(kind(name).parts) for kind in (PurePosixPath, PureWindowsPath))


def is_probability(value: Any) -> bool:
    """Whether it is a number between 0 and 1."""
    return type(value) in (int, float) and 0 <= value <= 1


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
