"""Which images a step sees, and which views of them: functions of the seed and the step."""

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from pellucid.data.views import (
    ViewSettings,
    draw_views,
    make_views,
    normalise,
    plain_views,
    take_rows,
)
from pellucid.distributed import rank, world_size
from pellucid.randomness import seeded

RGB = tuple[float, float, float]


def epoch_order(count: int, seed: int, epoch: int) -> Int[Tensor, " n"]:
    """The order of all images in an epoch, the same on every rank."""
    return torch.randperm(count, generator=seeded(seed, "order", epoch))


def own_rows(batch: int, accumulate: int, micro: int) -> slice:
    """Rows of the global batch that this rank sees in a micro-step."""
    share = batch // (accumulate * world_size())
    first = (micro * world_size() + rank()) * share
    return slice(first, first + share)


def epoch_batches(
    count: int, batch: int, accumulate: int, seed: int, epoch: int, skip_steps: int
) -> list[Int[Tensor, " b"]]:
    """This rank's image indices of each micro-step of an epoch; the last, short batch is left out.

    Args:
        count: images in the set.
        batch: images of an optimiser step, over all micro-steps and ranks.
        accumulate: micro-steps of an optimiser step.
        seed: of the run.
        epoch: from 0.
        skip_steps: optimiser steps of this epoch that an earlier start already took.
    """
    order = epoch_order(count, seed, epoch)
    return [
        order[step * batch : (step + 1) * batch][own_rows(batch, accumulate, micro)]
        for step in range(skip_steps, count // batch)
        for micro in range(accumulate)
    ]


class TwoViews:
    """Two normalised views of a batch, drawn by (seed, step, position in the global batch).

    Args:
        settings: of both views.
        mean: of the channels, subtracted.
        std: of the channels, divided by.
        seed: of the run.
        batch: images of an optimiser step, over all micro-steps and ranks.
    """

    def __init__(self, settings: ViewSettings, mean: RGB, std: RGB, seed: int, batch: int) -> None:
        self.settings, self.mean, self.std = settings, mean, std
        self.seed, self.batch = seed, batch

    def __call__(
        self, images: UInt8[Tensor, "b 3 h w"], step: int, rows: slice
    ) -> tuple[Float[Tensor, "b 3 s s"], Float[Tensor, "b 3 s s"]]:
        return self._view(images, "query", step, rows), self._view(images, "key", step, rows)

    def plain(self, images: UInt8[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 s s"]:
        """The images as in evaluation: unaugmented, normalised."""
        return normalise(plain_views(images, self.settings.size), self.mean, self.std)

    def _view(self, images: Tensor, side: str, step: int, rows: slice) -> Tensor:
        # The draws of the whole global batch are made and this rank's rows kept: a few numbers an
        # image, and no rank count, accumulation or restart can change a view.
        height, width = images.shape[-2:]
        generator = seeded(self.seed, side, step)
        draws = draw_views(self.batch, height, width, self.settings, generator)
        views = make_views(images, take_rows(draws, rows), self.settings)
        return normalise(views, self.mean, self.std)
