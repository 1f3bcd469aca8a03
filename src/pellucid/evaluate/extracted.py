"""What is read of a branch, extracted by all processes and gathered on the first."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid import distributed
from pellucid.branch import Branch
from pellucid.data.image_set import ImageSet
from pellucid.evaluate.extract import BATCH, Features, Preprocess, extract, image_batches
from pellucid.evaluate.splits import Splits
from pellucid.metrics import rank_dimensions
from pellucid.nets.batch_norm import recalibrate_batch_norm
from pellucid.run import Run
from pellucid.train.device import autocast
from pellucid.train.loop import CALIBRATION


class Place(NamedTuple):
    """Where a branch runs, and in what precision."""

    device: torch.device
    precision: str


class Extracted(NamedTuple):
    """What is read of one branch: of the training images, no more than the probe and kNN need."""

    scored: Features
    train_h: torch.Tensor
    train_labels: torch.Tensor | None
    strongest: torch.Tensor
    """Dimensions by their strength on the training images."""


def extract_shared(
    branch: Branch,
    preprocess: Preprocess,
    images: ImageSet,
    indices: Int[Tensor, " n"] | None = None,
    *,
    batch: int = BATCH,
    **settings: Any,
) -> Features | None:
    """`extract`, with every batch on one of the processes; None on all but the first.

    Each image is counted once, whatever the number of processes, and the batches are those of one
    process, so that the features are too.

    Args:
        branch: see `extract`, as for the further settings.
        preprocess: stored pixels to what the encoder takes.
        images: the set.
        indices: the images to read, in this order; all of them by default.
        batch: images at a time.
        settings: of `extract`.

    Raises:
        ValueError: there is no image, or a feature is not finite.
    """
    chosen = torch.arange(len(images)) if indices is None else indices
    world, rank = distributed.world_size(), distributed.rank()
    if world == 1 or len(chosen) == 0:
        return extract(branch, preprocess, images, indices=chosen, batch=batch, **settings)
    batches = list(torch.split(torch.arange(len(chosen)), batch))
    own = [torch.cat(batches[first::world]) for first in range(world) if first < len(batches)]
    part = None
    if rank < len(own):
        share = chosen[own[rank]]
        part = extract(branch, preprocess, images, indices=share, batch=batch, **settings)
    parts = [part for part in distributed.gather_first(part) if part is not None]
    if rank > 0:
        return None
    places = torch.cat(own).argsort()
    together = {
        name: None if values[0] is None else torch.cat(values)[places]
        for name, values in zip(Features._fields, zip(*parts, strict=True), strict=True)
    }
    return Features(**together)  # type: ignore[arg-type]  # what may be None is so in all parts


def extract_branch(
    run: Run, branch: Branch, splits: Splits, place: Place, which: str
) -> Extracted | None:
    """What a branch makes of the images; None on all processes but the first."""

    def features_of(images: ImageSet, chosen: torch.Tensor | None, words: str) -> Features | None:
        return extract_shared(
            branch,
            run.preprocess,
            images,
            chosen,
            device=place.device,
            precision=place.precision,
            progress=f"{which} branch, {words} images",
        )

    train = features_of(splits.train, splits.chosen, "train")
    scored = features_of(splits.scored, None, "scored")
    if train is None or scored is None:
        return None
    strongest = rank_dimensions(train.z.to(place.device))
    return Extracted(scored, train.h, train.labels, strongest)


def recalibrate(run: Run, branch: Branch, splits: Splits, place: Place) -> int:
    """Give an untrained branch the batch-norm statistics of training images, not (0, 1)."""
    count = min(len(splits.chosen), CALIBRATION)
    if count > BATCH:
        count -= count % BATCH  # every batch counts alike
    if count < 2:
        return 0
    images = image_batches(splits.train, splits.chosen[:count], run.preprocess, place.device)
    with autocast(place.device, place.precision):
        return recalibrate_batch_norm(branch.to(place.device), images)
