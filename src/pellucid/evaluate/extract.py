"""Images through a branch, once, in eval mode: the features that every score reads."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from pellucid.branch import Branch
from pellucid.data.image_set import ImageSet
from pellucid.train.device import autocast
from pellucid.transfer import send

Preprocess = Callable[[UInt8[Tensor, "b 3 h w"]], Float[Tensor, "b 3 s s"]]

BATCH = 512


class Features(NamedTuple):
    """A set of images at every stage of a branch, in fp32 on the CPU."""

    h: Float[Tensor, "n f"]
    """Encoder features: what kNN and the linear probe read."""
    u: Float[Tensor, "n k"]
    """Projection."""
    z: Float[Tensor, "n k"]
    """Representation: what interpretability and retrieval read."""
    gate: Float[Tensor, "n k"] | None
    """The probability that each gate is open; None for a head without gates."""
    ungated: Float[Tensor, "n k"]
    """What z would be with every gate open."""
    labels: Int[Tensor, " n"] | None
    """Class indices, -1 where an image has none; None for a set without labels."""


def extract(
    branch: Branch,
    preprocess: Preprocess,
    images: ImageSet,
    *,
    device: torch.device,
    precision: str,
    batch: int = BATCH,
    progress: str | None = None,
    indices: Int[Tensor, " n"] | None = None,
) -> Features:
    """Every image through the branch in eval mode, each once, without gradients.

    The branch is moved to the device; its parameters, buffers and modes are afterwards what they
    were.

    Args:
        branch: what was trained, or the same untrained.
        preprocess: stored pixels to what the encoder takes.
        images: the set, in whose order the rows are.
        device: where the branch runs.
        precision: `bf16` for autocast, else fp32.
        batch: images at a time; changes no result in fp32 beyond rounding.
        progress: words for a progress bar, which only a terminal shows; None for none.
        indices: the images to read, in this order; all of them by default.

    Raises:
        ValueError: there is no image, or a feature is not finite, as after a diverged training.
    """
    chosen = torch.arange(len(images)) if indices is None else indices
    if len(chosen) == 0:
        raise ValueError("there is no image to extract features of")
    rows: list[tuple[Tensor, ...]] = []
    with _evaluating(branch.to(device)), torch.inference_mode():
        for pixels in image_batches(images, chosen, preprocess, device, batch, progress):
            with autocast(device, precision):
                h, u, z, gate, _ = branch(pixels)
                ungated = branch.head.ungated(u)
            stages = (h, u, z, ungated) if gate is None else (h, u, z, ungated, gate)
            rows.append(tuple(stage.float().cpu() for stage in stages))
    # Outside of inference mode, so that a probe may take gradients of what it does with them.
    h, u, z, ungated, *gates = (torch.cat(parts) for parts in zip(*rows, strict=True))
    for name, values in {"h": h, "u": u, "z": z}.items():
        if not bool(values.isfinite().all()):
            raise ValueError(
                f"{name} is not finite on {int((~values.isfinite()).any(dim=1).sum())} of "
                f"{len(values)} images: the branch has diverged, or {precision} overflows"
            )
    labels = None if images.labels is None else images.labels[chosen]
    return Features(h, u, z, gates[0] if gates else None, ungated, labels)


def image_batches(
    images: ImageSet,
    indices: Int[Tensor, " n"],
    preprocess: Preprocess,
    device: torch.device,
    batch: int = BATCH,
    progress: str | None = None,
) -> Iterator[Float[Tensor, "b 3 s s"]]:
    """Plain images as the encoder takes them, channels last, on the device."""
    order = list(torch.split(indices, batch))
    pixels: Iterable[Tensor] = images.batches(order)
    console = Console(stderr=True)
    if progress is not None and console.is_terminal:
        pixels = track(pixels, progress, len(order), console=console, transient=True)
    for some in pixels:
        ready = preprocess(send(some, device))
        yield ready.contiguous(memory_format=torch.channels_last)


@contextlib.contextmanager
def _evaluating(branch: nn.Module) -> Iterator[None]:
    """Eval mode, and afterwards each module in the mode that it was in."""
    training = [module for module in branch.modules() if module.training]
    branch.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
