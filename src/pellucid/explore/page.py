"""A representation becomes one HTML file that needs nothing else."""

import base64
import hashlib
import json
import math
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from pellucid.explore.content import Statistics, statistics
from pellucid.explore.fit import Fitted, fit, in_base64
from pellucid.explore.health import health
from pellucid.explore.scores import score_rows
from pellucid.representation.feature_scores import scores_of
from pellucid.representation.representation import Representation, same_images
from pellucid.run import RunError
from pellucid.text import valid
from pellucid.train.whole import write_text

BUDGET = 15.0
"""MB (10^6 bytes) of a page: what mail still carries, and a browser opens at once."""
PAGE = "explore.html"
MOST = 65_535
"""Dimensions that the page can number; it keeps them in 16 bits."""
SCRIPTS = (
    *("element", "store", "thumbs", "charts", "format"),
    *("search", "list", "card", "images", "pair", "gate", "classes", "versus", "overview", "main"),
)
"""In the order in which they are put together."""


class Part(NamedTuple):
    """What takes room in the file."""

    name: str
    size: int


class Written(NamedTuple):
    """A page on disk."""

    path: Path
    parts: list[Part]
    """They sum to the file's size."""
    images: int
    total: int
    side: int | None
    """Longer side of the thumbnails, in pixels; None without."""


def explore(
    representation: Representation,
    out: Path | None = None,
    *,
    other: Representation | None = None,
    budget: float = BUDGET,
    most: int | None = None,
    pictures: bool = True,
    file_names: bool = True,
    say: Callable[[str], None] = print,
) -> Written:
    """Write the page; the same representation gives the same bytes.

    Args:
        representation: an evaluated run or a file of features.
        out: the file to write; by default `explore.html` in the run directory, or beside the file.
        other: a second representation of the same images, whose dimensions are matched.
        budget: MB that the file may have.
        most: images that may be embedded; all that fit by default.
        pictures: whether thumbnails are embedded.
        file_names: whether names of files are written down.
        say: takes a line for the user.

    Raises:
        RunError: the two are of different images, or nothing fits into the budget.
    """
    out = out or default_page(representation)
    if not (math.isfinite(budget) and budget > 0):
        raise RunError(f"--budget must be a number of MB above 0, not {budget}")
    if representation.z.shape[1] > MOST:
        raise RunError(
            f"{representation.label} has {representation.z.shape[1]:,} dimensions; "
            f"a page holds at most {MOST:,}: choose some of the columns"
        )
    if other is not None:
        same_images(representation, other)
    say(f"{valid(representation.label)}: statistics of {len(representation.z):,} images")
    counted = statistics(representation)
    code, style = script(), read("page.css")
    frame = len(code.encode()) + len(style.encode()) + 60_000  # and the first page, as text
    held = fit(
        representation,
        counted,
        other,
        room=int(budget * 1e6) - frame,
        most=most,
        pictures=pictures,
        file_names=file_names,
    )
    text = render(representation, counted, held, other, code=code, style=style, names=file_names)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, valid(text))
    written = _parts(out, held, code, style)
    for line in report(written):
        say(line)
    return written


def render(
    representation: Representation,
    counted: Statistics,
    held: Fitted,
    other: Representation | None,
    *,
    code: str,
    style: str,
    names: bool,
) -> str:
    """The whole text of the page."""
    pictures = held.thumbnails
    shape = {
        "entries": held.entries.entries,
        "gated": representation.closed is not None,
        "signed": held.entries.signed,
        "lengths": None if pictures is None else pictures.lengths,
    }
    environment = Environment(
        loader=PackageLoader("pellucid.explore", "static"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["digest"] = digest
    return environment.get_template("page.html.j2").render(
        code=code,
        style=style,
        title=valid(representation.label),
        tree=held.tree,
        health=health(representation.z, counted.found),
        rows=score_rows(
            scores_of(representation),
            None if other is None else scores_of(other),
            labelled=held.tree["classes"] is not None,
        ),
        notes=_notes(representation, other) if names else [],
        other=None if other is None else valid(other.label),
        facts=facts(representation),
        is_run=representation.run is not None,
        gated=representation.gate is not None,
        images=len(held.images),
        total=len(representation.z),
        side=None if pictures is None else pictures.side,
        file_names=names,
        content=_text(held.content),
        shape=_text(json.dumps(shape, separators=(",", ":")).encode()),
        entries=_text(held.entries.data),
        thumbnails="" if pictures is None else _text(pictures.data),
    )


def _notes(representation: Representation, other: Representation | None) -> list[str]:
    """What was left out or assumed, in words, which may name files."""
    own = [*representation.notes, *(representation.scores or {}).get("notes", [])]
    theirs = [] if other is None else [f"{other.label}: {note}" for note in other.notes]
    return [valid(note) for note in [*own, *theirs]]


def facts(representation: Representation) -> list[str]:
    """What the header says of where the numbers come from."""
    run, scores = representation.run, representation.scores or {}
    if run is None:
        return [f"{representation.z.shape[1]} dimensions", "features from a file"]
    settings: dict[str, Any] = scores.get("settings") or {}
    step = [f"step {scores['step']:,}"] if "step" in scores else []
    return [
        run.recipe.method,
        f"data {valid(Path(run.recipe.data.source).name)}",
        f"seed {run.recipe.train.seed}",
        *step,
        f"encoder {run.recipe.encoder.name}",
        f"{representation.z.shape[1]} dimensions",
        f"{settings.get('scored_split', 'scored')} images",
    ]


def default_page(representation: Representation) -> Path:
    """Where a page is written when nothing is said."""
    origin = representation.origin
    return origin / PAGE if origin.is_dir() else origin.with_name(f"{origin.stem}.{PAGE}")


def read(name: str) -> str:
    """A file that the page is made of."""
    return (resources.files("pellucid.explore") / "static" / name).read_text("utf-8")


def script() -> str:
    """All scripts as one, in a scope of its own."""
    body = "\n".join(read(f"{name}.js") for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{body}}})();\n'


def digest(text: str) -> str:
    """What a content-security policy calls a script or style by."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def report(written: Written) -> list[str]:
    """What was written, in words: images, bytes by part, the path."""
    size = sum(part.size for part in written.parts)
    some = f"{written.images:,} of {written.total:,} images"
    pictures = "no thumbnails" if written.side is None else f"thumbnails of {written.side} px"
    parts = ", ".join(f"{part.name} {part.size / 1e6:.2f}" for part in written.parts)
    return [f"{some}, {pictures}; {size / 1e6:.2f} MB ({parts})", f"written to {written.path}"]


def _parts(out: Path, held: Fitted, code: str, style: str) -> Written:
    pictures = held.thumbnails
    parts = [
        Part("thumbnails", 0 if pictures is None else in_base64(pictures.data)),
        Part("activations", in_base64(held.entries.data)),
        Part("statistics and names", in_base64(held.content)),
        Part("code and style", len(code.encode()) + len(style.encode())),
    ]
    rest = out.stat().st_size - sum(part.size for part in parts)
    return Written(
        path=out,
        parts=[*parts, Part("first page", rest)],
        images=len(held.images),
        total=int(held.tree["total"]),
        side=None if pictures is None else pictures.side,
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
