"""A run directory: what was asked, and the branch that came of it."""

import dataclasses
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxtyping import Float, UInt8
from torch import Tensor

from pellucid.branch import Branch
from pellucid.build import build_branch, build_learner
from pellucid.data.views import normalise, plain_views
from pellucid.learner import Learner
from pellucid.recipe import Recipe, resolve
from pellucid.text import read_json
from pellucid.train import checkpoint
from pellucid.train.whole import write_text

RECIPE = "recipe.json"
ENVIRONMENT = "environment.json"
FEATURES = "features"
SCORES = "scores.json"

Preprocess = Callable[[UInt8[Tensor, "b 3 h w"]], Float[Tensor, "b 3 s s"]]


class RunError(RuntimeError):
    """A run directory that cannot be used; the message names it and says what would be right."""


@dataclass(frozen=True)
class Run:
    """A run directory with its recipe."""

    folder: Path
    recipe: Recipe

    @property
    def name(self) -> str:
        """The directory's name: how tables call the run."""
        return self.folder.resolve().name

    def trained_learner(self) -> tuple[Learner, int]:
        """The learner of the newest checkpoint in eval mode, and the steps that it was trained for.

        Raises:
            RunError: there is no checkpoint yet.
        """
        saved = checkpoint.newest(self.folder)
        if saved is None:
            raise RunError(f"{self.folder} holds no checkpoint yet: run `pellucid pretrain` first")
        learner = build_learner(self.recipe)
        checkpoint.load_learner(learner, saved[1])
        return learner.eval(), saved[0]

    def trained_branch(self) -> tuple[Branch, int]:
        """The branch of the newest checkpoint in eval mode, and the steps that it was trained for.

        Raises:
            RunError: there is no checkpoint yet.
        """
        learner, step = self.trained_learner()
        return learner.framework.online, step

    def untrained_branch(self) -> Branch:
        """The branch as it was before the first step, in eval mode."""
        return build_branch(self.recipe).eval()

    def preprocess(self, images: UInt8[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 s s"]:
        """Pixels as the encoder takes them in evaluation: resized, normalised, unaugmented."""
        data = self.recipe.data
        return normalise(plain_views(images, self.recipe.views.size), data.mean, data.std)


def claim(folder: Path, recipe: Recipe) -> Recipe:
    """What a run of this recipe in this directory would train; writes nothing.

    That is the recipe itself, but for a precision `auto` that an earlier start resolved.

    Raises:
        RunError: the directory holds another recipe, or other files.
    """
    path = folder / RECIPE
    if path.exists():
        return _same(path, recipe)
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file; --out takes a new or an unfinished run directory")
    # A start that was killed at once leaves a lock, and perhaps half a file under another name.
    if folder.exists() and any(path.name[:1] != "." for path in folder.iterdir()):
        raise RunError(f"{folder} is not empty and holds no {RECIPE}; choose another --out")
    return recipe


def start_run(folder: Path, recipe: Recipe) -> Run:
    """Make a run directory, or take up one of the same recipe.

    Raises:
        RunError: the directory holds another recipe, or other files.
    """
    recipe = claim(folder, recipe)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / RECIPE).exists():
        text = json.dumps(recipe.as_tree(), indent=1)  # ASCII: a path need not be valid Unicode
        write_text(folder / RECIPE, text)
    return Run(folder, recipe)


def open_run(folder: Path | str) -> Run:
    """Open a run directory that `pellucid pretrain` made.

    Raises:
        RunError: it is none.
    """
    folder = Path(folder)
    path = folder / RECIPE
    if not path.is_file():
        raise RunError(f"{folder} is no run directory: it holds no {RECIPE}")
    try:
        tree = read_json(path)
        if not isinstance(tree, dict):
            raise ValueError("it holds no recipe")
        return Run(folder, resolve(tree))
    except (OSError, ValueError) as error:  # a RecipeError is one
        raise RunError(f"{path} cannot be read: {error}") from error


def load(folder: Path | str) -> tuple[Branch, Preprocess]:
    """The trained branch of a run in eval mode, and its preprocessing.

    `branch(preprocess(pixels))` gives the `Embedding` of uint8 images [B, 3, H, W].

    Raises:
        RunError: the directory is no run, or has no checkpoint yet.
    """
    run = open_run(folder)
    return run.trained_branch()[0], run.preprocess


def _same(path: Path, recipe: Recipe) -> Recipe:
    old = open_run(path.parent).recipe
    if recipe.train.precision == "auto":  # what was resolved at the first start holds
        plan = dataclasses.replace(recipe.train, precision=old.train.precision)
        recipe = dataclasses.replace(recipe, train=plan)
    if old != recipe:
        differing = _differences(old.as_tree(), recipe.as_tree())
        raise RunError(
            f"{path.parent} holds a run of another recipe ({'; '.join(differing)}); "
            "choose another --out, or give the settings that it was started with"
        )
    return old


def _differences(old: Any, new: Any, key: str = "") -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        parts = [
            _differences(old.get(k), new.get(k), f"{key}.{k}") for k in old.keys() | new.keys()
        ]
        return sorted(itertools.chain.from_iterable(parts))
    return [] if old == new else [f"{key[1:]}: {old} there, {new} asked"]
