"""Gradient conflict of a run: do images pull a dimension in one direction, and what pulls?"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors.torch import save_file
from torch import Tensor

from pellucid.branch import Branch
from pellucid.build import build_views
from pellucid.data.image_set import ImageSet
from pellucid.metrics import Conflict, nt_xent_forces
from pellucid.metrics import gradient_conflict as statistics
from pellucid.randomness import seeded
from pellucid.run import FEATURES, Run
from pellucid.train.batches import MicroBatch
from pellucid.train.whole import whole_file

CONFLICT = "conflict.safetensors"

Json = dict[str, Any]
Forces = dict[str, Float[Tensor, "rows k"]]


def gradient_conflict(
    run: Run,
    branch: Branch,
    images: ImageSet,
    *,
    batches: int = 8,
    device: torch.device | None = None,
) -> Json:
    """Statistics of the gradient dL/dz_k of NT-Xent on training views, per dimension.

    The branch is in eval mode and nothing learns: two views of each image, drawn as in training
    and without a query transform, and NT-Xent at the framework's temperature on their z, whatever
    the framework trains with. Each batch has the run's batch size, or all images if these are
    fewer; its images are drawn from the evaluation seed. The gradient is that of the loss times
    the number of rows, so that it does not depend on the batch size by scale. Rows that are zero
    (every gate closed) have no direction and no meaningful gradient: they stay in the loss, and
    out of the statistics.

    Keys of the summary:
        temperature, batches, batch: what was measured; `batch` in images.
        rows, rows_without_direction: views in the statistics, and left out of them.
        dimensions: how many have a gradient at all; all quartiles are over these.
        gradient, attraction, repulsion: the whole and its two parts, each with `mean` (over rows),
            `variance` and `ratio` (|mean| / standard deviation; low means conflict), each of these
            three with `lower_quartile`, `median` and `upper_quartile` over dimensions.
        reason: None, or why the others are missing.

    Writes `features/conflict.safetensors` with `PART.mean`, `PART.variance` and `PART.ratio` [K],
    fp64, for the three parts.

    Args:
        run: whose views, batch size and temperature are used.
        branch: of the run, trained or not; put in eval mode and on the device.
        images: the training images.
        batches: how many to measure; fewer when there are not so many images.
        device: where to compute; the CPU if None.

    Source: BayesNCL (arXiv 2605.28441), conflicting gradients of shared dimensions.
    """
    temperature = run.recipe.framework.settings.get("temperature")
    if temperature is None:
        return {"reason": f"the framework {run.recipe.framework.name} has no temperature"}
    batch = min(run.recipe.train.batch, len(images))
    order = torch.randperm(
        len(images), generator=seeded(run.recipe.evaluation.seed, "gradient conflict")
    )
    chosen = (
        list(torch.split(order, batch))[: min(batches, len(images) // batch)] if batch > 1 else []
    )
    if not chosen:
        return {"reason": f"a contrast needs two training images, there are {len(images)}"}
    measured, left_out = _measure(run, branch, images, chosen, temperature, device)
    if len(measured["gradient"]) < 2:
        return {"reason": "the representation is zero on all images but one or none"}
    parts = {name: statistics([rows]) for name, rows in measured.items()}
    _write(run, parts)
    alive = parts["gradient"].variance > 0
    return {
        "reason": None,
        "temperature": temperature,
        "batches": len(chosen),
        "batch": batch,
        "rows": parts["gradient"].images,
        "rows_without_direction": left_out,
        "dimensions": int(alive.sum()),
        **{name: _summary(part, alive) for name, part in parts.items()},
    }


def _measure(
    run: Run,
    branch: Branch,
    images: ImageSet,
    chosen: Sequence[Int[Tensor, " b"]],
    temperature: float,
    device: torch.device | None,
) -> tuple[Forces, int]:
    """Gradients of all rows that have a direction, by part, and how many have none."""
    found: dict[str, list[Tensor]] = {"gradient": [], "attraction": [], "repulsion": []}
    left_out = 0
    for z_a, z_b in _representations(run, branch, images, chosen, device or torch.device("cpu")):
        forces = nt_xent_forces(z_a, z_b, temperature)
        directed = torch.cat([z_a, z_b]).abs().amax(dim=1) > 0
        left_out += int((~directed).sum())
        whole = forces.attraction + forces.repulsion
        for name, rows in zip(found, (whole, forces.attraction, forces.repulsion), strict=True):
            found[name].append(rows[directed].cpu() * len(rows))
    return {name: torch.cat(rows) for name, rows in found.items()}, left_out


@torch.no_grad()
def _representations(
    run: Run,
    branch: Branch,
    images: ImageSet,
    chosen: Sequence[Int[Tensor, " b"]],
    device: torch.device,
) -> Iterator[tuple[Float[Tensor, "b k"], Float[Tensor, "b k"]]]:
    views = build_views(run.recipe)
    branch = branch.to(device).eval()
    order = [MicroBatch(some, step, slice(0, len(some))) for step, some in enumerate(chosen)]
    for (_, step, rows), pixels in zip(order, views.read(images, order), strict=True):
        query, key = views(pixels.to(device), step, rows)
        yield branch(query).z.float(), branch(key).z.float()


def _write(run: Run, parts: dict[str, Conflict]) -> None:
    folder = run.folder / FEATURES
    folder.mkdir(exist_ok=True)
    arrays = {
        f"{name}.{field}": getattr(part, field).contiguous()
        for name, part in parts.items()
        for field in ("mean", "variance", "ratio")
    }
    with whole_file(folder / CONFLICT) as temporary:
        save_file(arrays, temporary)


def _summary(part: Conflict, alive: Tensor) -> Json:
    return {
        field: _quartiles(getattr(part, field)[alive]) for field in ("mean", "variance", "ratio")
    }


def _quartiles(values: Float[Tensor, " k"]) -> Json:
    values = values[values.isfinite()]
    names = ("lower_quartile", "median", "upper_quartile")
    if not len(values):
        return dict.fromkeys(names)
    quantiles = values.quantile(values.new_tensor([0.25, 0.5, 0.75])).tolist()
    return dict(zip(names, quantiles, strict=True))
