"""Checkpoints: tensors in safetensors, the rest in JSON; whole or not at all."""

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from pellucid.text import for_terminal, read_json
from pellucid.train.whole import sync, write_text

FOLDER = "checkpoint"
TENSORS = "tensors.safetensors"
STATE = "state.json"
KEPT = 2
"""The newest, and the one before for the case that the newest turns out damaged."""


class CheckpointError(RuntimeError):
    """A checkpoint that is missing, damaged or of another model; the message names the file."""


def write_folder(final: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and facts as a folder, whole or not at all: a temporary name, then renamed.

    Raises:
        CheckpointError: the disk is full or cannot be written; what was there before still is.
    """
    temporary = final.with_name(f".{final.name}.writing")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        save_file({n: t.detach().contiguous() for n, t in tensors.items()}, temporary / TENSORS)
        sync(temporary / TENSORS)
        digest = _digest(temporary / TENSORS)
        write_text(temporary / STATE, json.dumps({**facts, "sha256": digest}))
        if final.exists():
            shutil.rmtree(final)
        temporary.replace(final)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise CheckpointError(
            f"{final} cannot be written: {error}. What was saved before is whole: "
            "make room, or mend the disk, and start the same command again"
        ) from error


def save(
    run: Path, step: int, learner: nn.Module, optimiser: Optimizer, beside: dict[str, Tensor]
) -> Path:
    """Write `checkpoint/STEP/` and drop all but the newest two.

    Args:
        run: the run directory.
        step: optimiser steps taken.
        learner: whose parameters and buffers to keep.
        optimiser: of `parameter_groups`, whose state to keep.
        beside: other tensors to keep, by names that start with neither.

    Raises:
        CheckpointError: it cannot be written; the checkpoints before it are as they were.
    """
    folder = run / FOLDER
    for unfinished in folder.glob(".*.writing"):  # of a start that was killed
        shutil.rmtree(unfinished, ignore_errors=True)
    tensors = dict(beside)
    tensors |= {f"learner/{name}": tensor for name, tensor in learner.state_dict().items()}
    for group in optimiser.param_groups:
        for name, parameter in zip(group["names"], group["params"], strict=True):
            for key, value in optimiser.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    tensors[f"optimiser/{name}/{key}"] = value
    final = folder / f"{step:08d}"
    write_folder(final, tensors, {"step": step})
    for old in written(run)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)  # a surplus one is no reason to stop
    return final


def written(run: Path) -> list[Path]:
    """Complete checkpoints of a run, oldest first."""
    folder = run / FOLDER
    return sorted(p for p in folder.glob("[0-9]*") if p.is_dir()) if folder.is_dir() else []


def read(checkpoint: Path) -> tuple[int, dict[str, Tensor]]:
    """The step and all tensors of one checkpoint.

    Raises:
        CheckpointError: a file is missing, or is not the one that was written.
    """
    try:
        state: dict[str, Any] = read_json(checkpoint / STATE)
        if _digest(checkpoint / TENSORS) != state["sha256"]:
            raise CheckpointError(f"{checkpoint / TENSORS} is damaged: its checksum has changed")
        return int(state["step"]), load_file(checkpoint / TENSORS)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise CheckpointError(f"{checkpoint} cannot be read: {error}") from error


def newest(
    run: Path, warn: Callable[[str], None] | None = None
) -> tuple[int, dict[str, Tensor]] | None:
    """The newest checkpoint that is whole, or None for a run that has none yet.

    A damaged one is named through `warn`, by default on stderr, and the one before is taken.

    Raises:
        CheckpointError: there are checkpoints and none is whole.
    """
    found = written(run)
    for checkpoint in reversed(found):
        try:
            return read(checkpoint)
        except CheckpointError as error:
            words = f"{error}; trying the one before"
            if warn is not None:
                warn(words)
            else:
                sys.stderr.write(f"{for_terminal(words)}\n")
    if found:
        raise CheckpointError(f"no checkpoint below {run / FOLDER} is whole; start a new run")
    return None


def load_learner(learner: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Put saved parameters and buffers into a learner of the same recipe.

    Raises:
        CheckpointError: names or shapes differ; nothing is loaded in part.
    """
    saved = {n.removeprefix("learner/"): t for n, t in tensors.items() if n[:8] == "learner/"}
    own = learner.state_dict()
    matched = [n for n in own if n in saved and saved[n].shape == own[n].shape]
    if len(matched) != len(own) or len(saved) != len(own):
        odd = sorted((own.keys() ^ saved.keys()) | (own.keys() - set(matched)))
        raise CheckpointError(
            f"{len(matched)} of {len(own)} tensors match the checkpoint's {len(saved)}; "
            f"differing: {', '.join(odd[:5])}"
        )
    learner.load_state_dict(saved)


def load_optimiser(optimiser: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put saved optimiser state in its place."""
    for group in optimiser.param_groups:
        for name, parameter in zip(group["names"], group["params"], strict=True):
            prefix = f"optimiser/{name}/"
            state = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
            if state:
                # AdamW counts its steps on the CPU; moments lie where the parameter does.
                optimiser.state[parameter] = {
                    key: t
                    if t.ndim == 0
                    else t.to(parameter.device).contiguous(memory_format=_format(parameter))
                    for key, t in state.items()
                }


def _format(parameter: Tensor) -> torch.memory_format:
    channels_last = parameter.ndim == 4 and not parameter.is_contiguous()
    return torch.channels_last if channels_last else torch.contiguous_format


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
