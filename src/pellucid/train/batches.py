"""Which images a step sees, and which views of them: functions of the seed and the step."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from pellucid.data.image_set import ImageSet
from pellucid.data.views import (
    ViewSettings,
    draw_uniform,
    draws_of,
    finish_views,
    make_views,
    normalise,
    plain_views,
)
from pellucid.distributed import rank, world_size
from pellucid.randomness import seeded

RGB = tuple[float, float, float]
SIDES = ("query", "key")


class MicroBatch(NamedTuple):
    """What this process sees in a micro-step."""

    indices: Int[Tensor, " b"]
    """Of its images in the set."""
    step: int
    """The optimiser step, from 0, over all epochs."""
    rows: slice
    """Where its images lie in the global batch."""


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
) -> list[MicroBatch]:
    """What this rank sees in each micro-step of an epoch; the last, short batch is left out.

    Args:
        count: images in the set.
        batch: images of an optimiser step, over all micro-steps and ranks.
        accumulate: micro-steps of an optimiser step.
        seed: of the run.
        epoch: from 0.
        skip_steps: optimiser steps of this epoch that an earlier start already took.
    """
    order = epoch_order(count, seed, epoch)
    steps = count // batch
    shares = [own_rows(batch, accumulate, micro) for micro in range(accumulate)]
    return [
        MicroBatch(order[step * batch : (step + 1) * batch][rows], epoch * steps + step, rows)
        for step in range(skip_steps, steps)
        for rows in shares
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

    def read(
        self, images: ImageSet, order: Sequence[MicroBatch]
    ) -> Iterator[UInt8[Tensor, "b 3 h w"] | UInt8[Tensor, "2 b 3 s s"]]:
        """What the views of each micro-batch are made of, as `__call__` takes it.

        That is the stored images; of a streamed set the crops of both views, which its readers
        cut out of the whole pictures.
        """

        def uniform(place: int) -> Tensor:
            _, step, rows = order[place]
            return torch.stack([self._uniform(side, step, rows) for side in SIDES])

        return images.crops([batch.indices for batch in order], uniform, self.settings)

    def __call__(
        self,
        pixels: UInt8[Tensor, "b 3 h w"] | UInt8[Tensor, "2 b 3 s s"],
        step: int,
        rows: slice,
    ) -> tuple[Float[Tensor, "b 3 s s"], Float[Tensor, "b 3 s s"]]:
        query, key = pixels if pixels.ndim == 5 else (pixels, pixels)
        make = finish_views if pixels.ndim == 5 else make_views
        height, width = pixels.shape[-2:]
        views = []
        for side, images in zip(SIDES, (query, key), strict=True):
            draws = draws_of(self._uniform(side, step, rows), height, width, self.settings)
            views.append(normalise(make(images, draws, self.settings), self.mean, self.std))
        return views[0], views[1]

    def plain(self, images: UInt8[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 s s"]:
        """The images as in evaluation: unaugmented, normalised."""
        return normalise(plain_views(images, self.settings.size), self.mean, self.std)

    def _uniform(self, side: str, step: int, rows: slice) -> Tensor:
        # The draws of the whole global batch are made and this rank's rows kept: a few numbers an
        # image, and no rank count, accumulation or restart can change a view.
        return draw_uniform(self.batch, seeded(self.seed, side, step))[rows]
