"""The manifest: what a folder of features is of, and whether it is finished."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pellucid.representation.feature_manifest import MANIFEST, read_manifest
from pellucid.run import RunError
from pellucid.train.whole import write_text

_RESULT = ("complete", "rows", "dimensions", "features", "shards", "arrays", "skipped")
"""What is known only at the end."""


def claim(folder: Path, settings: Mapping[str, Any]) -> bool:
    """Check that a folder is free for these settings, or holds what they began; writes nothing.

    Returns:
        Whether it is finished.

    Raises:
        RunError: it is a file, holds something else, or features of other settings.
    """
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file; --out takes a new folder, or one of the same command")
    manifest = read_manifest(folder)
    if manifest is None:
        others = [p.name for p in folder.iterdir() if p.name[:1] != "."] if folder.exists() else []
        if others:
            raise RunError(
                f"{folder} is not empty and holds no {MANIFEST} (but {sorted(others)[0]!r}); "
                "choose another --out"
            )
        return False
    there = {key: value for key, value in manifest.items() if key not in _RESULT}
    asked = json.loads(json.dumps(settings))
    differing = [
        f"{key}: {_short(there.get(key))} there, {_short(asked.get(key))} asked"
        for key in {**there, **asked}
        if there.get(key) != asked.get(key)
    ]
    if differing:
        raise RunError(
            f"{folder} holds features of something else ({'; '.join(differing)}); choose another "
            "--out, or give what it was started with"
        )
    return bool(manifest.get("complete")) and all(
        (folder / name).is_file()
        for name in [*(s["file"] for s in manifest.get("shards", [])), *manifest.get("arrays", [])]
    )


def write_manifest(folder: Path, settings: Mapping[str, Any], **result: Any) -> None:
    """Write the manifest of a folder that is begun, or with its result that is finished."""
    tree = {**settings, "complete": bool(result), **result}
    # ASCII: a file name that is no valid Unicode survives only as an escape.
    write_text(folder / MANIFEST, json.dumps(tree, indent=1))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}..."
