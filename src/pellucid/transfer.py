"""Copies to a GPU that nothing waits for."""

import torch
from torch import Tensor


def send(values: Tensor, device: torch.device) -> Tensor:
    """Values of the CPU on the device; a GPU gets them after what it has been given before.

    From memory that the system may move, a copy would wait for all of the GPU's work first.
    """
    if device.type == "cuda" and values.device.type == "cpu":
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)
