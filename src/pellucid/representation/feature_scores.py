"""Scores of features that no run stands behind: those that z, labels and h alone can give."""

from collections.abc import Mapping
from typing import Any

from pellucid.evaluate.extract import Features
from pellucid.evaluate.interpretability import interpretability
from pellucid.evaluate.score import unscored
from pellucid.metrics import rank_dimensions
from pellucid.representation.representation import Representation

MIN_SUPPORT, SEED = 10, 0
"""As in the recipes, so that a file stands beside a run."""


def scores_of(representation: Representation) -> Mapping[str, Any] | None:
    """What scores.json holds, or for a file what can be had without it; None for a run without."""
    if representation.run is None and representation.scores is None:
        return feature_scores(representation)
    return representation.scores


def feature_scores(representation: Representation) -> dict[str, Any]:
    """Scores and settings under the names of scores.json, without probe, kNN and cost.

    Retrieval over the strongest dimensions is left out: there are no other images to rank them on.
    """
    z, h, labels = representation.z, representation.h, representation.labels
    features = Features(z if h is None else h, z, z, None, z, labels)
    scores = interpretability(features, rank_dimensions(z), min_support=MIN_SUPPORT, seed=SEED)
    scores = {name: one for name, one in scores.items() if "_of_" not in name}
    if h is None:
        scores |= unscored(("monosemanticity",), "h is not known")
    classes = len(representation.classes or ())
    known = 0
    if labels is not None and bool((labels >= 0).any()):
        known, classes = int((labels >= 0).sum()), max(classes, int(labels.max()) + 1)
    return {
        "settings": {
            "scored_images": len(z),
            "scored_images_labelled": known,
            "classes": classes,
            "dimensions": z.shape[1],
            "min_support": MIN_SUPPORT,
            "seed": SEED,
        },
        "trained": scores,
    }
