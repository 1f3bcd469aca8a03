"""Which images an evaluation reads."""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.build import source_settings
from pellucid.data.image_set import ImageSet, open_images
from pellucid.data.source import DataError
from pellucid.randomness import seeded
from pellucid.recipe import Recipe

NO_HELD_OUT = "no images are held out: the set has one split and data.holdout=0"


class Splits(NamedTuple):
    """The images that an evaluation reads."""

    train: ImageSet
    """The training images of the run."""
    chosen: Int[Tensor, " n"]
    """Those of them that are read: a fixed choice, of the labelled ones if there are any."""
    scored: ImageSet
    """The images that are scored: the held-out split, or the training images without one."""
    held_out: bool
    notes: list[str]
    """What a reader of the scores should know of them, in words."""

    @property
    def classes(self) -> int:
        """How many classes labels index; 0 without labels."""
        known = [s.labels.max() for s in (self.train, self.scored) if s.labels is not None]
        named = max(len(s.classes or ()) for s in (self.train, self.scored))
        return max([named, *(int(largest) + 1 for largest in known)])


def open_splits(recipe: Recipe, *, download: bool = False, strict: bool = False) -> Splits:
    """The training images of a run, at most `evaluation.train_limit` chosen, and the held-out ones.

    Raises:
        DataError: they cannot be read, or the splits number their classes differently.
    """
    settings = source_settings(recipe) | {"download": download, "strict": strict}
    train = open_images(split="train", limit=recipe.data.limit, **settings)
    chosen = choose(train.labels, len(train), recipe.evaluation.train_limit, recipe.evaluation.seed)
    notes = [f"training images: {note}" for note in train.notes]
    if len(chosen) < len(train):
        notes.append(f"{len(chosen)} of {len(train)} training images are read")
    try:
        scored = open_images(split="test", **settings)
    except DataError as error:
        # With a share to hold out, a missing split is held out of the rest, so this is another.
        if recipe.data.holdout > 0:
            raise
        return Splits(train, chosen, train, False, [*notes, f"{NO_HELD_OUT} ({error})"])
    if None not in (train.classes, scored.classes) and train.classes != scored.classes:
        raise DataError(
            f"the classes of {recipe.data.source} differ between its splits: "
            f"{train.classes} in training, {scored.classes} held out; give both the same"
        )
    return Splits(
        train, chosen, scored, True, [*notes, *(f"held-out images: {n}" for n in scored.notes)]
    )


def choose(
    labels: Int[Tensor, " n"] | None, count: int, limit: int, seed: int
) -> Int[Tensor, " m"]:
    """A fixed choice of at most `limit` of `count` images, of the labelled ones if there are any.

    Returns:
        Their indices, ascending.
    """
    chosen = torch.arange(count)
    if labels is not None and bool((labels >= 0).any()):
        chosen = chosen[labels >= 0]
    if len(chosen) > limit:
        order = torch.randperm(len(chosen), generator=seeded(seed, "evaluation images"))
        chosen = chosen[order[:limit].sort().values]
    return chosen


def labelled(labels: Int[Tensor, " n"] | None) -> int:
    """How many images have a label."""
    return 0 if labels is None else int((labels >= 0).sum())
