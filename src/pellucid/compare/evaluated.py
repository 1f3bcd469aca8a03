"""What is compared: runs and features of files, each with its scores."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.representation.feature_scores import feature_scores
from pellucid.representation.representation import Representation, of_run, open_representation
from pellucid.representation.score_file import read_scores
from pellucid.run import RECIPE, SCORES, Run, RunError, open_run
from pellucid.text import one_line

Json = dict[str, Any]


class Evaluated(NamedTuple):
    """A representation with its scores."""

    label: str
    scores: Json
    """As scores.json holds them."""
    run: Run | None
    """The run that made it; None for features of a file."""
    representation: Callable[[], Representation]
    """Reads it. Of a run it may fail with a RunError: scores alone are enough for the table."""

    @property
    def settings(self) -> Json:
        """What the scores depend on."""
        found = self.scores.get("settings")
        return found if isinstance(found, dict) else {}

    @property
    def method(self) -> str:
        """The method of the run; empty for features of a file."""
        return "" if self.run is None else self.run.recipe.method


def read_evaluated(
    paths: Sequence[Path], *, labels: Path | None = None, images: Path | None = None
) -> list[Evaluated]:
    """Whatever can be compared, with labels that tell one from another.

    Args:
        paths: run directories, folders of `pellucid embed`, files of features; one that is given
            twice counts once.
        labels: of what is no run, a file with one class an image.
        images: of what is no run, the folder of its images.

    Raises:
        RunError: one is nothing of these, has no scores yet, or cannot be read; or `labels` or
            `images` are given and all are runs.
    """
    unique = list({path.resolve(): path for path in paths}.values())
    if not unique:
        raise RunError("nothing to compare: name one run directory or more, or files of features")
    for option, given in (("--labels", labels), ("--images", images)):
        if given is not None and all((path / RECIPE).is_file() for path in unique):
            raise RunError(f"{option} {given} is for files of features, and only runs are compared")
    names = _labels(unique)
    return [
        _run(path, name) if (path / RECIPE).is_file() else _features(path, name, labels, images)
        for path, name in zip(unique, names, strict=True)
    ]


def group_by_recipe(evaluated: Sequence[Evaluated]) -> list[list[Evaluated]]:
    """Runs that differ by nothing but `train.seed`, together; equal seeds make no sample."""
    found: dict[str, list[Evaluated]] = {}
    for one in evaluated:
        key = one.label
        if one.run is not None:
            tree = one.run.recipe.as_tree()
            key = json.dumps(tree | {"train": tree["train"] | {"seed": None}})
        found.setdefault(key, []).append(one)
    groups: list[list[Evaluated]] = []
    for group in found.values():
        seeds = {one.run.recipe.train.seed for one in group if one.run is not None}
        groups += [group] if len(seeds) == len(group) else [[one] for one in group]
    return groups


def _run(folder: Path, label: str) -> Evaluated:
    run = open_run(folder)
    scores = read_scores(run)
    if scores is None:
        raise RunError(f"{folder} has no {SCORES} yet: run `pellucid evaluate {folder}` first")
    return Evaluated(label, scores, run, lambda: of_run(run))


def _features(path: Path, label: str, labels: Path | None, images: Path | None) -> Evaluated:
    found = open_representation(path, labels=labels, images=images)
    return Evaluated(label, feature_scores(found), None, lambda: found)


def _labels(paths: Sequence[Path]) -> list[str]:
    """Of each the shortest name that no other has: its own, with its folder, or the whole path."""
    whole = [path.resolve() for path in paths]
    own = [path.name if path.is_dir() else path.stem for path in whole]
    with_folder = [f"{path.parent.name}/{path.name}" for path in whole]
    choices = (own, with_folder, [str(path) for path in whole])
    return [
        next(one_line(names[i]) for names in choices if names.count(names[i]) == 1)
        for i in range(len(whole))
    ]
