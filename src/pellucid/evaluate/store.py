"""Features on disk: what the pages read, so that none of them needs the images or the model."""

import json
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import UInt8
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from pellucid.data.image_set import ImageSet
from pellucid.evaluate.extract import BATCH, Features
from pellucid.evaluate.stored import wrong_facts, wrong_tensors
from pellucid.run import FEATURES, Run, RunError
from pellucid.text import read_json
from pellucid.train.whole import whole_file, write_text

TENSORS, THUMBNAILS, FACTS = "test.safetensors", "thumbnails.safetensors", "test.json"
FORMAT = 1
"""Of these files; a reader refuses any other."""
LARGEST = 96
"""Longer side of a thumbnail, in pixels; smaller images keep their own size."""


class Stored(NamedTuple):
    """What `pellucid evaluate` left of the images of a run."""

    features: Features
    names: list[str]
    """Path of each image below the root of its set."""
    classes: tuple[str, ...] | None
    """Names that the labels index."""
    hashes: list[str]
    """A digest of each image's stored pixels."""
    step: int
    """Optimiser steps that the branch was trained for."""
    split: str
    """Which images: `test`, or `train` where there are no others."""
    threshold: float | None
    """A gate is open when its probability is above this; None without a hard gate."""


def write_features(
    run: Run,
    features: Features,
    images: ImageSet,
    *,
    step: int,
    split: str = "test",
    threshold: float | None = None,
) -> None:
    """Write features, facts and thumbnails of a run's images into `features/`.

    Tensors are fp32, as scored: a page's shares of a cosine then sum to it, and no gate
    probability is rounded across its threshold. The file of facts is written last and removed
    first, so that files of two evaluations are never read together.

    Args:
        run: whose directory to write into.
        features: of all the images, in their order.
        images: names, classes and pixels.
        step: optimiser steps that the branch was trained for.
        split: which images these are.
        threshold: of the gate.
    """
    folder = run.folder / FEATURES
    folder.mkdir(exist_ok=True)
    (folder / FACTS).unlink(missing_ok=True)
    tensors = {name: value for name, value in features._asdict().items() if value is not None}
    _write(folder / TENSORS, tensors)
    _write(folder / THUMBNAILS, {"pixels": thumbnails(images)})
    labels = features.labels
    facts = {
        "format": FORMAT,
        "step": step,
        "split": split,
        "threshold": threshold,
        "images": len(features.z),
        "unlabelled": len(features.z) if labels is None else int((labels < 0).sum()),
        "classes": images.classes,
        "names": images.names,
        "hashes": images.hashes(),
    }
    # ASCII: a file name that is no valid Unicode survives only as an escape.
    write_text(folder / FACTS, json.dumps(facts))


def read_features(run: Run) -> Stored:
    """What `write_features` wrote.

    Raises:
        RunError: the run has not been evaluated, or by another version, or a file is damaged.
    """
    folder = run.folder / FEATURES
    remedy = f"run `pellucid evaluate {run.folder}`"
    try:
        facts = read_json(folder / FACTS)
    except FileNotFoundError as error:
        raise RunError(f"{folder / FACTS} is missing: {remedy} first") from error
    except (OSError, ValueError) as error:
        raise RunError(f"{folder / FACTS} cannot be read ({error}): {remedy} again") from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        found = facts.get("format") if isinstance(facts, dict) else None
        raise RunError(
            f"{folder / FACTS} has format {found!r}, this version reads {FORMAT}: {remedy} again"
        )
    tensors = _read(folder / TENSORS, remedy)
    if (wrong := wrong_tensors(tensors)) is not None:
        raise RunError(f"{folder / TENSORS} holds {wrong}: {remedy} again")
    if (odd := wrong_facts(facts, tensors)) is not None:
        raise RunError(f"{folder / FACTS}: {odd}, which does not fit {TENSORS}: {remedy} again")
    return Stored(
        features=Features(**{name: tensors.get(name) for name in Features._fields}),  # type: ignore[arg-type]
        names=facts["names"],
        classes=None if facts["classes"] is None else tuple(facts["classes"]),
        hashes=facts["hashes"],
        step=facts["step"],
        split=facts["split"],
        threshold=facts["threshold"],
    )


def read_thumbnails(run: Run, count: int | None = None) -> UInt8[Tensor, "n 3 t w"]:
    """The thumbnails of a run's images, in their order, of which there must be `count`.

    Raises:
        RunError: the run has not been evaluated, or the file is damaged.
    """
    path = run.folder / FEATURES / THUMBNAILS
    remedy = f"run `pellucid evaluate {run.folder}`"
    pixels: Tensor | None = _read(path, remedy).get("pixels")
    if pixels is None or pixels.dtype != torch.uint8 or pixels.ndim != 4 or pixels.shape[1] != 3:
        found = "no pixels" if pixels is None else f"pixels {list(pixels.shape)} {pixels.dtype}"
        raise RunError(f"{path} holds {found}, not small images [N, 3, H, W]: {remedy} again")
    if not 0 < min(pixels.shape) <= max(pixels.shape[2:]) <= LARGEST:
        raise RunError(
            f"{path} holds images of {pixels.shape[2]} x {pixels.shape[3]} pixels, not of 1 to "
            f"{LARGEST}: {remedy} again"
        )
    if count is not None and len(pixels) != count:
        raise RunError(f"{path} holds {len(pixels):,} images, {TENSORS} {count:,}: {remedy} again")
    return pixels


def thumbnails(images: ImageSet, largest: int = LARGEST) -> UInt8[Tensor, "n 3 t w"]:
    """Small copies of all images: as they are up to `largest` pixels, else the longer side that."""
    height, width = images.image_size
    scale = min(1.0, largest / max(height, width))
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    small = torch.empty(len(images), 3, *size, dtype=torch.uint8)
    order = list(torch.split(torch.arange(len(images)), BATCH))
    for indices, pixels in zip(order, images.batches(order), strict=True):
        small[indices] = pixels if scale == 1 else _resized(pixels, size)
    return small


def _resized(pixels: Tensor, size: tuple[int, int]) -> Tensor:
    resized = F.interpolate(pixels.float(), size, mode="bilinear", antialias=True)
    return resized.round().clamp(0, 255).to(torch.uint8)


def _write(path: Path, tensors: dict[str, Tensor]) -> None:
    with whole_file(path) as temporary:
        save_file({name: t.contiguous() for name, t in tensors.items()}, temporary)


def _read(path: Path, remedy: str) -> dict[str, Tensor]:
    if path.exists() and not path.is_file():  # opening a pipe would wait for its other end
        raise RunError(f"{path} is no file: {remedy} again")
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise RunError(f"{path} is missing: {remedy} first") from error
    except (OSError, ValueError, KeyError, MemoryError, SafetensorError) as error:
        raise RunError(f"{path} cannot be read ({error}): {remedy} again") from error
