"""One process at a time: locks of the file system, which end with the process that holds them."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout
from rich.console import Console


class BusyError(RuntimeError):
    """Another process is at work on the same directory."""


@contextlib.contextmanager
def exclusively(folder: Path, work: str) -> Iterator[None]:
    """Hold a directory for one kind of work, such as "pretrain"; other kinds may go on beside it.

    The system gives the lock back when a process ends, however it ends, so that a killed run is
    never in its own way. On a file system without locks nothing is held.

    Raises:
        BusyError: another process, on any machine that shares the disk, holds it.
    """
    lock = FileLock(folder / f".{work}.lock")
    try:
        _take(lock, 0)
    except Timeout:
        raise BusyError(
            f"another process runs `pellucid {work}` on {folder}: let it finish, or stop it first"
        ) from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def in_turn(path: Path, what: str) -> Iterator[None]:
    """Hold a lock for work that another process may be doing already; then wait for it, aloud."""
    lock = FileLock(path)
    try:
        _take(lock, 0)
    except Timeout:
        Console(stderr=True).print(f"another process {what}: waiting for it", markup=False)
        _take(lock, -1)
    try:
        yield
    finally:
        lock.release()


def _take(lock: FileLock, seconds: int) -> None:
    # Some clusters mount their disks without locks, and a run must be possible there.
    with contextlib.suppress(NotImplementedError):
        lock.acquire(timeout=seconds)
