"""The training loop."""

import contextlib
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from pellucid import distributed
from pellucid.data.image_set import ImageSet
from pellucid.learner import Learner, weigh
from pellucid.nets.batch_norm import recalibrate_batch_norm
from pellucid.randomness import seed_noise, seeded
from pellucid.train import checkpoint
from pellucid.train.batches import TwoViews, epoch_batches, own_rows
from pellucid.train.device import autocast
from pellucid.train.log import Log, TrainingError
from pellucid.train.observe import observe, observe_entropy
from pellucid.train.optimisers import set_rates
from pellucid.train.plan import Plan
from pellucid.train.schedules import warmup_cosine
from pellucid.types import Step, Terms

CALIBRATION = 2048
"""Training images behind final batch-norm statistics, at most; the untrained branch has as many."""


class InterruptedTrainingError(RuntimeError):
    """Training was asked to stop, and has saved what it had."""


def train(
    learner: Learner,
    images: ImageSet,
    views: TwoViews,
    optimiser: Optimizer,
    weights: Mapping[str, float],
    plan: Plan,
    run: Path,
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

    Raises:
        TrainingError: a loss or a weight is not finite.
        InterruptedTrainingError: SIGTERM or Ctrl-C came; the state was saved.
    """
    device = next(learner.parameters()).device
    steps_each = len(images) // plan.batch
    steps, warmup = plan.epochs * steps_each, round(plan.warmup_epochs * steps_each)
    saved = checkpoint.newest(run)
    start = 0
    if saved:
        start, tensors = saved
        checkpoint.load_learner(learner, tensors)
        checkpoint.load_optimiser(optimiser, tensors)
    model = _wrap(learner)
    learner.train()
    main = distributed.rank() == 0
    with (
        Log(run, plan.log_every, start, steps, plan.batch, main, settled=2 * warmup) as log,
        _stop_signal() as stop,
    ):
        if saved:
            log.restore(tensors)
        saved_at = time.monotonic()
        for epoch in range(start // steps_each, plan.epochs):
            first = max(start, epoch * steps_each)
            skip = first - epoch * steps_each
            order = epoch_batches(
                len(images), plan.batch, plan.accumulate, plan.seed, epoch, skip_steps=skip
            )
            batches = images.batches(order)
            for step in range(first, (epoch + 1) * steps_each):
                set_rates(optimiser, warmup_cosine(step, steps, warmup))
                micro_steps: list[Step] = []
                losses: list[torch.Tensor] = []
                for micro in range(plan.accumulate):
                    pixels = next(batches).to(device, non_blocking=True)
                    rows = own_rows(plan.batch, plan.accumulate, micro)
                    query, key = views(pixels, step, rows)
                    seed_noise(plan.seed, step, micro)
                    last = micro + 1 == plan.accumulate
                    with _sync(model, last), autocast(device, plan.precision):
                        out: Step = model(layout(query), layout(key))
                        loss = weigh(out.terms, weights)
                        torch.autograd.backward(loss / plan.accumulate)
                    micro_steps.append(out)
                    losses.append(loss.detach())
                extra: Terms = {}
                if log.due(step):  # before the step, whose queue the loss has seen
                    extra = observe(out.query) | learner.framework.observe(out)
                if log.due(step, plan.measure_every):
                    signs = seeded(plan.seed, "entropy", step)
                    extra |= observe_entropy(learner, query, out, signs)
                optimiser.step()
                optimiser.zero_grad()
                learner.after_step(micro_steps, (step + 1) / steps)

                rates = {"lr": optimiser.param_groups[0]["lr"]}
                log.add(step, _means(losses, micro_steps), extra, rates)
                late = time.monotonic() - saved_at > plan.checkpoint_minutes * 60
                ends = step + 1 == (epoch + 1) * steps_each
                if step + 1 == steps:
                    with autocast(device, plan.precision):
                        recalibrate_batch_norm(
                            learner.framework.online, plain_batches(images, views, plan, device)
                        )
                if main and (ends or late or stop):
                    log.flush()  # nothing that is not finite reaches the disk
                    _check_finite(learner, step)
                    checkpoint.save(run, step + 1, learner, optimiser, log.state())
                    saved_at = time.monotonic()
                if stop:
                    raise InterruptedTrainingError(
                        f"stopped by {stop[0]} and saved at step {step + 1} of {steps}; "
                        "the same command goes on from there"
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
        yield layout(views.plain(pixels.to(device, non_blocking=True)))


@torch.no_grad()
def _means(losses: list[torch.Tensor], steps: list[Step]) -> Terms:
    """The loss and the terms of an optimiser step: means over its micro-steps."""
    terms = [{"loss": loss, **step.terms} for loss, step in zip(losses, steps, strict=True)]
    return {name: torch.stack([t[name].float() for t in terms]).mean() for name in terms[0]}


def _check_finite(learner: Learner, step: int) -> None:
    """Refuse weights that a gradient beyond the numbers' range has ruined, whatever the loss was.

    Raises:
        TrainingError: naming the first such weight.
    """
    for name, parameter in learner.named_parameters():
        if not bool(parameter.isfinite().all()):
            raise TrainingError(
                f"{name} is not finite after step {step}, and is not saved; "
                "lower the learning rate, raise the temperature, or set train.precision=fp32"
            )


def layout(views: torch.Tensor) -> torch.Tensor:
    """Views in channels-last order, the fast one of convolutions on CPUs and tensor cores."""
    return views.contiguous(memory_format=torch.channels_last)


def _wrap(learner: Learner) -> torch.nn.Module:
    if distributed.world_size() == 1:
        return learner
    if next(learner.parameters()).is_cuda:  # gloo cannot synchronise batch norm
        convert = torch.nn.SyncBatchNorm.convert_sync_batchnorm
        learner = convert(learner)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    # The learner makes both forwards of a step inside one call, so buffers are broadcast before
    # it and never between a forward and its backward.
    return DistributedDataParallel(learner)


def _sync(model: torch.nn.Module, last: bool) -> contextlib.AbstractContextManager[None]:
    if isinstance(model, DistributedDataParallel) and not last:
        return model.no_sync()
    return contextlib.nullcontext()


@contextlib.contextmanager
def _stop_signal() -> Iterator[list[str]]:
    """A list that is filled when SIGTERM or Ctrl-C comes, so that the step can end first."""
    stop: list[str] = []

    def remember(number: int, _: FrameType | None) -> None:
        if stop:
            raise KeyboardInterrupt  # asked twice: at once
        stop.append(signal.Signals(number).name)

    try:
        before = {s: signal.signal(s, remember) for s in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:  # not the main thread, as in some notebooks: no handler can be set
        before = {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
