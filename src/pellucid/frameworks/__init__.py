"""Contrastive frameworks, and the table of builders that recipes name."""

from collections.abc import Callable

from pellucid.branch import Branch
from pellucid.frameworks.byol import BYOL
from pellucid.frameworks.framework import Framework
from pellucid.frameworks.moco import MoCo
from pellucid.frameworks.simclr import SimCLR
from pellucid.nets import KeyQueue, mlp

__all__ = ["BYOL", "FRAMEWORKS", "Framework", "MoCo", "SimCLR"]


def simclr(online: Branch, dimensions: int, *, temperature: float = 0.2) -> SimCLR:
    """NT-Xent between two views in one batch (arXiv 2002.05709).

    Args:
        online: the branch to train.
        dimensions: K, the width of z; not needed here.
        temperature: divides the cosines; smaller weighs hard negatives more.
    """
    del dimensions
    return SimCLR(online, temperature)


def moco(
    online: Branch,
    dimensions: int,
    *,
    temperature: float = 0.2,
    queue: int = 4096,
    momentum: float = 0.999,
    groups: int = 4,
) -> MoCo:
    """InfoNCE against a queue of a slow copy's keys (MoCo v2, arXiv 2003.04297).

    Args:
        online: the branch to train.
        dimensions: K, the width of z.
        temperature: divides the cosines; smaller weighs hard negatives more.
        queue: keys that are kept as negatives; 65,536 published, for ImageNet.
        momentum: of the copy.
        groups: that keys pass through batch norm in, so that its statistics name no positive.
    """
    return MoCo(online, KeyQueue(queue, dimensions), temperature, momentum, groups)


def byol(
    online: Branch, dimensions: int, *, momentum: float = 0.996, predictor_hidden: int = 4096
) -> BYOL:
    """Prediction of a slow copy's view, without negatives (arXiv 2006.07733).

    Args:
        online: the branch to train.
        dimensions: K, the width of z.
        momentum: of the copy at the start; it rises to 1.
        predictor_hidden: hidden width of the predictor, which has a batch norm, as published.
    """
    if predictor_hidden < 1:
        raise ValueError(f"predictor_hidden must be at least 1, got {predictor_hidden}")
    predictor = mlp(dimensions, predictor_hidden, dimensions, batch_norm=True)
    return BYOL(online, predictor, momentum)


FRAMEWORKS: dict[str, Callable[..., Framework]] = {"simclr": simclr, "moco": moco, "byol": byol}
"""Builders (online branch, dimensions, *, settings) -> Framework; keys are their keywords."""
