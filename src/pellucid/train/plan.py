"""The numbers of the training loop."""

from dataclasses import dataclass
from typing import Literal

Precision = Literal["auto", "fp32", "bf16"]


@dataclass(frozen=True)
class Plan:
    """How long, in what batches, and how often a trace is left."""

    seed: int = 0
    epochs: int = 200
    batch: int = 256  # images of an optimiser step, over all micro-steps and ranks
    accumulate: int = 1  # micro-steps of an optimiser step
    warmup_epochs: float = 10.0
    precision: Precision = "auto"  # bf16 where the hardware has it
    log_every: int = 20  # steps
    measure_every: int = 5  # lines of the log between measurements of entropies; 0 for none
    checkpoint_minutes: float = 10.0  # one is also written after every epoch

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be, by name."""
        for name in ("epochs", "accumulate", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.measure_every < 0:
            raise ValueError(f"measure_every must be at least 0, got {self.measure_every}")
        if self.batch < 2:
            raise ValueError(f"batch must be at least 2 (a contrast needs two), got {self.batch}")
        if self.batch % self.accumulate:
            raise ValueError(f"accumulate={self.accumulate} does not divide batch={self.batch}")
        if self.batch < 2 * self.accumulate:
            raise ValueError(
                f"accumulate={self.accumulate} leaves one image of batch={self.batch} a "
                "micro-step, and a contrast needs two"
            )
        if self.checkpoint_minutes < 0:
            raise ValueError(
                f"checkpoint_minutes must be at least 0, got {self.checkpoint_minutes}"
            )
        if not 0 <= self.warmup_epochs <= self.epochs:
            raise ValueError(
                f"warmup_epochs must lie between 0 and epochs={self.epochs}, "
                f"got {self.warmup_epochs}"
            )
