"""Where training runs, and in what precision."""

import atexit
import os
import platform
from pathlib import Path

import torch
from torch import distributed as dist

from pellucid.train.plan import Precision


def pick_device(name: str = "auto") -> torch.device:
    """The device of a name; `auto` is CUDA (this rank's GPU under torchrun), else the CPU."""
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


def resolve_precision(precision: Precision, device: torch.device) -> Precision:
    """`auto` as what this hardware does fast: bf16 where it has the instructions, else fp32."""
    if precision != "auto":
        return precision
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if torch.cpu._is_avx512_bf16_supported() else "fp32"


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The context of a forward pass in a resolved precision."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")


def join_processes(device: torch.device) -> None:
    """Join the other processes when started by torchrun; nothing otherwise."""
    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
        if device.type == "cuda":
            torch.cuda.set_device(device)
        # Gloo beside NCCL: what is agreed on between steps must not wait for a GPU.
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
        atexit.register(dist.destroy_process_group)


def hardware(device: torch.device) -> dict[str, str | int]:
    """What a reported time depends on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            return next(line.split(":")[1].strip() for line in file if line[:10] == "model name")
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
