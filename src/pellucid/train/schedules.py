"""Schedules as functions of the step, so that a resumed run cannot lag behind."""

import math


def warmup_cosine(step: int, steps: int, warmup: int) -> float:
    """The share of the peak learning rate at a step.

    Linear up to 1 over `warmup` steps, (step + 1) / warmup, so that the first step already
    learns; then half a cosine, (1 + cos(pi t)) / 2 with t = (step - warmup) / (steps - warmup).

    Args:
        step: the optimiser step, 0 to steps - 1.
        steps: optimiser steps of the whole training.
        warmup: optimiser steps of the warm-up; 0 for none.
    """
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))
