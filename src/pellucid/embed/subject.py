"""Which images are embedded."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.build import source_settings
from pellucid.data.generated import GENERATED
from pellucid.data.image_set import ImageSet, open_images
from pellucid.data.known import KNOWN, open_source
from pellucid.data.source import NoHeldOutError, fingerprint
from pellucid.recipe import Recipe


@dataclass(frozen=True)
class Wanted:
    """The images that were asked for."""

    data: str
    """A known name, or a path to images or parquet files."""
    root: str | None = None
    """Where a known set's files are, or what a path is relative to."""
    split: str | None = None
    """`train` or `test`; None for the test split, or for all images where there is one split."""
    image_column: str | None = None
    label_column: str | None = None
    """Of parquet files."""
    bad_share: float | None = None
    """The share of unreadable images that is left out; more is an error. None for the run's."""
    download: bool = False
    """A known set may be fetched by torchvision."""
    strict: bool = False
    """Refuse at the first file that would otherwise be left out."""


@dataclass(frozen=True, eq=False)
class Subject:
    """The images that are embedded, all of one split."""

    images: ImageSet
    data: str
    """The known name, or the last component of the path."""
    split: str
    """`train` or `test`; `all` for a set that has one split."""
    digest: str
    """Changes with the images, their order, names or labels. Of a set that is held it is of the
    pixels, and does not change with the place of the files."""
    place: str
    """The folder of the files with a slash behind it, which reasons in words may hold."""


def open_subject(recipe: Recipe, wanted: Wanted) -> Subject:
    """The images of a set, stored as the recipe's own are.

    Args:
        recipe: whose stored size, memory limit and share of unreadable images hold; and, for its
            own set, whose root and columns.
        wanted: which images.

    Raises:
        DataError: they cannot be found, there is no such split, or too many are unreadable.
    """
    data, settings = wanted.data, source_settings(recipe)
    if data != recipe.data.source:
        settings |= {"root": None, "image_column": None, "label_column": None}
    for name in ("root", "image_column", "label_column", "bad_share"):
        given = getattr(wanted, name)
        settings[name] = settings[name] if given is None else given
    settings |= {"name_or_path": data, "holdout": 0.0, "strict": wanted.strict}
    finding = ("name_or_path", "root", "image_column", "label_column", "holdout", "strict")
    listing = {name: settings[name] for name in finding}
    several = _has_test(data, listing)
    split = wanted.split or ("test" if several else "train")
    images = open_images(split=split, download=wanted.download, **settings)
    known = data in KNOWN or data in GENERATED
    root = Path(settings["root"] or "").expanduser()
    path = root if known else root / Path(data).expanduser()
    return Subject(
        images=images,
        data=data if known else path.resolve().name,
        split=split if several else "all",
        digest=_digest(images, split, listing),
        place=f"{path}/",
    )


def _has_test(data: str, listing: dict[str, Any]) -> bool:
    """Whether a set has a test split of its own."""
    if data in GENERATED or (data in KNOWN and KNOWN[data].torchvision is not None):
        return True
    try:
        open_source(split="test", **listing)
    except NoHeldOutError:
        return False
    return True


def _digest(images: ImageSet, split: str, listing: dict[str, Any]) -> str:
    classes, labels = images.classes or (), images.labels
    indices = [] if labels is None else map(str, labels.tolist())
    if images.pixels is not None:
        return fingerprint([*images.names, *classes, *indices, *images.hashes()])
    # Sizes and times of the files stand for the pixels, which are not decoded yet.
    return fingerprint([*images.names, open_source(split=split, **listing).fingerprint])
