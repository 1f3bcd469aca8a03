"""A source: the items of one split and how to get their bytes. It decodes nothing."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid.randomness import seeded


class DataError(ValueError):
    """Images that cannot be used; the message names the file or folder and the remedy."""


class NoHeldOutError(DataError):
    """A set without a test split of its own, of which none is held out."""


@dataclass(frozen=True, eq=False)
class Source:
    """The images of one split, wherever they come from."""

    names: list[str]
    """A unique name an item: the path below the root, or "file.parquet:row"; "/" between parts."""
    labels: Int[Tensor, " n"] | None
    """Class indices (int64), -1 where an image has none; None for a set without labels."""
    classes: tuple[str, ...] | None
    """The class names that labels index; None without labels."""
    read: Callable[[int], bytes]
    """The encoded bytes of an item. Picklable, so that worker processes can have it."""
    fingerprint: str
    """Changes when a file, or the choice of items, changes."""
    notes: list[str]
    """What was skipped or decided while listing, in words."""

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class _Chosen:
    """Reads some of a source's items under new indices."""

    read: Callable[[int], bytes]
    indices: list[int]

    def __call__(self, index: int) -> bytes:
        return self.read(self.indices[index])


def choose(source: Source, indices: Sequence[int], *notes: str) -> Source:
    """The given items of a source, in the given order."""
    indices = list(indices)
    return Source(
        names=[source.names[i] for i in indices],
        labels=None if source.labels is None else source.labels[indices],
        classes=source.classes,
        read=_Chosen(source.read, indices),
        fingerprint=fingerprint([source.fingerprint, *map(str, indices)]),
        notes=[*source.notes, *notes],
    )


def first(source: Source, limit: int | None) -> Source:
    """The first `limit` items of a fixed permutation, in the source's order; all for None.

    Raises:
        ValueError: the limit is not positive.
    """
    if limit is None or limit >= len(source):
        return source
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    chosen = _permutation(len(source), "limit")[:limit]
    return choose(source, sorted(chosen), f"{limit} of {len(source)} images, by limit")


def hold_out(source: Source, split: str, share: float) -> Source:
    """A split of a set that comes without one: a fixed permutation gives the test images.

    Raises:
        ValueError: the share is not in [0, 1).
        DataError: the split would be empty.
    """
    if not 0 <= share < 1:
        raise ValueError(f"holdout must be a share in [0, 1), not {share}")
    if share == 0 and split == "train":
        return source
    total = len(source)
    count = min(max(1, round(share * total)), total - 1) if share else 0
    order = _permutation(total, "holdout")
    chosen = order[:count] if split == "test" else order[count:]
    if not chosen:
        raise NoHeldOutError(
            f"no held-out split, and holdout={share} of {total} images leaves none for {split}: "
            "give a test folder or split, or a larger holdout"
        )
    note = f"no held-out split: {count} of {total} images, fixed at random, are the test split"
    return choose(source, sorted(chosen), note)


def fingerprint(parts: Iterable[str]) -> str:
    """A short digest of some texts, the same on every machine."""
    # A file name need not be valid Unicode; a zero byte is in no file name.
    text = "".join([f"{part}\0" for part in parts])
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16).hexdigest()


def some(items: Sequence[str], most: int = 3) -> str:
    """The first few items for a message: "a, b, c and 4 more"."""
    listed = ", ".join(items[:most])
    return listed if len(items) <= most else f"{listed} and {len(items) - most} more"


def _permutation(total: int, purpose: str) -> list[int]:
    order: list[int] = torch.randperm(total, generator=seeded(0, purpose)).tolist()
    return order
