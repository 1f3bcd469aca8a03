"""Numbers that went wrong: found by their step, and kept for whoever looks for the cause."""

import contextlib
import copy
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from pellucid import distributed
from pellucid.data.image_set import ImageSet
from pellucid.data.source import some
from pellucid.learner import Learner
from pellucid.text import one_line, valid
from pellucid.train.batches import TwoViews, epoch_batches, epoch_order
from pellucid.train.checkpoint import CheckpointError, write_folder
from pellucid.train.plan import Plan
from pellucid.types import Terms

FAILURE = "failure"
"""The folder of a run that keeps what is known of a step whose numbers went wrong."""

GRADIENT = "gradient of "


class NotFiniteError(RuntimeError):
    """A value of a step is not finite."""

    def __init__(self, step: int, values: Mapping[str, float]) -> None:
        super().__init__(step, values)
        self.step = step
        self.values = values
        """All values of the step, by name."""


class TrainingError(RuntimeError):
    """Training cannot go on; the message says at which step and what is wrong."""


def gradient_norms(optimiser: Optimizer) -> Terms:
    """The Euclidean norm of the gradient of each parameter group, by the group's title."""
    norms = {}
    for group in optimiser.param_groups:
        gradients = [p.grad for p in group["params"] if p.grad is not None]
        if gradients:
            norms[GRADIENT + group["title"]] = get_total_norm(gradients)
    return norms


def check_weights(learner: Learner, step: int) -> None:
    """Refuse weights that a step has ruined though its loss and gradient were finite.

    Raises:
        NotFiniteError: naming the first such weight.
    """
    for name, parameter in learner.named_parameters():
        if not _is_finite(parameter):
            raise NotFiniteError(step, {f"{name} after it": math.nan})


@contextlib.contextmanager
def failures_kept(
    run: Path, learner: Learner, images: ImageSet, views: TwoViews, plan: Plan
) -> Iterator[None]:
    """Training, whose numbers may go wrong; then what is known of it is kept and told.

    Raises:
        TrainingError: they did.
    """
    try:
        yield
    except NotFiniteError as found:
        steps = plan.epochs * (len(images) // plan.batch)
        listed = ", ".join(f"{name}={value:.6g}" for name, value in found.values.items())
        kept = _keep(found, run, learner, images, views, plan)
        distributed.wait()  # the others' ending must not end the one that writes
        raise TrainingError(
            f"a value is not finite at step {found.step} of {steps}: {listed}.{kept} "
            "No checkpoint holds it. In a new run, lower the learning rate, raise the "
            "temperature, or set train.precision=fp32"
        ) from None


def _keep(
    found: NotFiniteError,
    run: Path,
    learner: Learner,
    images: ImageSet,
    views: TwoViews,
    plan: Plan,
) -> str:
    """Keep what is known of the step in `RUN/failure`; what to tell of its images and of that.

    `state.json` there holds the step, its values, the parameters whose gradient is not finite,
    all image names of the step, and those whose features are not finite in eval mode, where no
    image can spoil another's. `tensors.safetensors` holds the views of this process' images, all
    weights and all gradients. On the CPU, where every step is checked before it is taken, weights
    and gradients are those of the step; on a GPU they are of the end of the log's window.
    """
    steps_each = len(images) // plan.batch
    epoch, within = divmod(found.step, steps_each)
    order = epoch_order(len(images), plan.seed, epoch)[within * plan.batch :][: plan.batch]
    names = [one_line(valid(images.names[i])) for i in order.tolist()]
    gradients = {n: p.grad for n, p in learner.named_parameters() if p.grad is not None}
    ruined = [name for name, gradient in gradients.items() if not _is_finite(gradient)]
    told = f" Images of the step: {some(names)}."
    if ruined:
        told = f" No finite gradient have {some(ruined)}.{told}"
    if distributed.rank() > 0:
        return told
    own = epoch_batches(
        len(images), plan.batch, plan.accumulate, plan.seed, epoch, skip_steps=within
    )[: plan.accumulate]
    tensors: dict[str, Tensor] = {}
    spoilt: list[str] = []
    device = next(learner.parameters()).device
    alone = _each_for_itself(learner.framework.online.encoder)
    read = views.read(images, own)
    for micro, ((indices, step, rows), pixels) in enumerate(zip(own, read, strict=True)):
        pair = views(pixels.to(device), step, rows)
        for side, view in zip(("query", "key"), pair, strict=True):
            tensors[f"views/{micro}/{side}"] = view
            spoilt += [one_line(valid(images.names[i])) for i in _spoilt(alone, view, indices)]
    tensors |= {f"learner/{name}": tensor for name, tensor in learner.state_dict().items()}
    tensors |= {f"gradient/{name}": gradient for name, gradient in gradients.items()}
    facts = {
        "step": found.step,
        "values": {name: repr(value) for name, value in found.values.items()},  # JSON has no NaN
        "gradients_not_finite": ruined,
        "images": names,
        "images_not_finite": sorted(set(spoilt)),
    }
    try:
        write_folder(run / FAILURE, tensors, facts)
    except CheckpointError as error:  # the disk may be what is wrong
        return f"{told} What is known of the step could not be kept: {error}."
    return f"{told} They, their views, weights and gradients are kept in {run / FAILURE}."


@torch.no_grad()
def _spoilt(encoder: nn.Module, view: Tensor, indices: Tensor) -> list[int]:
    """The images of a view whose features are not finite by themselves."""
    return indices[~encoder(view).isfinite().all(dim=1).cpu()].tolist()


def _each_for_itself(encoder: nn.Module) -> nn.Module:
    """A copy in eval mode, whose batch norm forgets what a spoilt batch has left in it."""
    alone = copy.deepcopy(encoder).eval()
    for module in alone.modules():
        if isinstance(module, _BatchNorm) and not all(map(_is_finite, module.buffers())):
            module.reset_running_stats()
    return alone


def _is_finite(tensor: Tensor) -> bool:
    return bool(tensor.isfinite().all())
