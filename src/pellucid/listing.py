"""What a user may name, with a line about each."""

import inspect
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any, get_args

import timm

from pellucid.frameworks import FRAMEWORKS
from pellucid.heads import HEADS
from pellucid.nets.encoders import THIN
from pellucid.query_transforms import QUERY_TRANSFORMS
from pellucid.recipe import names
from pellucid.regularisers import REGULARISERS
from pellucid.settings import fields_of, unknown
from pellucid.train.optimisers import OPTIMISERS

TABLES: dict[str, Mapping[str, Callable[..., Any]]] = {
    "heads": HEADS,
    "frameworks": FRAMEWORKS,
    "transforms": QUERY_TRANSFORMS,
    "regularisers": REGULARISERS,
    "optimisers": OPTIMISERS,
}


def describe(kind: str) -> list[tuple[str, str]]:
    """Name and a line about every entry of a kind: recipes, a table of builders, or encoders."""
    if kind in TABLES:
        return [(name, _of_builder(builder)) for name, builder in TABLES[kind].items()]
    if kind in ("methods", "data", "sizes"):
        return [(name, _of_recipe(kind, name)) for name in names(kind)]  # type: ignore[arg-type]
    if kind == "encoders":
        return [(THIN, "ResNet-18, 16 wide"), *((name, "timm") for name in timm.list_models())]
    raise unknown("kind", kind, [*TABLES, "methods", "data", "sizes", "encoders"])


def _of_builder(builder: Callable[..., Any]) -> str:
    about = (inspect.getdoc(builder) or "").partition("\n")[0]
    settings = ", ".join(
        f"{name}={'|'.join(map(str, get_args(hint))) or default}"
        for name, (hint, default) in fields_of(builder).items()
    )
    return f"{about} [{settings}]" if settings else about


def _of_recipe(kind: str, name: str) -> str:
    text = resources.files("pellucid") / "recipes" / kind / f"{name}.toml"
    return text.read_text("utf-8").partition("\n")[0].removeprefix("# ")
