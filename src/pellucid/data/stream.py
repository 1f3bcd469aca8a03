"""A set that does not fit in memory: worker processes decode the batches as they are asked for."""

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pellucid.data.bad_share import allowed_bad, refuse_bad
from pellucid.data.decode import UnreadableImageError
from pellucid.data.pixels import check_shape, content_hash, crops_of_image, pixels_of
from pellucid.data.source import DataError, Source, some
from pellucid.data.view_parameters import ViewSettings
from pellucid.randomness import seeded

Bad = dict[int, str]
"""The indices of unreadable images, with the reasons."""

_ENOUGH_SEEN = 1000
"""Images to have seen before the share of unreadable ones among them says anything."""


class _Squares(Dataset[tuple[Tensor, Bad]]):
    """Squares of the images of a tensor of indices, as `Held` has them."""

    def __init__(self, source: Source, shape: tuple[int, int], size: int | None, most_bad: int):
        self.source, self.shape, self.size, self.most_bad = source, shape, size, most_bad

    def __getitem__(self, indices: Int[Tensor, " b"]) -> tuple[UInt8[Tensor, "b 3 H W"], Bad]:
        pixels = torch.zeros((len(indices), 3, *self.shape), dtype=torch.uint8)

        def put(place: int, index: int) -> None:
            image = pixels_of(self.source, index, self.size)
            check_shape(self.source.names[index], image.shape[1:], self.shape)
            pixels[place].copy_(torch.from_numpy(image))

        return pixels, _put_all(indices, put, len(self.source), self.most_bad)


class _Crops(Dataset[tuple[Tensor, Bad]]):
    """The crops of both views of each image, for its index and its random numbers."""

    def __init__(
        self,
        source: Source,
        shape: tuple[int, int] | None,
        settings: ViewSettings,
        most_bad: int,
    ):
        self.source, self.shape = source, shape
        self.settings, self.most_bad = settings, most_bad

    def __getitem__(
        self, asked: tuple[Int[Tensor, " b"], Float[Tensor, "2 b u"]]
    ) -> tuple[UInt8[Tensor, "2 b s s 3"], Bad]:
        indices, uniform = asked
        size = self.settings.size
        crops = torch.zeros((2, len(indices), size, size, 3), dtype=torch.uint8)

        def put(place: int, index: int) -> None:
            given = self.source, index, uniform[:, place], self.settings, self.shape
            crops[:, place] = crops_of_image(*given)

        return crops, _put_all(indices, put, len(self.source), self.most_bad)


def _put_all(
    indices: Int[Tensor, " b"], put: Callable[[int, int], None], total: int, most_bad: int
) -> Bad:
    """Put every image in its place; an unreadable one gives way to the next readable one."""
    bad: Bad = {}
    for place, index in enumerate(indices.tolist()):
        for step in range(total):
            if len(bad) > most_bad:  # the reader gives up; a lost disk is told at once
                return bad
            tried = (index + step) % total
            if tried in bad:
                continue
            try:
                put(place, tried)
            except UnreadableImageError as failure:
                bad[tried] = failure.reason
                continue
            break
    return bad


class Streamed:
    """Images that are decoded whenever they are asked for.

    `batches` has the pixels that `Held` would have, `crops` those of the whole pictures.

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
        self._most_bad = allowed_bad(self._bad_share, len(source))
        self._squares = _Squares(source, shape, size, self._most_bad)
        self._workers = workers
        self._seen = torch.zeros(len(source), dtype=torch.bool)
        self._bad: dict[int, str] = {}

    def on(self, device: torch.device) -> "Streamed":
        """These: a batch is sent when it has been read."""
        del device
        return self

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """The name and the reason of each image found unreadable so far."""
        return [(self._source.names[index], reason) for index, reason in sorted(self._bad.items())]

    def batches(self, order: Sequence[Int[Tensor, " _"]]) -> Iterator[UInt8[Tensor, "_ 3 H W"]]:
        """The pixels of each tensor of indices, decoded a few batches ahead.

        Raises:
            DataError: too many of the images seen are unreadable.
        """
        yield from self._read(self._squares, order, order)

    def crops(
        self,
        order: Sequence[Int[Tensor, " _"]],
        uniform: Callable[[int], Float[Tensor, "2 _ u"]],
        settings: ViewSettings,
    ) -> Iterator[UInt8[Tensor, "2 _ 3 s s"]]:
        """The crops of two views of each tensor of indices, out of the whole pictures.

        Args:
            order: Indices of each batch.
            uniform: For a place in the order, what the crops are drawn from.
            settings: Of the views.

        Raises:
            DataError: too many of the images seen are unreadable.
        """
        # Pictures of any size can be cropped, but the end of a training wants the plain ones.
        shape = self.image_size if self._squares.size is None else None
        cutter = _Crops(self._source, shape, settings, self._most_bad)
        # Drawn as they are asked for: an epoch's numbers would take hundreds of megabytes.
        asked = ((indices, uniform(place)) for place, indices in enumerate(order))
        for crops in self._read(cutter, asked, order):
            yield crops.movedim(4, 2)

    def _read(
        self,
        dataset: Dataset[tuple[Tensor, Bad]],
        asked: Iterable[Any],
        order: Sequence[Int[Tensor, " _"]],
    ) -> Iterator[Tensor]:
        loader = DataLoader(
            dataset,
            batch_size=None,
            sampler=asked,
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
