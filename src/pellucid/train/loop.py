"""The training loop."""

import contextlib
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from pellucid import distributed
from pellucid.data.image_set import ImageSet
from pellucid.learner import Learner, weigh
from pellucid.nets.batch_norm import recalibrate_batch_norm
from pellucid.randomness import seed_noise, seeded
from pellucid.train import checkpoint
from pellucid.train.batches import TwoViews, epoch_batches
from pellucid.train.device import autocast
from pellucid.train.finite import check_weights, failures_kept, gradient_norms
from pellucid.train.log import Log
from pellucid.train.observe import observe, observe_entropy
from pellucid.train.optimisers import set_rates
from pellucid.train.plan import Plan
from pellucid.train.schedules import warmup_cosine
from pellucid.train.skipped import list_skipped, skipped_listed
from pellucid.train.stopping import InterruptedTrainingError, Stop
from pellucid.transfer import send
from pellucid.types import Step, Terms

CALIBRATION = 2048
"""Training images behind final batch-norm statistics, at most; the untrained branch has as many."""


def train(
    learner: Learner,
    images: ImageSet,
    views: TwoViews,
    optimiser: Optimizer,
    weights: Mapping[str, float],
    plan: Plan,
    run: Path,
    say: Callable[[str], None] = print,
) -> None:
    """Train from the newest checkpoint of the run, or from the start, to the end of the plan.

    Args:
        learner: what to train, on its device.
        images: the training images.
        views: makes the two views of a batch.
        optimiser: over the learner's parameters, of `parameter_groups`.
        weights: of the learner's terms.
        plan: how long, in what batches; its precision is resolved, not `auto`.
        run: the run directory, which exists.
        say: takes a line for the user.

    Raises:
        TrainingError: a loss, a gradient or a weight is not finite.
        InterruptedTrainingError: SIGTERM or Ctrl-C came; the state was saved.
        CheckpointError: none of the checkpoints can be read, or the new one not be written.
        DataError: too many of the images that were met cannot be read.
    """
    device = next(learner.parameters()).device
    images = images.on(device)
    steps_each = len(images) // plan.batch
    steps, warmup = plan.epochs * steps_each, round(plan.warmup_epochs * steps_each)
    saved = checkpoint.newest(run, say)
    start = 0
    if saved:
        start, tensors = saved
        checkpoint.load_learner(learner, tensors)
        checkpoint.load_optimiser(optimiser, tensors)
    model = _wrap(learner)
    learner.train()
    main = distributed.rank() == 0
    with (
        skipped_listed(run, images),
        failures_kept(run, learner, images, views, plan),
        Log(run, plan.log_every, start, steps, plan.batch, main, settled=2 * warmup) as log,
        Stop() as stop,
    ):
        if saved:
            log.restore(tensors)
        saved_at = time.monotonic()
        skipped: list[tuple[str, str]] = []
        for epoch in range(start // steps_each, plan.epochs):
            first = max(start, epoch * steps_each)
            skip = first - epoch * steps_each
            order = epoch_batches(
                len(images), plan.batch, plan.accumulate, plan.seed, epoch, skip_steps=skip
            )
            batches = zip(order, views.read(images, order), strict=True)
            for step in range(first, (epoch + 1) * steps_each):
                set_rates(optimiser, warmup_cosine(step, steps, warmup))
                micro_steps: list[Step] = []
                losses: list[torch.Tensor] = []
                for micro in range(plan.accumulate):
                    own, pixels = next(batches)
                    query, key = views(send(pixels, device), step, own.rows)
                    seed_noise(plan.seed, step, micro)
                    last = micro + 1 == plan.accumulate
                    with _sync(model, last), autocast(device, plan.precision):
                        out: Step = model(layout(query), layout(key))
                        loss = weigh(out.terms, weights)
                        torch.autograd.backward(loss / plan.accumulate)
                    micro_steps.append(out)
                    losses.append(loss.detach())
                log.add(step, _means(losses, micro_steps), gradient_norms(optimiser))
                extra: Terms = {}
                if log.due(step):  # before the step, whose queue the loss has seen
                    extra = observe(out.query) | learner.framework.observe(out)
                if log.due(step, plan.measure_every):
                    signs = seeded(plan.seed, "entropy", step)
                    extra |= observe_entropy(learner, query, out, signs)
                optimiser.step()
                optimiser.zero_grad()
                learner.after_step(micro_steps, (step + 1) / steps)
                log.end_step(step, extra, {"lr": optimiser.param_groups[0]["lr"]})

                ends = step + 1 == (epoch + 1) * steps_each
                if step + 1 == steps:
                    with autocast(device, plan.precision):
                        recalibrate_batch_norm(
                            learner.framework.online, plain_batches(images, views, plan, device)
                        )
                if ends:
                    skipped = distributed.collect(images.skipped)
                due = time.monotonic() - saved_at > plan.checkpoint_minutes * 60
                # On all processes at once: else one waits for ever for the others' gradients.
                number, late = distributed.largest(stop.heard, int(due))
                if ends or late or number:
                    log.check()  # nothing that is not finite reaches the disk
                    check_weights(learner, step)
                    if main:
                        list_skipped(run, skipped)
                        log.sync()
                        checkpoint.save(run, step + 1, learner, optimiser, log.state())
                    saved_at = time.monotonic()
                if number:
                    distributed.wait()  # the others' ending must not end the one that saves
                    raise InterruptedTrainingError(
                        f"stopped by {signal.Signals(number).name} and saved at step {step + 1} "
                        f"of {steps}; the same command goes on from there",
                        number,
                    )


def plain_batches(
    images: ImageSet, views: TwoViews, plan: Plan, device: torch.device
) -> Iterator[torch.Tensor]:
    """Plain images for the final batch-norm statistics, in whole batches of the training's size.

    The online encoder has seen augmented and, with a query transform, transformed images, whose
    statistics are not those of the images that it will be used on. Every run is recalibrated, also
    one without a transform, so that runs differ in what they learnt and not in this.
    """
    batch = max(2, plan.batch // plan.accumulate)
    count = max(1, min(CALIBRATION, len(images)) // batch)
    order = torch.randperm(len(images), generator=seeded(plan.seed, "calibration"))
    for pixels in images.batches(list(torch.split(order[: count * batch], batch))):
        yield layout(views.plain(send(pixels, device)))


@torch.no_grad()
def _means(losses: list[torch.Tensor], steps: list[Step]) -> Terms:
    """The loss and the terms of an optimiser step: means over its micro-steps."""
    terms = [{"loss": loss, **step.terms} for loss, step in zip(losses, steps, strict=True)]
    return {name: torch.stack([t[name].float() for t in terms]).mean() for name in terms[0]}


def layout(views: torch.Tensor) -> torch.Tensor:
    """Views in channels-last order, the fast one of convolutions on CPUs and tensor cores."""
    return views.contiguous(memory_format=torch.channels_last)


def _wrap(learner: Learner) -> torch.nn.Module:
    if distributed.world_size() == 1:
        return learner
    if next(learner.parameters()).is_cuda:  # gloo cannot synchronise batch norm
        convert = torch.nn.SyncBatchNorm.convert_sync_batchnorm
        learner = convert(learner)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    # Kernels of one pixel have gradients of either memory format, which costs nothing noticeable.
    warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
    # The learner makes both forwards of a step inside one call, so buffers are broadcast before
    # it and never between a forward and its backward.
    return DistributedDataParallel(learner)


def _sync(model: torch.nn.Module, last: bool) -> contextlib.AbstractContextManager[None]:
    if isinstance(model, DistributedDataParallel) and not last:
        return model.no_sync()
    return contextlib.nullcontext()
