"""The recipe: every setting of a run, resolved and checked before any data is read."""

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pellucid.data.views import ViewSettings
from pellucid.frameworks import FRAMEWORKS
from pellucid.heads import HEADS
from pellucid.query_transforms import QUERY_TRANSFORMS
from pellucid.regularisers import REGULARISERS
from pellucid.sections import (
    DataSettings,
    EncoderSettings,
    EvaluationSettings,
    ProjectorSettings,
)
from pellucid.settings import Choice, RecipeError, checked, coerce, parse_value, unknown
from pellucid.train.optimisers import OPTIMISERS
from pellucid.train.plan import Plan

TREE = dict[str, Any]
PAPER = "paper"


@dataclass(frozen=True)
class Recipe:
    """Every setting of a run. Sections of a TOML overlay carry these names."""

    method: str
    data: DataSettings
    views: ViewSettings
    encoder: EncoderSettings
    projector: ProjectorSettings
    head: Choice
    framework: Choice
    query_transform: Choice
    regularisers: Mapping[str, Mapping[str, Any]]  # settings of those whose term has a weight
    optimiser: Choice
    lr: float
    lr_of: Mapping[str, float]
    weight_decay: float
    weights: Mapping[str, float]
    train: Plan
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)

    def as_tree(self) -> TREE:
        """Plain JSON values that `resolve` reads back."""
        tree = dataclasses.asdict(self)
        for name in TABLES:
            choice = getattr(self, name)
            tree[name] = {"name": choice.name, **choice.settings}
        return tree


SECTIONS: dict[str, Any] = {
    "data": DataSettings,
    "views": ViewSettings,
    "encoder": EncoderSettings,
    "projector": ProjectorSettings,
    "train": Plan,
    "evaluation": EvaluationSettings,
}
TABLES: dict[str, Mapping[str, Any]] = {
    "head": HEADS,
    "framework": FRAMEWORKS,
    "query_transform": QUERY_TRANSFORMS,
    "optimiser": OPTIMISERS,
}
NUMBERS = {"lr": 0.4, "weight_decay": 1e-4}
NUMBER_MAPS = ("lr_of", "weights")
DEFAULTS: TREE = {
    "framework": {"name": "simclr"},
    "query_transform": {"name": "unchanged"},
    "optimiser": {"name": "lars"},
    "weights": {"contrast": 1.0},
}


def overlay(base: TREE, top: Mapping[str, Any]) -> TREE:
    """The base with the top's values in their places; another `name` drops the old settings."""
    merged = dict(base)
    for key, value in top.items():
        old = merged.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            renamed = "name" in value and value["name"] != old.get("name") and "name" in old
            merged[key] = overlay({} if renamed else dict(old), value)
        else:
            merged[key] = value
    return merged


def resolve(tree: Mapping[str, Any]) -> Recipe:
    """A checked recipe from nested values.

    Raises:
        RecipeError: naming the key or value, and the near and the valid ones.
    """
    valid = ["method", *SECTIONS, *TABLES, "regularisers", *NUMBERS, *NUMBER_MAPS]
    for key in tree:
        if key not in valid:
            raise unknown("key", key, valid)
    tree = overlay(DEFAULTS, tree)
    for key in (*SECTIONS, *TABLES, "regularisers", *NUMBER_MAPS):
        if not isinstance(tree.get(key, {}), Mapping):
            raise RecipeError(f"{key} is a section: set {key}.NAME=VALUE")
    parts: TREE = {"method": coerce(tree.get("method", "custom"), str, "method")}
    for name, kind in SECTIONS.items():
        try:
            parts[name] = kind(**checked(tree.get(name, {}), kind, name))
        except RecipeError:
            raise
        except ValueError as error:
            raise RecipeError(f"{name}: {error}") from error
    for name, table in TABLES.items():
        parts[name] = Choice.of(tree.get(name, {}), table, name)
    for name, default in NUMBERS.items():
        parts[name] = _at_least_0(coerce(tree.get(name, default), float, name), name)
    for name in NUMBER_MAPS:
        given = tree.get(name, {}).items()
        numbers = {key: coerce(value, float | None, f"{name}.{key}") for key, value in given}
        parts[name] = {
            key: _at_least_0(value, f"{name}.{key}")
            for key, value in numbers.items()
            if value is not None
        }
    parts["regularisers"] = _regularisers(tree.get("regularisers", {}), parts["weights"])
    return Recipe(**parts)


