"""What training and evaluation read: the images of one split as pixels, held or streamed."""

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch import distributed as dist

from pellucid.data.bad_share import allowed_bad
from pellucid.data.cache import Held, MixedSizesError, hold
from pellucid.data.decode import UnreadableImageError
from pellucid.data.generated import GENERATED, Labels
from pellucid.data.known import cache_folder, open_source
from pellucid.data.pixels import try_pixels
from pellucid.data.source import DataError, Source, first, some
from pellucid.data.stream import Streamed
from pellucid.data.view_parameters import ViewSettings
from pellucid.distributed import rank, world_size

STORED_SIZE = 256
"""The side of the stored images, in pixels, where none is given and they cannot stay as they are:
they differ in size, or are larger than this."""

_PROBED = 16
"""Images whose sizes are looked at before all are decoded."""


class ImageSet:
    """The images of one split, all of one size, with their names and labels.

    Args:
        store: The pixels.
        names: Of the images, unique.
        labels: Class indices, -1 where an image has none; None for a set without labels.
        classes: The class names.
        notes: What was skipped or decided on the way, in words.
        extra: Further labels of every image by name, such as `background` of `scenes`.
    """

    def __init__(
        self,
        store: Held | Streamed,
        names: list[str],
        labels: Int[Tensor, " n"] | None = None,
        classes: tuple[str, ...] | None = None,
        notes: Sequence[str] = (),
        extra: Mapping[str, Labels] | None = None,
    ) -> None:
        self._store = store
        self.names = names
        self.labels = labels
        self.classes = classes
        self.notes = list(notes)
        self.extra = dict(extra or {})

    @classmethod
    def from_pixels(
        cls,
        pixels: UInt8[Tensor, "n 3 H W"],
        labels: Int[Tensor, " n"] | None = None,
        classes: tuple[str, ...] | None = None,
        names: list[str] | None = None,
        extra: Mapping[str, Labels] | None = None,
    ) -> "ImageSet":
        """A set of images that are in memory already."""
        names = names or [str(i) for i in range(len(pixels))]
        return cls(Held(pixels), names, labels, classes, extra=extra)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of the stored images, in pixels."""
        return self._store.image_size

    @property
    def pixels(self) -> UInt8[Tensor, "n 3 H W"] | None:
        """All pixels, for a set that is held; None for one that is streamed."""
        return self._store.pixels if isinstance(self._store, Held) else None

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """The name and the reason of each unreadable image; while streaming, of those met yet.

        A held set has no place for such an image. A streamed one shows the next readable image
        in its place, and sets its label to -1.
        """
        return self._store.skipped

    def on(self, device: torch.device) -> "ImageSet":
        """The same set, on a GPU where it is held and fits; batches are then made there."""
        there = copy.copy(self)
        there._store = self._store.on(device)
        return there

    def batches(self, order: Sequence[Int[Tensor, " _"]]) -> Iterator[UInt8[Tensor, "_ 3 H W"]]:
        """The pixels of each tensor of indices, in order."""
        return self._store.batches(order)

    def crops(
        self,
        order: Sequence[Int[Tensor, " _"]],
        uniform: Callable[[int], Float[Tensor, "2 _ u"]],
        settings: ViewSettings,
    ) -> Iterator[UInt8[Tensor, "_ 3 H W"] | UInt8[Tensor, "2 _ 3 s s"]]:
        """What two views of each tensor of indices are made of.

        For a held set the stored images, as from `batches`. A streamed set gives the crops of
        both views, resized: its readers cut them out of the whole pictures, which the square of
        `batches` is only the centre of.

        Args:
            order: Indices of each batch.
            uniform: For a place in the order, the random numbers of both views (`draw_uniform`).
            settings: Of the views.
        """
        return self._store.crops(order, uniform, settings)

    def hashes(self) -> list[str]:
        """A digest of each image's stored pixels, 16 hexadecimal digits: equal for equal images.

        A streamed set is decoded for it once.
        """
        return self._store.hashes()


def open_images(
    name_or_path: str,
    split: str,
    *,
    root: str | Path | None = None,
    stored_size: int | None = None,
    limit: int | None = None,
    cache_dir: Path | None = None,
    memory_limit_gb: float = 4.0,
    bad_share: float = 0.01,
    strict: bool = False,
    download: bool = False,
    workers: int | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    holdout: float = 0.1,
    seed: int = 0,
) -> ImageSet:
    """The images of one split of a known data set, a folder of images or of parquet files.

    A set of at most `memory_limit_gb` is decoded once, into a file in the cache that later calls
    only map; a larger one is decoded as it is read. With several processes the first one decodes.

    Args:
        name_or_path: See `open_source`, as for root, download, the columns and holdout.
        split: "train" or "test".
        root: Where a known set's files are.
        stored_size: The shorter side is scaled to it and the centre cut out. By default images
            of one size, up to 256 pixels a side, stay as they are, and any others become
            256 x 256.
        limit: Take this many images, the same ones every time.
        cache_dir: Where decoded sets are kept; by default `pellucid` in the user's cache.
        memory_limit_gb: What the decoded pixels may take, in 10^9 bytes.
        bad_share: The share of unreadable images that is skipped; more is an error.
        strict: Refuse any unreadable image, stray file or empty class folder.
        download: Fetch a known set that is not there.
        workers: Threads (held) or processes (streamed) that decode; by default one a CPU, shared
            out over the processes that torchrun starts on a machine.
        image_column: The column of images in parquet files.
        label_column: The column of classes in parquet files.
        holdout: The share of the images that becomes the test split where there is none.
        seed: Of a generated set.

    Raises:
        DataError: the images cannot be found, or too many not read.
    """
    if name_or_path in GENERATED:
        count = limit if split == "train" else None
        made = GENERATED[name_or_path](split, count, stored_size, seed)
        return ImageSet.from_pixels(made.pixels, *made.labels, made.names, made.extra)
    if stored_size is not None and stored_size < 1:
        raise ValueError(f"stored_size must be at least 1 pixel, not {stored_size}")
    if not 0 <= bad_share <= 1:
        raise ValueError(f"bad_share must be a share in [0, 1], not {bad_share}")
    workers = _cpus() if workers is None else workers
    folder = cache_folder(cache_dir)
    with _first_process_first():
        source = open_source(
            name_or_path,
            split,
            root=root,
            image_column=image_column,
            label_column=label_column,
            download=download,
            strict=strict,
            holdout=holdout,
            cache_dir=folder,
        )
        source = first(source, limit)
        size, shape = (stored_size, (stored_size, stored_size)) if stored_size else _size_of(source)
        most_bad = allowed_bad(bad_share, len(source))
        while len(source) * 3 * shape[0] * shape[1] <= memory_limit_gb * 1e9:
            try:
                held = hold(
                    source, shape, size, folder, workers=workers, most_bad=most_bad, strict=strict
                )
            except MixedSizesError:  # beyond the images that were probed
                size, shape = STORED_SIZE, (STORED_SIZE, STORED_SIZE)
                continue
            return _held_set(source, held, _size_notes(size, stored_size, "stored as"))
    labels = None if source.labels is None else source.labels.clone()
    store = Streamed(
        source, shape, size, labels, workers=workers, bad_share=bad_share, strict=strict
    )
    notes = [
        *source.notes,
        *_size_notes(size, stored_size, "evaluated on"),
        "decoded as it is read: beyond memory",
    ]
    return ImageSet(store, source.names, labels, source.classes, notes)


def _held_set(source: Source, held: Held, notes: list[str]) -> ImageSet:
    if not held.kept:
        raise DataError(f"none of {len(source)} images can be read: {some(source.names)}")
    if held.skipped:
        listed = some([f"{name} ({reason})" for name, reason in held.skipped])
        notes = [*notes, f"{len(held.skipped)} unreadable images skipped: {listed}"]
    names = [source.names[i] for i in held.kept]
    labels = None if source.labels is None else source.labels[held.kept]
    return ImageSet(held, names, labels, source.classes, [*source.notes, *notes])


def _size_of(source: Source) -> tuple[int | None, tuple[int, int]]:
    """What to scale to, and the shape that comes of it: from some images' own sizes."""
    shape: tuple[int, int] | None = None
    for i in range(0, len(source), max(1, len(source) // _PROBED)):
        pixels = try_pixels(source, i, None)
        if isinstance(pixels, UnreadableImageError):
            continue
        height, width = pixels.shape[1:]
        if max(height, width) > STORED_SIZE or shape not in (None, (height, width)):
            return STORED_SIZE, (STORED_SIZE, STORED_SIZE)
        shape = (height, width)
    return (STORED_SIZE, (STORED_SIZE, STORED_SIZE)) if shape is None else (None, shape)


def _size_notes(size: int | None, asked: int | None, what: str) -> list[str]:
    if size is None or asked is not None:
        return []
    return [f"images differ in size or are large: {what} {size} x {size} pixels of the centre"]


def _cpus() -> int:
    """This process' share of the CPUs that the machine's processes of one training may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    cpus = len(allowed(0)) if allowed else os.cpu_count() or 1
    return max(1, cpus // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))  # torchrun's


@contextmanager
def _first_process_first() -> Iterator[None]:
    """The first process fills the cache, and the others find it full."""
    if world_size() > 1 and rank() > 0:
        dist.barrier()
    try:
        yield
    finally:
        if world_size() > 1 and rank() == 0:
            dist.barrier()
