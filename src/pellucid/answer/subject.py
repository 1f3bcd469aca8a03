"""An image that a question is about: one of a representation, or a file."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from pellucid.answer.words import class_of
from pellucid.data.decode import UnreadableImageError, decode_square
from pellucid.data.image_set import STORED_SIZE, ImageSet
from pellucid.data.pixels import content_hash
from pellucid.evaluate.evaluation import evaluation_precision
from pellucid.evaluate.extract import extract
from pellucid.evaluate.store import LARGEST
from pellucid.representation.representation import Representation
from pellucid.run import Run, RunError
from pellucid.text import one_line
from pellucid.train.device import pick_device


@dataclass(frozen=True, eq=False)
class Subject:
    """An image with its row of the representation."""

    name: str
    z: Float[Tensor, " k"]
    closed: bool
    """The gates took all that there was: z is zero because of them."""
    index: int | None = None
    """Its place in the representation; None for another image."""
    label: str | None = None
    """The name of its class, where it is known."""
    pixels: UInt8[Tensor, "3 h w"] | None = None
    """As stored, of an image that is not in the representation."""
    given: str | None = None
    """The file that was given, where it is an image of the representation."""


def find(representation: Representation, image: str, device: str = "auto") -> Subject:
    """The image that a name, a number from 0 or the path of a file stands for.

    A name or a number of the representation is taken first: a file of that name is given as
    `./name`. A file with the pixels of an image that was evaluated is that image; any other goes
    through the run's branch as evaluation would have sent it.

    Args:
        representation: in whose dimensions.
        image: what was given.
        device: where the branch runs: `auto`, `cpu`, `cuda` or `cuda:N`.

    Raises:
        RunError: there is no such image, it cannot be read, or there is no model for it.
    """
    path = Path(image)
    try:
        return _of_index(representation, representation.position(image))
    except RunError:
        if not path.is_file():
            raise
    try:
        data = path.read_bytes()
        for size in _sizes(representation.run):
            index = _same_pixels(representation, _decoded(data, image, size))
            if index is not None:
                return replace(_of_index(representation, index), given=path.name)
        if representation.run is None:
            raise RunError(
                f"{representation.label} is a file of features without the model that made them, "
                f"so {image} has no row in it: give a number from 0 to "
                f"{len(representation.names) - 1}, a name, or an evaluated run in its place"
            )
        pixels = stored_pixels(representation, data, image)
    except (UnreadableImageError, OSError) as error:
        raise RunError(f"the image cannot be read: {error}") from error
    return embed(representation, pixels, path.name, device)


def stored_pixels(representation: Representation, data: bytes, name: str) -> UInt8[Tensor, "3 h w"]:
    """An encoded image as the run's set would have stored it.

    Raises:
        UnreadableImageError: it cannot be decoded.
    """
    size = representation.run.recipe.data.stored_size if representation.run else None
    if size is None and representation.thumbnails is not None:
        height, width = representation.thumbnails().shape[-2:]
        # Thumbnails below their largest size are the stored images themselves.
        size = height if height == width and height < LARGEST else None
        if size is not None and _decoded(data, name, None).shape[1:] == (size, size):
            size = None
    pixels = _decoded(data, name, size)
    if size is None and max(pixels.shape[1:]) > STORED_SIZE:
        pixels = _decoded(data, name, STORED_SIZE)
    return torch.from_numpy(pixels)


def embed(
    representation: Representation, pixels: UInt8[Tensor, "3 h w"], name: str, device: str
) -> Subject:
    """A stored image through the branch of the representation's run, as in evaluation.

    Raises:
        RunError: the run has no checkpoint, or was trained on since it was evaluated.
    """
    run = representation.run
    assert run is not None
    branch, step = run.trained_branch()
    evaluated = (representation.scores or {}).get("step", step)
    if evaluated != step:
        raise RunError(
            f"{run.folder} was evaluated at step {evaluated} and now stands at step {step}, so "
            f"{name} would be compared across models: run `pellucid evaluate {run.folder}` again"
        )
    where = pick_device(device)
    found = extract(
        branch,
        run.preprocess,
        ImageSet.from_pixels(pixels[None]),
        device=where,
        precision=evaluation_precision(run.recipe, where),
    )
    taken = found.gate is not None and bool(found.ungated.any())
    return Subject(name, found.z[0], taken and not bool(found.z.any()), pixels=pixels)


def described(subject: Subject) -> str:
    """Which image a subject is, on one line."""
    parts = [one_line(subject.name)]
    if subject.index is not None:
        parts.append(f"image {subject.index}")
    if subject.label is not None:
        parts.append(one_line(subject.label))
    if subject.given is not None:
        parts.append(f"the same pixels as {one_line(subject.given)}")
    return ", ".join(parts)


def _of_index(representation: Representation, index: int) -> Subject:
    z, ungated = representation.z[index], representation.ungated
    taken = ungated is not None and bool(ungated[index].any())
    return Subject(
        name=representation.names[index],
        z=z,
        closed=taken and not bool(z.any()),
        index=index,
        label=class_of(representation, index),
    )


def _sizes(run: Run | None) -> tuple[int | None, ...]:
    """What the images of the set may have been scaled to."""
    asked = run.recipe.data.stored_size if run else None
    return (None, STORED_SIZE) if asked is None else (asked,)


def _same_pixels(representation: Representation, pixels: np.ndarray) -> int | None:
    digest, hashes = content_hash(pixels), representation.hashes or []
    return hashes.index(digest) if digest in hashes else None


def _decoded(data: bytes, name: str, size: int | None) -> UInt8[np.ndarray, "3 h w"]:
    square = decode_square(data, name, size)
    return np.ascontiguousarray(square.transpose(2, 0, 1))
