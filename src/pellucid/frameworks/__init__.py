"""Contrastive frameworks, and the table of builders that recipes name."""

from collections.abc import Callable

from pellucid.branch import Branch
from pellucid.frameworks.framework import Framework
from pellucid.frameworks.simclr import SimCLR

__all__ = ["FRAMEWORKS", "Framework", "SimCLR"]


def simclr(online: Branch, *, temperature: float = 0.2) -> SimCLR:
    """NT-Xent between two views in one batch (arXiv 2002.05709).

    Args:
        online: the branch to train.
        temperature: divides the cosines; smaller weighs hard negatives more.
    """
    return SimCLR(online, temperature)


FRAMEWORKS: dict[str, Callable[..., Framework]] = {"simclr": simclr}
