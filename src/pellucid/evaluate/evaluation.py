"""Evaluation of a run: its branch, and the same branch untrained, become scores.json."""

import contextlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from pellucid import distributed
from pellucid.branch import Branch
from pellucid.data.image_set import ImageSet
from pellucid.evaluate.cost import branch_cost, training_time
from pellucid.evaluate.extract import Features, image_batches
from pellucid.evaluate.extracted import Extracted, Place, extract_branch, recalibrate
from pellucid.evaluate.gradient_conflict import gradient_conflict
from pellucid.evaluate.interpretability import (
    AT,
    PUBLISHED_SHUFFLES,
    RESAMPLES,
    SHUFFLES,
    TOP,
    interpretability,
)
from pellucid.evaluate.linear_probe import HELD_OUT, STRENGTHS
from pellucid.evaluate.planted import planted_scores
from pellucid.evaluate.query_view import IMAGES, query_view, volumes
from pellucid.evaluate.score import Scores, unscored
from pellucid.evaluate.splits import NO_HELD_OUT, Splits, choose, labelled, open_splits
from pellucid.evaluate.store import write_features
from pellucid.evaluate.transfer import NAMES, transfer
from pellucid.learner import Learner
from pellucid.locks import exclusively
from pellucid.metrics.activity import ACTIVE
from pellucid.recipe import Recipe
from pellucid.run import SCORES, Run
from pellucid.train.device import (
    hardware,
    join_processes,
    pick_device,
    resolve_precision,
)
from pellucid.train.whole import write_text


class _Outcome(NamedTuple):
    """What became of one branch."""

    features: Features
    """Of the scored images."""
    scores: Scores
    probe: dict[str, Any]
    """What the linear probe chose."""


