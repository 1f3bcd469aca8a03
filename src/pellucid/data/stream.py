"""A set that does not fit in memory: worker processes decode the batches as they are asked for."""

import signal
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pellucid.data.bad_share import allowed_bad, refuse_bad
from pellucid.data.cache import content_hash, pixels_of
from pellucid.data.decode import UnreadableImageError
from pellucid.data.source import DataError, Source, some
from pellucid.randomness import seeded

Bad = dict[int, str]
"""The indices of unreadable images, with the reasons."""

_ENOUGH_SEEN = 1000
"""Images to have seen before the share of unreadable ones among them says anything."""


class _Decoder(Dataset[tuple[Tensor, Bad]]):
    """A batch for a tensor of indices; an unreadable image gives way to the next readable one."""

    def __init__(self, source: Source, shape: tuple[int, int], size: int | None, most_bad: int):
        self.source, self.shape, self.size, self.most_bad = source, shape, size, most_bad

    def __getitem__(self, indices: Int[Tensor, " b"]) -> tuple[UInt8[Tensor, "b 3 H W"], Bad]:
        bad: Bad = {}
        pixels = torch.zeros((len(indices), 3, *self.shape), dtype=torch.uint8)
        for place, index in zip(pixels, indices.tolist(), strict=True):
            for step in range(len(self.source)):
                if len(bad) > self.most_bad:  # the reader gives up; a lost disk is told at once
                    return pixels, bad
                tried = (index + step) % len(self.source)
                if tried in bad:
                    continue
                try:
                    image = pixels_of(self.source, tried, self.size)
                except UnreadableImageError as failure:
                    bad[tried] = failure.reason
                    continue
                if image.shape[1:] != self.shape:
                    raise DataError(
                        f"{self.source.names[tried]} is {image.shape[1]} x {image.shape[2]} pixels "
                        f"and others {self.shape[0]} x {self.shape[1]}: give stored_size"
                    )
                place.copy_(torch.from_numpy(image))
                break
        return pixels, bad


class Streamed:
    """Images that are decoded whenever they are asked for, to the pixels that `Held` would have.

    Args:
        source: What to decode.
        shape: Height and width of the decoded images.
        size: What images are scaled to; None keeps them, and they must be of `shape`.
        labels: Set to -1, in place, for an unreadable image: its replacement shows another class.
        workers: Processes that decode; 0 decodes in this one.
        bad_share: The share of unreadable images that is borne.
        strict: Bear none.
    """

    def __init__(
        self,
        source: Source,
        shape: tuple[int, int],
        size: int | None,
        labels: Int[Tensor, " n"] | None,
        *,
        workers: int,
        bad_share: float = 0.01,
        strict: bool = False,
    ) -> None:
        self.image_size = shape
        self._source = source
        self._labels = labels
        self._bad_share = 0.0 if strict else bad_share
        self._decoder = _Decoder(source, shape, size, allowed_bad(self._bad_share, len(source)))
        self._workers = workers
        self._seen = torch.zeros(len(source), dtype=torch.bool)
        self._bad: dict[int, str] = {}

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """The name and the reason of each image found unreadable so far."""
        return [(self._source.names[index], reason) for index, reason in sorted(self._bad.items())]

    def batches(self, order: Sequence[Int[Tensor, " _"]]) -> Iterator[UInt8[Tensor, "_ 3 H W"]]:
        """The pixels of each tensor of indices, decoded a few batches ahead.

        Raises:
            DataError: too many of the images seen are unreadable.
        """
        loader = DataLoader(
            self._decoder,
            batch_size=None,
            sampler=order,
            num_workers=self._workers,
            worker_init_fn=_leave_stopping_to_the_first,
            collate_fn=_as_it_is,  # type: ignore[arg-type]  # it is given a batch, not items
            generator=seeded(0, "stream"),  # else the loader draws from the global stream
        )
        for indices, (pixels, bad) in zip(order, loader, strict=True):
            self._note(indices, bad)
            yield pixels

    def hashes(self) -> list[str]:
        """A digest of the pixels of each image; decodes the whole set."""
        everything = torch.split(torch.arange(len(self._source)), 64)
        return [
            content_hash(image) for batch in self.batches(everything) for image in batch.numpy()
        ]

    def _note(self, indices: Int[Tensor, " b"], bad: Bad) -> None:
        self._bad.update(bad)
        unreadable = torch.tensor(list(bad), dtype=torch.int64)
        self._seen[indices] = True
        self._seen[unreadable] = True
        if self._labels is not None:
            self._labels[unreadable] = -1
        if self._bad:
            total = len(self._source)
            if len(self._bad) == total:
                names = some(self._source.names)
                raise DataError(f"none of {total} images can be read: {names}")
            seen = max(int(self._seen.sum()), min(total, _ENOUGH_SEEN))
            refuse_bad(self.skipped, allowed_bad(self._bad_share, seen), seen)


def _leave_stopping_to_the_first(_: int) -> None:
    """Let the process that trains decide when to stop, and still have its batches until then."""
    # Clusters and terminals send their signal to all processes, and a reader that dies of it would
    # end the training before it is saved. Readers end with the process that they read for.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _as_it_is(batch: tuple[Tensor, Bad]) -> tuple[Tensor, Bad]:
    return batch
