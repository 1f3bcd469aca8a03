"""Processes that share a batch: rank, world size, and a gather that gradients pass through."""

import contextlib
import signal
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

_GLOO = "/gloo/"
"""What the messages of errors of gloo hold: the path of its source."""


def world_size() -> int:
    """The number of processes; 1 outside a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """This process' number; 0 outside a process group."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


class _Gather(torch.autograd.Function):
    """All ranks' rows, in rank order.

    Backward sums over ranks what each rank's loss says about these rows: with a loss that every
    rank computes in full, and parameter gradients averaged over ranks as
    DistributedDataParallel does, every gradient is that of one process with the whole batch.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        ctx.count = len(rows)
        parts = [torch.empty_like(rows) for _ in range(world_size())]
        dist.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient[rank() * ctx.count : (rank() + 1) * ctx.count]


def gather(rows: Tensor) -> Tensor:
    """Rows [b, ...] of every rank as [world * b, ...], with gradients; itself on one process."""
    return _Gather.apply(rows) if world_size() > 1 else rows


def largest(*numbers: int) -> tuple[int, ...]:
    """The largest of all processes' numbers, one by one; on the CPU, so it waits for no GPU."""
    if world_size() == 1:
        return numbers
    shared = torch.tensor(numbers)
    dist.all_reduce(shared, dist.ReduceOp.MAX)
    return tuple(shared.tolist())


def collect(items: list[Any]) -> list[Any]:
    """All processes' items, in the order of ranks, on every process."""
    if world_size() == 1:
        return items
    parts: list[Any] = [None] * world_size()
    dist.all_gather_object(parts, items)
    return [item for part in parts for item in part]


def gather_first(item: Any) -> list[Any]:
    """Every process' item, in the order of ranks, on the first process; nothing on the others."""
    if world_size() == 1:
        return [item]
    items: list[Any] | None = [None] * world_size() if rank() == 0 else None
    dist.gather_object(item, items)
    return items or []


def wait() -> None:
    """Until all processes are here."""
    if world_size() > 1:
        dist.barrier()


class LostProcessError(RuntimeError):
    """Another process has ended, and this one cannot go on without it."""


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Work that no process can finish alone.

    Raises:
        LostProcessError: another process has ended.
    """
    try:
        yield
    except RuntimeError as error:
        # Gloo's errors have no type of their own.
        if world_size() == 1 or not (
            isinstance(error, dist.DistBackendError) or _GLOO in str(error)
        ):
            raise
        # torchrun now ends this process too, and names the first that ended as the cause. The wait
        # lets that be the other one; the signal must not keep this one from saying what happened.
        with contextlib.suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1)
        raise LostProcessError(
            "another process ended, and this one with it; its own error says why. What was saved "
            "is whole: the same command goes on from there, on one process or several"
        ) from error