def evaluate(
    run: Run,
    *,
    device: str = "auto",
    download: bool = False,
    strict: bool = False,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Score a run, and the same branch untrained; write its features and scores.json.

    Under torchrun all processes extract features, each image on one of them, and the first does
    the rest. Returns what scores.json holds, and on the other processes nothing:

    - `run`, `method`, and `step`, the optimiser steps that were taken;
    - `settings`: everything that a number depends on;
    - `trained`, `untrained`: a `Score` by name. Of z on the scored images:
      `semantic_consistency`, `semantic_entropy_mass`, `_mean` and `_frequency` (nats),
      `semantic_entropy_normalised`, `activation_rate`, `density`, `effective_rank`,
      `orthogonality`, `monosemanticity`, `retrieval_at_5`, `retrieval_at_5_of_64`, and the
      authors' forms under names that end in `_published`. Of h: `knn`, `linear_probe_top1`,
      `linear_probe_top5`. Rates and accuracies are shares, 0..1;
    - `planted` (see `planted.planted_scores`; None unless every background is known) and
      `gradient_conflict` (see `gradient_conflict.gradient_conflict`), of the trained branch;
    - `query_view` (see `query_view.query_view`) and `encoder_volume` (see `query_view.volumes`);
    - `cost` (see `cost.branch_cost`) and `timing` (see `cost.training_time`);
    - `notes`: what a reader should know, in words.

    Args:
        run: an opened run directory.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        download: a known set may be fetched by torchvision.
        strict: refuse at the first file that would otherwise be skipped.
        say: takes a line for the user.

    Raises:
        RunError: the run has no checkpoint yet.
        BusyError: another process evaluates the run.
        DataError: its images cannot be read.
    """
    where = pick_device(device)
    join_processes(where)
    first = distributed.rank() == 0
    place = Place(where, evaluation_precision(run.recipe, where))
    learner, step = run.trained_learner()
    branch = learner.framework.online
    with contextlib.ExitStack() as held, distributed.together():
        if first:
            held.enter_context(exclusively(run.folder, "evaluate"))
        splits = open_splits(run.recipe, download=download, strict=strict)
        if first:
            say(f"{run.name}: scoring {len(splits.scored):,} images after step {step}")
        extracted = extract_branch(run, branch, splits, place, "trained")
        fresh = run.untrained_branch()
        calibrated = recalibrate(run, fresh, splits, place)
        reference = extract_branch(run, fresh, splits, place, "untrained")
        if extracted is None or reference is None:
            return {}  # the first process has the features, and does the rest
        return _scored(run, learner, fresh, step, splits, place, (extracted, reference), calibrated)


def _scored(
    run: Run,
    learner: Learner,
    fresh: Branch,
    step: int,
    splits: Splits,
    place: Place,
    extracted: tuple[Extracted, Extracted],
    calibrated: int,
) -> dict[str, Any]:
    """Every score of extracted features, written with them."""
    branch = learner.framework.online
    trained = _score(run, extracted[0], splits, place)
    (run.folder / SCORES).unlink(missing_ok=True)  # of other features, until the new ones are there
    write_features(
        run,
        trained.features,
        splits.scored,
        step=step,
        split="test" if splits.held_out else "train",
        threshold=gate_threshold(run.recipe),
    )
    untrained = _score(run, extracted[1], splits, place)
    result = {
        "run": run.name,
        "method": run.recipe.method,
        "step": step,
        "settings": _settings(run.recipe, splits, place)
        | {
            "features": trained.features.h.shape[1],
            "dimensions": trained.features.z.shape[1],
            "linear_probe_chose": {"trained": trained.probe, "untrained": untrained.probe},
            "untrained_branch": {
                "weights": f"of seed {run.recipe.train.seed}, before the first step",
                "batch_norm_images": calibrated,
            },
        },
        "trained": trained.scores,
        "untrained": untrained.scores,
        "planted": _planted(run.recipe, trained.features, splits.scored),
        "gradient_conflict": gradient_conflict(run, branch, splits.train, device=place.device),
        "cost": branch_cost(branch, run.recipe.views.size),
        "timing": training_time(run.folder),
        "notes": splits.notes + _unfinished(run.recipe, step, len(splits.train)),
    }
    plain = next(image_batches(splits.scored, _few(splits), run.preprocess, place.device, IMAGES))
    chosen = None if splits.scored.labels is None else splits.scored.labels[_few(splits)]
    result |= {
        "query_view": query_view(run, learner.to(place.device), plain, chosen),
        "encoder_volume": volumes(branch, fresh, plain),
    }
    text = json.dumps(result, indent=1, allow_nan=False)
    write_text(run.folder / SCORES, text)
    return result


def _few(splits: Splits) -> torch.Tensor:
    """Scored images that the query view is measured on: a fixed choice."""
    return choose(None, len(splits.scored), IMAGES, 0)


def evaluation_precision(recipe: Recipe, device: torch.device) -> str:
    """The precision of the training, or fp32 where this hardware would only emulate bf16."""
    # Emulated, bf16 is nine times slower than fp32 on a CPU.
    asked = recipe.train.precision
    return resolve_precision("auto" if asked == "bf16" else asked, device)


def gate_threshold(recipe: Recipe) -> float | None:
    """The probability above which a gate of the recipe is open; None without a hard gate."""
    settings = recipe.head.settings
    hard = "threshold" in settings and settings.get("variant") != "soft"
    return float(settings["threshold"]) if hard else None


def _score(run: Run, extracted: Extracted, splits: Splits, place: Place) -> _Outcome:
    """Every score of extracted features."""
    settings, scored = run.recipe.evaluation, extracted.scored
    scores = interpretability(
        scored,
        extracted.strongest,
        min_support=settings.min_support,
        seed=settings.seed,
        device=place.device,
    )
    if not splits.held_out:
        return _Outcome(scored, scores | unscored(NAMES, NO_HELD_OUT), {})
    read_off, probe = transfer(
        extracted.train_h,
        extracted.train_labels,
        scored.h,
        scored.labels,
        classes=splits.classes,
        neighbours=settings.knn_neighbours,
        temperature=settings.knn_temperature,
        seed=settings.seed,
        device=place.device,
    )
    return _Outcome(scored, scores | read_off, probe)


def _planted(recipe: Recipe, features: Features, images: ImageSet) -> dict[str, Any] | None:
    """Scores against planted truth, where the set comes with it."""
    truth = images.extra.get("background")
    if truth is None or features.labels is None:
        return None
    gate = recipe.head.settings
    return planted_scores(
        features,
        features.labels,
        truth.labels,
        truth.classes,
        gate.get("prior"),
        recipe.weights.get("gate_kl"),
        threshold=gate.get("threshold", 0.5),
        min_support=recipe.evaluation.min_support,
        seed=recipe.evaluation.seed,
    )


def _settings(recipe: Recipe, splits: Splits, place: Place) -> dict[str, Any]:
    """What the numbers depend on, and was known before any was computed."""
    settings = recipe.evaluation
    return {
        "evaluated": "the online branch of the newest checkpoint, in eval mode",
        "encoder": recipe.encoder.name,
        "precision": place.precision,
        "machine": hardware(place.device),
        "data": recipe.data.source,
        "image_size": recipe.views.size,
        "scored_split": "test" if splits.held_out else "train",
        "scored_images": len(splits.scored),
        "scored_images_labelled": labelled(splits.scored.labels),
        "train_images": len(splits.train),
        "train_images_read": len(splits.chosen),
        "classes": splits.classes,
        "seed": settings.seed,
        "active_above": ACTIVE,
        "min_support": settings.min_support,
        "label_shuffles": SHUFFLES,
        "label_shuffles_published": PUBLISHED_SHUFFLES,
        "resamples": RESAMPLES,
        "monosemanticity_reference": "h of the same branch",
        "retrieval": {"at": AT, "of_the_strongest": TOP, "ranked_on": "train"},
        "knn": {
            "neighbours": settings.knn_neighbours,
            "temperature": settings.knn_temperature,
            "similarity": "cosine of h",
        },
        "linear_probe": {
            "classifier": "L2-regularised multinomial logistic regression on standardised h",
            "C_grid": STRENGTHS,
            "held_out_share": HELD_OUT,
        },
        "gate_threshold": gate_threshold(recipe),
    }


def _unfinished(recipe: Recipe, step: int, images: int) -> list[str]:
    steps = recipe.train.epochs * (images // min(recipe.train.batch, images))
    if step >= steps:
        return []
    return [
        f"training stands at step {step} of {steps}; batch-norm statistics are those of training "
        "views, and are taken anew on plain images only when it ends"
    ]
