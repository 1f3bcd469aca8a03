"""Answers as files: PNG or HTML by their ending, whole or not at all."""

import base64
import hashlib
import io
from importlib import resources
from pathlib import Path
from typing import Any

from jaxtyping import UInt8
from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image
from torch import Tensor

from pellucid.run import RunError
from pellucid.text import valid
from pellucid.train.whole import write_text

ENDINGS = (".png", ".html")


def checked_out(out: Path | None) -> None:
    """Check where an answer is to be written, before any work.

    Raises:
        RunError: it ends neither in .png nor in .html, or is a folder.
    """
    if out is None:
        return
    if out.suffix.lower() not in ENDINGS:
        raise RunError(f"--out takes a file that ends in .png or .html, not {out}")
    if out.is_dir():
        raise RunError(f"{out} is a folder: --out takes a file")


def is_page(out: Path) -> bool:
    """Whether the file is to be HTML."""
    return out.suffix.lower() == ".html"


def write_page(out: Path, template: str, **content: Any) -> None:
    """Write an answer as one HTML file that loads nothing and runs nothing.

    Args:
        out: the file.
        template: its name in `templates`.
        content: what the template shows; text is escaped.
    """
    style = resources.files("pellucid.answer").joinpath("templates/answer.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment = Environment(
        loader=PackageLoader("pellucid.answer", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["valid"] = valid
    text = environment.get_template(template).render(style=style, digest=digest, **content)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, valid(text))


def data_uri(pixels: UInt8[Tensor, "3 h w"]) -> str:
    """An image as the address of itself: a PNG made of its pixels alone."""
    file = io.BytesIO()
    Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy()).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
