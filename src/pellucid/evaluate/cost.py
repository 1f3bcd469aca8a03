"""What a representation costs: parameters, FLOPs and seconds."""

import math
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from pellucid.branch import Branch
from pellucid.train.log import TIMING, read_lines

CONVENTION = (
    "floating-point operations of one image through the branch in eval mode: convolutions and "
    "matrix products only, two for each multiply-add"
)


@torch.no_grad()
def branch_cost(branch: Branch, image_size: int) -> dict[str, Any]:
    """Parameters and FLOPs of encoder, projector and head (whose parameters are its gate) apart.

    Args:
        branch: of any mode; it is measured in eval mode and left as it was.
        image_size: side of the images that the encoder takes, in pixels.

    Returns:
        `parameters` and `flops` (of one image), each with `encoder`, `projector`, `head` and
        `total`, and `convention`, what the FLOPs count.
    """
    device = next(branch.parameters()).device
    training = [module for module in branch.modules() if module.training]
    branch.eval()
    counts = {}
    with FlopCounterMode(display=False) as counter:
        h = branch.encoder(torch.zeros(1, 3, image_size, image_size, device=device))
        counts["encoder"] = counter.get_total_flops()
        u = branch.projector(h)
        counts["projector"] = counter.get_total_flops() - counts["encoder"]
        branch.head(u, h)
        counts["total"] = counter.get_total_flops()
    counts["head"] = counts["total"] - counts["encoder"] - counts["projector"]
    for module in training:
        module.training = True
    sizes = {name: parameters(getattr(branch, name)) for name in ("encoder", "projector", "head")}
    return {
        "parameters": sizes | {"total": sum(sizes.values())},
        "flops": {name: counts[name] for name in ("encoder", "projector", "head", "total")},
        "convention": CONVENTION,
    }


def parameters(module: nn.Module) -> int:
    """The number of parameters."""
    return sum(parameter.numel() for parameter in module.parameters())


def training_time(folder: Path) -> dict[str, Any]:
    """How long the training of a run took, by its timing.jsonl.

    Returns:
        `seconds_a_step`, the median over windows of the log; `seconds` in all, the work lost to
        interruptions left out; `images_per_second`, the median; `steps`, of the last window. All
        are None, with a `reason`, when nothing was logged.
    """
    measured = ("seconds", "images_per_second")
    lines = [
        line
        for line in read_lines(folder / TIMING)
        if all(isinstance(line.get(name), int | float) for name in measured)
    ]
    names = ("seconds_a_step", "seconds", "images_per_second", "steps")
    if not lines:
        return dict.fromkeys(names) | {"reason": f"{folder / TIMING} is missing or empty"}
    ends = [0, *(int(line["step"]) for line in lines)]
    seconds = [float(line["seconds"]) for line in lines]
    paces = [s / max(b - a, 1) for a, b, s in zip(ends, ends[1:], seconds, strict=False)]
    return {
        "seconds_a_step": median(paces),
        "seconds": math.fsum(seconds),
        "images_per_second": median(float(line["images_per_second"]) for line in lines),
        "steps": ends[-1],
        "reason": None,
    }
