"""A set that fits in memory: decoded once, in parallel, into a file that is memory-mapped."""

import json
import shutil
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from jaxtyping import Int, UInt8
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from pellucid.data.bad_share import refuse_bad
from pellucid.data.decode import UnreadableImageError
from pellucid.data.pixels import content_hash, try_pixels
from pellucid.data.remember import forget
from pellucid.data.source import DataError, Source, fingerprint
from pellucid.data.view_parameters import ViewSettings
from pellucid.locks import in_turn
from pellucid.transfer import send

FORMAT = 1
"""Raise when pixels would come out otherwise, or the files' layout changes."""

_BLOCK = 64
"""Images that a thread decodes at a time."""

_Decoded = np.ndarray | UnreadableImageError


class MixedSizesError(Exception):
    """Images of another size than the first ones, in a set to be kept at its own size."""


class Held:
    """Decoded images in memory, or in a memory-mapped file."""

    def __init__(
        self,
        pixels: UInt8[Tensor, "n 3 H W"],
        hashes: list[str] | None = None,
        kept: list[int] | None = None,
        skipped: list[tuple[str, str]] | None = None,
    ) -> None:
        self.pixels = pixels
        self.kept = list(range(len(pixels))) if kept is None else kept
        self.skipped = skipped or []
        self.image_size = (pixels.shape[2], pixels.shape[3])
        self._hashes = hashes

    def on(self, device: torch.device) -> "Held":
        """The same images on a GPU, if an eighth of its free memory holds them; else these."""
        if device.type != "cuda" or self.pixels.nbytes > torch.cuda.mem_get_info(device)[0] // 8:
            return self  # activations need the memory, and are not there yet
        return Held(self.pixels.to(device), self._hashes, self.kept, self.skipped)

    def batches(self, order: Sequence[Int[Tensor, " _"]]) -> Iterator[UInt8[Tensor, "_ 3 H W"]]:
        """The pixels of each tensor of indices, as copies."""
        for indices in order:
            yield self.pixels[send(indices, self.pixels.device)]

    def crops(
        self,
        order: Sequence[Int[Tensor, " _"]],
        uniform: Callable[[int], Tensor],
        settings: ViewSettings,
    ) -> Iterator[UInt8[Tensor, "_ 3 H W"]]:
        """The whole images: cutting them is little work beside a step, and left to its device."""
        del uniform, settings
        return self.batches(order)

    def hashes(self) -> list[str]:
        """A digest of the pixels of each image."""
        if self._hashes is None:
            self._hashes = [content_hash(image) for image in self.pixels.cpu().numpy()]
        return self._hashes


def hold(
    source: Source,
    shape: tuple[int, int],
    size: int | None,
    folder: Path,
    *,
    workers: int,
    most_bad: int,
    strict: bool,
) -> Held:
    """The whole of a source, from the cache or decoded into it.

    Args:
        source: What to decode.
        shape: Height and width of the decoded images.
        size: What `to_square` scales to; None keeps images, which must be of `shape`.
        folder: Of the cache.
        workers: Threads that decode; Pillow lets go of the interpreter while it does.
        most_bad: Unreadable images that are borne.
        strict: Give up at the first.

    Raises:
        DataError: too many images are unreadable, or the disk is full.
        MixedSizesError: `size` is None and an image has another shape.
    """
    key = fingerprint([source.fingerprint, str(size), str(FORMAT)])
    array, sidecar = folder / f"{key}.npy", folder / f"{key}.json"
    held = _load(array, sidecar, key)
    if held is None:
        mixed = folder / f"{key}.mixed"  # so that the next start need not find out again
        folder.mkdir(parents=True, exist_ok=True)
        with in_turn(folder / f"{key}.lock", "decodes the same images"):
            if mixed.exists():
                raise MixedSizesError
            held = _load(array, sidecar, key)  # another process may have been at it
            if held is None:
                try:
                    _decode_all(source, shape, size, (array, sidecar), key, workers, strict)
                except MixedSizesError:
                    mixed.touch()
                    raise
                held = _load(array, sidecar, key)
        if held is None:
            raise DataError(f"{array} was damaged while it was written: give another cache_dir")
    if held.skipped:
        forget(folder)  # they may be mended under their names, which a kept listing does not see
    # At the end: whoever mends a set wants to know of all bad files, and what was decoded is kept.
    refuse_bad(held.skipped, 0 if strict else most_bad, len(source))
    return held


