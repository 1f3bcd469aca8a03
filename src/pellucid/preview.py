"""What a recipe would do, before it is paid for: its views, its size, its time."""

import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pellucid.build import build_learner, build_optimiser, build_views, source_settings
from pellucid.data.image_set import open_images
from pellucid.evaluate.cost import branch_cost, parameters
from pellucid.evaluate.query_view import drift
from pellucid.evaluate.sheet import SHOWN, display, write_sheet, write_transform_sheet
from pellucid.learner import weigh
from pellucid.pretraining import fitting_batch, with_plan
from pellucid.recipe import Recipe
from pellucid.text import one_line
from pellucid.train.batches import MicroBatch
from pellucid.train.device import autocast, hardware, pick_device, resolve_precision
from pellucid.train.loop import layout

TIMED = 3


def preview(
    recipe: Recipe,
    out: Path,
    *,
    device: str = "auto",
    download: bool = False,
    strict: bool = False,
    say: Callable[[str], None] = print,
) -> None:
    """Write a sheet of 16 images with both views, and print parameters, FLOPs and time.

    The time to the end is measured on a few real steps of the full batch, whose changes are
    thrown away.

    Args:
        recipe: to preview.
        out: the PNG to write.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        download: a known set may be fetched by torchvision.
        strict: refuse at the first file that would otherwise be skipped.
        say: takes a line for the user.
    """
    where = pick_device(device)
    precision = resolve_precision(recipe.train.precision, where)
    learner = build_learner(recipe)  # what cannot be is refused before data are read
    images = open_images(
        split="train",
        limit=recipe.data.limit,
        download=download,
        strict=strict,
        **source_settings(recipe),
    )
    for note in images.notes:
        say(f"data: {note}")
    recipe = with_plan(recipe, batch=fitting_batch(images, recipe, strict, say))
    learner = learner.to(where).to(memory_format=torch.channels_last)
    optimiser, views, plan = build_optimiser(recipe, learner), build_views(recipe), recipe.train
    share = plan.batch // plan.accumulate
    shares = [slice(first, first + share) for first in range(0, plan.batch, share)]
    order = [MicroBatch(torch.arange(plan.batch)[rows], 0, rows) for rows in shares]
    read = [pixels.to(where) for pixels in views.read(images, order)]
    stored = next(images.batches([torch.arange(min(SHOWN, plan.batch))]))

    query, key = views(read[0], 0, shares[0])
    mean, std = recipe.data.mean, recipe.data.std
    shown = {"query": display(query, mean, std), "key": display(key, mean, std)}
    write_sheet(out, {"image": stored.float() / 255, **shown})
    few = query[:SHOWN]
    with torch.no_grad():
        changed = learner.query_transform(few)[0]
    if changed is not few:
        beside = out.with_name(f"{out.stem}-transform.png")
        write_transform_sheet(beside, few, changed, mean, std)
        branch = learner.framework.online  # in training mode, as its batch norms have seen nothing
        with torch.no_grad():
            sides = [branch(layout(x)).z for x in (learner.query_transform(query)[0], query)]
        kept = drift(sides[0], sides[1], None)["same_image"]
        say(
            f"the query transform, untrained, on 16 query views: {beside}; {kept:.0%} of "
            f"{len(query)} views are nearest to their own image, untransformed"
        )
    cost = branch_cost(learner.framework.online, recipe.views.size)
    seconds = []
    for step in range(1 + TIMED):
        began = time.perf_counter()
        for rows, pixels in zip(shares, read, strict=True):
            query, key = views(pixels, step, rows)
            with autocast(where, precision):
                loss = weigh(learner(layout(query), layout(key)).terms, recipe.weights)
                torch.autograd.backward(loss / plan.accumulate)
        optimiser.step()
        optimiser.zero_grad()
        loss.item()  # waits for the device
        seconds.append(time.perf_counter() - began)
    each = sorted(seconds[1:])[TIMED // 2]
    steps = plan.epochs * (len(images) // plan.batch)

    title = one_line(f"{recipe.method} on {recipe.data.source}")
    table = Table(title=Text(title, style="table.title"))
    for column in ("part", "parameters", "FLOPs an image"):
        table.add_column(column, justify="left" if column == "part" else "right")
    for part in ("encoder", "projector", "head"):
        table.add_row(part, f"{cost['parameters'][part]:,}", f"{cost['flops'][part]:,}")
    if changes := parameters(learner.query_transform):
        table.add_row("query transform", f"{changes:,}", "")
    Console().print(table)
    machine = hardware(where)
    say(f"{steps:,} steps of {plan.batch} images, {precision} on {machine['device']}")
    say(f"{each:.3f} s a step, {plan.batch / each:,.0f} images/s")
    say(f"about {each * steps / 60:,.1f} minutes in all; views written to {out}")
