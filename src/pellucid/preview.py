"""What a recipe would do, before it is paid for: its views, its size, its time."""

import time
from collections.abc import Callable
from pathlib import Path

import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from pellucid.build import build_learner, build_optimiser, build_views, source_settings
from pellucid.data.image_set import open_images
from pellucid.evaluate.cost import branch_cost
from pellucid.learner import weigh
from pellucid.pretraining import fitting_batch, with_plan
from pellucid.recipe import Recipe
from pellucid.train.device import autocast, hardware, pick_device, resolve_precision
from pellucid.train.loop import layout

SHOWN = 16
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
    build_learner(recipe)
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
    learner = build_learner(recipe).to(where).to(memory_format=torch.channels_last)
    optimiser, views, plan = build_optimiser(recipe, learner), build_views(recipe), recipe.train
    pixels = next(iter(images.batches([torch.arange(plan.batch)]))).to(where)
    rows = slice(0, plan.batch // plan.accumulate)

    query, key = views(pixels[rows], 0, rows)
    _sheet(out, pixels, query, key, recipe)
    cost = branch_cost(learner.framework.online, recipe.views.size)
    seconds = []
    for step in range(1 + TIMED):
        began = time.perf_counter()
        for micro in range(plan.accumulate):
            rows = slice(micro * len(query), (micro + 1) * len(query))
            query, key = views(pixels[rows], step, rows)
            with autocast(where, precision):
                loss = weigh(learner(layout(query), layout(key)).terms, recipe.weights)
                torch.autograd.backward(loss / plan.accumulate)
        optimiser.step()
        optimiser.zero_grad()
        loss.item()  # waits for the device
        seconds.append(time.perf_counter() - began)
    each = sorted(seconds[1:])[TIMED // 2]
    steps = plan.epochs * (len(images) // plan.batch)

    table = Table(title=f"{recipe.method} on {recipe.data.source}")
    for column in ("part", "parameters", "FLOPs an image"):
        table.add_column(column, justify="left" if column == "part" else "right")
    for part in ("encoder", "projector", "head"):
        parameters, flops = cost["parameters"][part], cost["flops"][part]
        table.add_row(part, f"{parameters:,}", f"{flops:,}")
    Console().print(table)
    machine = hardware(where)
    say(f"{steps:,} steps of {plan.batch} images, {precision} on {machine['device']}")
    say(f"{each:.3f} s a step, {plan.batch / each:,.0f} images/s")
    say(f"about {each * steps / 60:,.1f} minutes in all; views written to {out}")


def _sheet(
    out: Path, pixels: torch.Tensor, query: torch.Tensor, key: torch.Tensor, recipe: Recipe
) -> None:
    mean = torch.tensor(recipe.data.mean)[:, None, None]
    std = torch.tensor(recipe.data.std)[:, None, None]
    rows = {
        "image": pixels[:SHOWN].cpu().float() / 255,
        "query": query[:SHOWN].cpu() * std + mean,
        "key": key[:SHOWN].cpu() * std + mean,
    }
    count = len(rows["image"])
    figure = Figure(figsize=(count * 0.9, 3.2), layout="constrained")
    grid = figure.subplots(len(rows), count, squeeze=False)
    for axes, (name, shown) in zip(grid, rows.items(), strict=True):
        axes[0].set_ylabel(name)
        for ax, image in zip(axes, shown, strict=False):
            ax.imshow(image.clamp(0, 1).permute(1, 2, 0).numpy(), interpolation="nearest")
            ax.set_xticks([])
            ax.set_yticks([])
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.writing")
    figure.savefig(temporary, format="png", dpi=100)
    temporary.replace(out)
