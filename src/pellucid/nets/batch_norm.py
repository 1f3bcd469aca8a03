"""Batch-norm statistics of the images that a net will see, not of those that it was trained on."""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


@torch.no_grad()
def recalibrate_batch_norm(net: nn.Module, batches: Iterable[Float[Tensor, "b 3 h w"]]) -> int:
    """Reset all running statistics, and set them to the plain average over these batches.

    Only batch norms run in training mode, everything else as in evaluation, so that no noise of a
    head is drawn. Every batch counts alike: let them be of one size. Modes and momentum are
    afterwards what they were; parameters are not touched. A net without batch norm reads no batch.

    Args:
        net: whatever maps a batch of images, on their device.
        batches: plain images as in evaluation, each batch of at least two.

    Returns:
        The number of images that the statistics were taken over; 0 without batch norm.

    Raises:
        ValueError: there is no batch, which would leave mean 0 and variance 1.
    """
    norms = [m for m in net.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    if not norms:
        return 0
    training = [module for module in net.modules() if module.training]
    momenta = [norm.momentum for norm in norms]
    seen = 0
    try:
        net.eval()
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the cumulative average
            norm.train()
        for images in batches:
            net(images)
            seen += len(images)
    finally:
        net.eval()
        for module in training:
            module.training = True
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
    if not seen:
        raise ValueError("batch-norm statistics need at least one batch of images, got none")
    return seen
