"""Being asked to stop: heard at any moment, obeyed between two steps."""

import signal
import time
from types import FrameType, TracebackType

IMPATIENT = 1.0
"""Seconds after which a second Ctrl-C is meant as one. torchrun passes signals on within less."""


class InterruptedTrainingError(RuntimeError):
    """Training was asked to stop, and has saved what it had."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_status = 128 + number
        """As shells report a process that a signal ended."""


class Stop:
    """Takes SIGTERM, which clusters send before they kill, and Ctrl-C, while it is entered."""

    def __init__(self) -> None:
        self.heard = 0
        """The number of the signal that came; 0 for none."""
        self._at = 0.0
        self._before: dict[int, object] = {}

    def __enter__(self) -> "Stop":
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._hear)
        except ValueError:  # not the main thread, as in some notebooks: no handler can be set
            pass
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # it is what signal gave

    def _hear(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGINT and self.heard and time.monotonic() - self._at > IMPATIENT:
            raise KeyboardInterrupt  # asked again: at once
        if not self.heard:
            self.heard, self._at = number, time.monotonic()
