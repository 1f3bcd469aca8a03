"""Images through a trained branch, once each, onto disk: shard by shard, over all processes."""

import contextlib
import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from pellucid import distributed
from pellucid.branch import Branch
from pellucid.embed.extraction import write_shards
from pellucid.embed.finish import finish
from pellucid.embed.manifest import claim, write_manifest
from pellucid.embed.subject import Subject, Wanted, open_subject
from pellucid.embed.work import PARTS, Work
from pellucid.evaluate.evaluation import evaluation_precision, gate_threshold
from pellucid.evaluate.extract import BATCH
from pellucid.heads import BayesGate
from pellucid.locks import exclusively
from pellucid.representation.feature_manifest import FORMAT, STAGES, read_manifest
from pellucid.run import Run, RunError
from pellucid.train.device import join_processes, pick_device

SHARD_ROWS = 8192
"""Images of a shard: a multiple of `BATCH`, so that batches are those of one pass over all."""


def embed(
    run: Run,
    wanted: Wanted,
    folder: Path,
    *,
    files: Literal["parquet", "npy"] = "parquet",
    sparse: bool = False,
    stages: Sequence[str] | None = None,
    batch: int = BATCH,
    shard_rows: int = SHARD_ROWS,
    device: str = "auto",
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Write the features of images, or go on where an earlier call was cut off.

    The files are the same whatever the number of processes and of interruptions, on the same kind
    of device. No more than a shard is in memory. Returns what manifest.json holds.

    Args:
        run: whose newest checkpoint is used, in eval mode.
        wanted: the images.
        folder: where to write; made if it is not there. All processes must share it.
        files: parquet shards, or one npy file a stage.
        sparse: of z, only what is not zero (parquet only).
        stages: of z, h, gate and ungated, those to write, with z; by default z, h and, for a run
            with gates, gate.
        batch: images at a time; changes no number beyond rounding.
        shard_rows: images a shard.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        say: takes a line for the user.

    Raises:
        BusyError: another process writes into the folder.
        RunError: the run has no checkpoint, the folder holds something else, or what was asked
            cannot be written.
        DataError: the images cannot be read.
        ValueError: a feature is not finite, as after a diverged training.
    """
    where = pick_device(device)
    join_processes(where)
    first = distributed.rank() == 0
    if batch < 1 or shard_rows < 1:
        raise RunError(f"batch and shard_rows must be at least 1, not {batch} and {shard_rows}")
    if sparse and files == "npy":
        raise RunError("an npy file is dense: leave out --sparse, or write parquet")
    branch, step = run.trained_branch()
    written = _stages(run, branch, stages)
    subject = open_subject(run.recipe, wanted)
    settings = {
        **_identity(run, branch, step, subject),
        "precision": evaluation_precision(run.recipe, where),
        "batch": batch,
        "stages": written,
        "files": files,
        "layout": "sparse" if sparse else "dense",
        "file_names": "text" if all(map(_is_text, subject.images.names)) else "bytes",
        "shard_rows": shard_rows,
    }
    if claim(folder, settings):
        if first:
            say(f"{folder} is finished: nothing to do")
            shutil.rmtree(folder / PARTS, ignore_errors=True)
        return read_manifest(folder) or {}
    distributed.wait()  # until all have looked at the folder, before any writes to it
    work = Work(run, branch, subject, folder, settings, where, say if first else _silent)
    with contextlib.ExitStack() as held, distributed.together():
        if first:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(exclusively(folder, "embed"))
        _write(work)
    return read_manifest(folder) or {}


def _write(work: Work) -> None:
    """Write what is missing, each process its share, and then the end of it."""
    first, folder, images = distributed.rank() == 0, work.folder, work.subject.images
    if first:
        write_manifest(folder, work.settings)  # before all else, so that `claim` knows it again
        if work.settings["files"] == "npy":
            (folder / PARTS).mkdir(exist_ok=True)
    distributed.wait()
    shards = work.shards()
    missing = [number for number, (path, _) in enumerate(shards) if not work.is_there(path)]
    distributed.wait()  # until all have listed what is missing, before any writes a part of it
    work.say(
        f"{work.run.name} after step {work.settings['step']}: {len(images):,} images of "
        f"{work.subject.data} ({work.subject.split}) into {folder}"
    )
    for note in images.notes:
        work.say(f"data: {note}")
    if len(missing) < len(shards):
        work.say(f"{len(shards) - len(missing)} of {len(shards)} shards are there already")
    own = missing[distributed.rank() :: distributed.world_size()]
    write_shards(work, [shards[number] for number in own])
    distributed.wait()
    if first:
        finish(work, [path for path, _ in shards])
    distributed.wait()


def _identity(run: Run, branch: Branch, step: int, subject: Subject) -> dict[str, Any]:
    """Of what, and by what, the features are."""
    return {
        "format": FORMAT,
        "run": run.name,
        "method": run.recipe.method,
        "step": step,
        "weights": _digest(branch),
        "encoder": run.recipe.encoder.name,
        "image_size": run.recipe.views.size,
        "threshold": gate_threshold(run.recipe),
        "data": subject.data,
        "split": subject.split,
        "images": len(subject.images),
        "images_digest": subject.digest,
        "classes": subject.images.classes,
    }


def _stages(run: Run, branch: Branch, asked: Sequence[str] | None) -> tuple[str, ...]:
    """What to write, in the order of `STAGES`."""
    gated = isinstance(branch.head, BayesGate)
    if asked is None:
        return ("z", "h", "gate") if gated else ("z", "h")
    for stage in asked:
        if stage not in STAGES:
            raise RunError(f"there is no {stage!r} to write: choose of {', '.join(STAGES)}")
    if "z" not in asked:
        raise RunError("z is what the folder is read for: name it among what is written")
    if "gate" in asked and not gated:
        raise RunError(f"{run.folder} has no gates to write: its head is {run.recipe.head.name}")
    return tuple(stage for stage in STAGES if stage in asked)


def _digest(branch: nn.Module) -> str:
    """Of all parameters and buffers: two checkpoints of one step are told apart."""
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in sorted(branch.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _is_text(name: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _silent(_: str) -> None:
    """What the other processes say: nothing."""
