"""Whether what is stored of images is what evaluation writes: a run may come from a stranger."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

ALWAYS = ("z", "h", "u", "ungated")
OF_Z = ("u", "ungated", "gate")
"""Tensors of the shape of z."""
MOST_CLASSES = 100_000
"""Where classes have no names; more would be something else than class indices."""


def wrong_tensors(tensors: Mapping[str, Tensor]) -> str | None:
    """What is wrong with stored tensors, in words; None when they can be used."""
    missing = [name for name in ALWAYS if name not in tensors]
    if missing:
        return f"no {missing[0]}"
    shape = tensors["z"].shape
    for name in (*ALWAYS, "gate"):
        values = tensors.get(name)
        if values is None:
            continue
        found = f"{name} {list(values.shape)} {values.dtype}"
        if values.dtype != torch.float32 or values.ndim != 2 or 0 in values.shape:
            return f"{found}, not fp32 of [images, dimensions]"
        if len(values) != shape[0] or (name in OF_Z and values.shape != shape):
            return f"{found}, which does not fit z {list(shape)}"
        if not bool(values.isfinite().all()):
            return f"{name} that is not finite"
    gate, labels = tensors.get("gate"), tensors.get("labels")
    if gate is not None and not bool(((gate >= 0) & (gate <= 1)).all()):
        return "a gate that is not between 0 and 1"
    if labels is not None and (labels.dtype != torch.int64 or labels.shape != shape[:1]):
        return f"labels {list(labels.shape)} {labels.dtype}, not one class index an image"
    if labels is not None and bool((labels < -1).any()):
        return f"label {int(labels.min())}, not a class index, or -1 for none"
    return None


def wrong_facts(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str | None:
    """What is wrong with the facts beside usable tensors, in words; None when nothing is."""
    count, labels = len(tensors["z"]), tensors.get("labels")
    if facts.get("images") != count:
        return f"images is {facts.get('images')!r} and not {count}"
    for name in ("names", "hashes"):
        if not _texts(facts.get(name)) or len(facts[name]) != count:
            return f"{name} are not {count} texts"
    for name in ("classes", "threshold"):
        if name not in facts:
            return f"{name} is missing"
    classes, threshold = facts["classes"], facts["threshold"]
    if classes is not None and not _texts(classes):
        return "classes are no texts"
    most = MOST_CLASSES if classes is None else len(classes)
    if labels is not None and int(labels.max()) >= most:
        return f"an image has label {int(labels.max())} of {most:,} classes"
    if type(facts.get("step")) is not int:
        return f"step is {facts.get('step')!r} and no integer"
    if facts.get("split") not in ("train", "test"):
        return f"split is {facts.get('split')!r}, neither train nor test"
    if threshold is not None and not (type(threshold) in (int, float) and 0 <= threshold <= 1):
        return f"threshold is {threshold!r} and no probability"
    return None


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)
