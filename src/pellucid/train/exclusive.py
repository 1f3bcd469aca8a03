"""One process at a time on a directory."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout


class BusyError(RuntimeError):
    """Another process is at work on the same directory."""


@contextlib.contextmanager
def exclusively(folder: Path, work: str) -> Iterator[None]:
    """Hold a directory for one kind of work, such as "pretrain"; other kinds may go on beside it.

    The system gives the lock back when a process ends, however it ends, so that a killed run is
    never in its own way.

    Raises:
        BusyError: another process, on any machine that shares the disk, holds it.
    """
    lock = FileLock(folder / f".{work}.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise BusyError(
            f"another process runs `pellucid {work}` on {folder}: let it finish, or stop it first"
        ) from None
    try:
        yield
    finally:
        lock.release()