def _load(array: Path, sidecar: Path, key: str) -> Held | None:
    """What the cache holds, or None if it is missing, damaged or another's."""
    try:
        facts = json.loads(sidecar.read_text())
        # Copy on write: PyTorch wants memory that it may write to, and the file must stay.
        pixels = np.load(array, mmap_mode="c")
        if facts["key"] != key or list(pixels.shape) != facts["shape"] or pixels.dtype != np.uint8:
            return None
        hashes: list[str] = facts["hashes"]
        for i in range(0, len(pixels), max(1, len(pixels) // 16)):  # a lost block, for little time
            if content_hash(pixels[i]) != hashes[i]:
                return None
        skipped = [(name, reason) for name, reason in facts["skipped"]]
        return Held(torch.from_numpy(pixels), hashes, facts["kept"], skipped)
    except (OSError, ValueError, KeyError, TypeError, IndexError, EOFError):
        return None


def _decode_all(
    source: Source,
    shape: tuple[int, int],
    size: int | None,
    files: tuple[Path, Path],
    key: str,
    workers: int,
    strict: bool,
) -> None:
    """Write the pixels and what is known of them: under other names first, so never half."""
    array = files[0]
    total, kept, hashes = len(source), list[int](), list[str]()
    skipped: list[tuple[str, str]] = []
    needed, free = total * 3 * shape[0] * shape[1], shutil.disk_usage(array.parent).free
    if needed > free:
        raise DataError(
            f"the decoded images need {needed / 1e9:.1f} GB and {array.parent} has "
            f"{free / 1e9:.1f}: give another cache_dir, or a smaller stored_size or memory_limit_gb"
        )
    unfinished = [path.with_suffix(f"{path.suffix}.writing") for path in files]
    try:
        with unfinished[0].open("wb") as out, closing(_decoded(source, size, workers)) as images:
            start = _write_header(out, (total, 3, *shape))
            for index, pixels in enumerate(images):
                if isinstance(pixels, UnreadableImageError):
                    skipped.append((pixels.name, pixels.reason))
                    refuse_bad(skipped, 0 if strict else total, total)
                    continue
                if pixels.shape[1:] != shape:
                    raise MixedSizesError(source.names[index])
                kept.append(index)
                hashes.append(content_hash(pixels))
                out.write(pixels.tobytes())
            out.seek(0)
            # NumPy's headers leave room for a first axis of any length.
            if _write_header(out, (len(kept), 3, *shape)) != start:
                raise AssertionError("the header grew into the pixels")
        facts = {
            "format": FORMAT,
            "key": key,
            "fingerprint": source.fingerprint,
            "shape": [len(kept), 3, *shape],
            "names": [source.names[i] for i in kept],
            "labels": None if source.labels is None else source.labels[kept].tolist(),
            "classes": source.classes,
            "kept": kept,
            "skipped": skipped,
            "hashes": hashes,
        }
        unfinished[1].write_text(json.dumps(facts))
        for path, final in zip(unfinished, files, strict=True):
            path.replace(final)
    finally:
        for path in unfinished:
            path.unlink(missing_ok=True)


def _write_header(out: BinaryIO, shape: tuple[int, ...]) -> int:
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, header)
    return out.tell()


def _decoded(source: Source, size: int | None, workers: int) -> Generator[_Decoded]:
    """Every image of a source in order, with a bar; threads decode a few blocks ahead."""

    def block(start: int) -> list[_Decoded]:
        return [try_pixels(source, i, size) for i in range(start, min(start + _BLOCK, len(source)))]

    console = Console(stderr=True)
    with (
        # Filters of warnings belong to the process: threads that each set and reset them would
        # leave them changed, so the outermost reset is made here.
        warnings.catch_warnings(),
        _bar(console) as bar,
        ThreadPoolExecutor(workers) as pool,
    ):
        warnings.simplefilter("ignore")
        task = bar.add_task("decoding", total=len(source))
        starts = iter(range(0, len(source), _BLOCK))
        ahead = deque(pool.submit(block, start) for start in islice(starts, 4 * workers))
        try:
            while ahead:
                images = ahead.popleft().result()
                ahead.extend(pool.submit(block, start) for start in islice(starts, 1))
                yield from images
                bar.advance(task, len(images))
        finally:
            for future in ahead:  # the reader gave up
                future.cancel()


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    hidden = not console.is_terminal
    return Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=hidden
    )
