"""Pretraining of a recipe into a run directory, from its data to its last checkpoint."""

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pellucid import distributed
from pellucid.build import build_learner, build_optimiser, build_views, source_settings
from pellucid.data.image_set import ImageSet, open_images
from pellucid.data.source import fingerprint
from pellucid.locks import exclusively
from pellucid.recipe import Recipe
from pellucid.run import ENVIRONMENT, Run, RunError, claim, start_run
from pellucid.text import read_json
from pellucid.train.device import hardware, join_processes, pick_device, resolve_precision
from pellucid.train.loop import train
from pellucid.train.skipped import SKIPPED, list_skipped
from pellucid.train.whole import write_text

Say = Callable[[str], None]


def pretrain(
    recipe: Recipe,
    folder: Path,
    *,
    device: str = "auto",
    download: bool = False,
    strict: bool = False,
    say: Say = print,
) -> Run:
    """Train a recipe in a run directory, or go on where an earlier start of it was cut off.

    Args:
        recipe: what to train, on what.
        folder: the run directory; made if it is not there.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        download: a known set may be fetched by torchvision.
        strict: refuse at the first file that would otherwise be skipped.
        say: takes a line for the user.

    Raises:
        RecipeError, RunError, BusyError, DataError, TrainingError, CheckpointError: each names
            what is wrong.
        InterruptedTrainingError: SIGTERM or Ctrl-C came; the state was saved.
    """
    where = pick_device(device)
    join_processes(where)
    if distributed.rank() > 0:
        say = _silent
    recipe = claim(folder, recipe)
    precision = resolve_precision(recipe.train.precision, where)
    recipe = with_plan(recipe, precision=precision)
    learner = build_learner(recipe)
    build_optimiser(recipe, learner)  # what cannot be is refused before data are read
    images = open_images(
        split="train",
        limit=recipe.data.limit,
        strict=strict,
        download=download,
        **source_settings(recipe),
    )
    batch = fitting_batch(images, recipe, strict, say)
    with contextlib.ExitStack() as held:
        if distributed.rank() == 0:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(exclusively(folder, "pretrain"))
            start_run(folder, recipe)
        run = Run(folder, recipe)
        recipe = with_plan(recipe, batch=batch)
        learner = learner.to(where).to(memory_format=torch.channels_last)
        optimiser = build_optimiser(recipe, learner)
        if distributed.rank() == 0:
            _describe(run, images, hardware(where), say)
            for remark in learner.framework.remarks(len(images)):
                say(f"warning: {remark}")
        began = time.perf_counter()
        views = build_views(recipe)
        with distributed.together():
            train(learner, images, views, optimiser, recipe.weights, recipe.train, folder, say)
    say(
        f"trained in {time.perf_counter() - began:,.0f} s; "
        f"evaluate with: pellucid evaluate {folder}"
    )
    return run


def _silent(_: str) -> None:
    """What the other processes say: nothing."""


def with_plan(recipe: Recipe, **changes: object) -> Recipe:
    """The recipe with other numbers of the training loop."""
    return dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, **changes))  # type: ignore[arg-type]


def fitting_batch(images: ImageSet, recipe: Recipe, strict: bool, say: Say) -> int:
    """The recipe's batch, or the largest that a smaller set fills.

    Raises:
        RunError: the set is smaller than the batch and `strict`, or has too few images to contrast.
    """
    unit = recipe.train.accumulate * distributed.world_size()
    if recipe.train.batch % unit or recipe.train.batch < 2 * unit:  # no contrast has one image
        raise RunError(
            f"train.batch={recipe.train.batch} cannot be shared by {distributed.world_size()} "
            f"processes x {recipe.train.accumulate} micro-steps of at least 2 images; "
            f"take a multiple of {unit}, at least {2 * unit}"
        )
    if len(images) >= recipe.train.batch:
        return recipe.train.batch
    batch = len(images) // unit * unit
    if batch < 2 * unit:
        raise RunError(
            f"{recipe.data.source} has {len(images)} training images, fewer than train.batch="
            f"{recipe.train.batch}, and {2 * unit} are the fewest for {distributed.world_size()} "
            f"processes x train.accumulate={recipe.train.accumulate}: lower those, or add images"
        )
    if strict:
        raise RunError(
            f"{recipe.data.source} has {len(images)} training images, fewer than "
            f"train.batch={recipe.train.batch}; set train.batch to at most {batch}"
        )
    say(f"only {len(images)} training images: train.batch {recipe.train.batch} becomes {batch}")
    return batch


def _describe(run: Run, images: ImageSet, machine: dict[str, str | int], say: Say) -> None:
    height, width = images.image_size
    say(
        f"{run.recipe.method} on {run.recipe.data.source}: {len(images):,} images of "
        f"{height}x{width}, {run.recipe.encoder.name}, {run.recipe.train.precision} on "
        f"{machine['device']}, into {run.folder}"
    )
    for note in images.notes:
        say(f"data: {note}")
    if images.skipped:
        say(f"data: {len(images.skipped)} unreadable images skipped; see {run.folder / SKIPPED}")
        list_skipped(run.folder, images.skipped)
    names = fingerprint(images.names)
    before = _noted_before(run.folder / ENVIRONMENT)
    if before and before.get("names") != names:
        say(
            f"warning: the images have changed since this run began ({before.get('images')} then, "
            f"{len(images)} now): it goes on with those that are there, and will not equal an "
            "undisturbed run"
        )
    facts = {
        "images": len(images),
        "names": names,
        "notes": images.notes,
        "skipped": len(images.skipped),
    }
    text = json.dumps({**machine, "data": facts}, indent=1)
    write_text(run.folder / ENVIRONMENT, text)


def _noted_before(path: Path) -> dict[str, Any]:
    """What an earlier start noted of its images; nothing if there was none."""
    try:
        tree = read_json(path)
    except (OSError, ValueError):
        return {}
    before = tree.get("data") if isinstance(tree, dict) else None
    return before if isinstance(before, dict) else {}