def _at_least_0(value: float, key: str) -> float:
    # A negative weight would maximise what its term says is to be minimised.
    if value < 0:
        raise RecipeError(f"{key} must be at least 0, got {value}")
    return value


def _regularisers(given: TREE, weights: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """Settings of the regularisers that are on: those whose term has a weight."""
    for name, settings in given.items():
        if name not in REGULARISERS:
            raise unknown("regulariser", name, REGULARISERS)
        if not isinstance(settings, Mapping):
            raise RecipeError(
                f"regularisers.{name} is a section: set regularisers.{name}.KEY=VALUE"
            )
        if settings and name not in weights:
            raise RecipeError(
                f"regularisers.{name} is set, and {name} is off: set weights.{name}=NUMBER too"
            )
    return {
        name: checked(given.get(name, {}), REGULARISERS[name], f"regularisers.{name}")
        for name in REGULARISERS
        if name in weights
    }


def names(kind: Literal["methods", "data", "sizes"]) -> list[str]:
    """Names of the recipes that ship with the package."""
    folder = resources.files("pellucid") / "recipes" / kind
    return sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name[-5:] == ".toml")


def read_overlay(kind: Literal["methods", "data", "sizes"], name: str) -> TREE:
    """One overlay that ships with the package; its `[for.METHOD]` tables are still in it."""
    if name not in names(kind):
        raise unknown({"methods": "method", "sizes": "size"}.get(kind, kind), name, names(kind))
    text = (resources.files("pellucid") / "recipes" / kind / f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)


def compose(method: str, data: str, size: str = PAPER, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of a method on a data set at a size, with overrides.

    Later overlays win: defaults (the settings that the authors use on CIFAR), method, data, size,
    overrides. A table `[for.METHOD]` of a data or size overlay holds for that method only.

    Args:
        method: a name of `recipe.names("methods")`.
        data: a name of `recipe.names("data")`, or a path to images or parquet files.
        size: a name of `recipe.names("sizes")`.
        overrides: texts `section.key=value`.

    Raises:
        RecipeError: naming what is unknown, and the near and the valid ones.
    """
    tree: TREE = {"method": method}
    layers = [read_overlay("methods", method)]
    if data in names("data"):
        layers.append(read_overlay("data", data))
    elif Path(data).exists():
        layers.append({"data": {"source": data}})
    else:
        raise unknown("data set or path", data, names("data"))
    layers.append(read_overlay("sizes", size))
    for layer in layers:
        for_methods = layer.pop("for", {})
        if missing := for_methods.keys() - set(names("methods")):
            raise unknown("method in [for.…]", min(missing), names("methods"))
        tree = overlay(overlay(tree, layer), for_methods.get(method, {}))
    for text in overrides:
        tree = overlay(tree, parse_override(text))
    return resolve(tree)


def parse_override(text: str) -> TREE:
    """`head.prior=0.3` as a nested tree; below `weights` and `lr_of` the rest is one key."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise RecipeError(f"{text!r} is no setting; write section.key=value, e.g. train.epochs=10")
    section, dot, rest = key.partition(".")
    if not dot:
        return {section: parse_value(value)}
    if section in NUMBER_MAPS:
        return {section: {rest: parse_value(value)}}
    tree: TREE = {section: {}}
    inner = tree[section]
    *parents, last = rest.split(".")
    for parent in parents:
        inner[parent] = inner = {}
    inner[last] = parse_value(value)
    return tree
