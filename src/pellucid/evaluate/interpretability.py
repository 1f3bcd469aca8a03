"""What single dimensions of z say, in the right forms and as published."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from pellucid import metrics
from pellucid.evaluate.extract import Features
from pellucid.evaluate.score import Score, Scores, score, unscored
from pellucid.metrics import as_published
from pellucid.metrics.activity import shuffled
from pellucid.metrics.entropy import Weighting

AT = (1, 3, 5, 10)
"""Numbers of neighbours of retrieval."""
TOP = (32, 64, 128, 256)
"""Retrieval is also scored on this many dimensions, the strongest on the training split."""
SHUFFLES = 10
"""Random orders of the labels behind each chance level."""
PUBLISHED_SHUFFLES = 3
"""The same behind those of the authors' forms."""
RESAMPLES = 100
"""Draws of images behind the interval of the semantic consistency."""
WEIGHTINGS: tuple[Weighting, ...] = ("mass", "mean", "frequency")

NEED_LABELS = (
    "semantic_consistency",
    "semantic_consistency_published",
    "semantic_entropy_normalised",
    *(f"semantic_entropy_{w}{form}" for form in ("", "_published") for w in WEIGHTINGS),
)


def interpretability(
    features: Features,
    strongest: Int[Tensor, " k"],
    *,
    min_support: int = 10,
    seed: int = 0,
    device: torch.device | None = None,
) -> Scores:
    """Every score of z.

    Scores that need labels read the labelled images only, all others read all images. Entropies
    are `semantic_entropy_mass`, `_mean` and `_frequency` in nats, and `semantic_entropy_normalised`
    (mass, over ln C); the authors' forms end in `_published`. Retrieval is `retrieval_at_1` over
    all dimensions and `retrieval_at_1_of_64` over the 64 strongest.

    Args:
        features: of the images to score.
        strongest: dimensions, the strongest first, ranked on other images.
        min_support: the fewest active images of a dimension that is scored.
        seed: of shuffles and draws.
        device: where to compute; the CPU by default.
    """
    z, reference = features.z.to(device), features.h.to(device)
    scores = label_free(z, reference, min_support)
    known = None if features.labels is None else features.labels >= 0
    if known is None or features.labels is None or not bool(known.any()):
        names = (*NEED_LABELS, *_retrieval_names(z.shape[1]))
        return scores | unscored(names, "the images have no labels")
    z, labels = z[known.to(device)], features.labels[known].to(device)
    return (
        scores
        | _consistency(z, labels, min_support, seed)
        | _entropy(z, labels, min_support, seed)
        | _retrieval(z, labels, strongest.to(device))
    )


def label_free(z: Tensor, reference: Tensor, min_support: int) -> Scores:
    """The scores that need no labels."""
    count = z.shape[1]
    unit = metrics.unit_rows(z)
    live, support = _published_support(z)
    orthogonality = metrics.orthogonality(z)
    mono = metrics.monosemanticity(z, reference, min_support=max(2, min_support))
    two = "fewer than two dimensions are live"
    rare = f"no dimension is active on {max(2, min_support)} images"
    return {
        "activation_rate": score(metrics.activation_rate(z), dimensions=count, support=support),
        "density": score(metrics.density(z), dimensions=count, support=support),
        "effective_rank": score(
            metrics.effective_rank(z), dimensions=count, support=len(z), reason="z is all zero"
        ),
        "effective_rank_published": score(
            as_published.effective_rank(unit),
            dimensions=count,
            support=len(z),
            reason="z is all zero",
        ),
        "orthogonality": score(
            orthogonality.value, dimensions=orthogonality.dimensions, support=support, reason=two
        ),
        "orthogonality_published": score(
            as_published.orthogonality(unit), dimensions=live, support=support, reason=two
        ),
        "monosemanticity": score(
            mono.value,
            chance=mono.chance,
            dimensions=mono.dimensions,
            support=mono.support,
            reason=rare,
        ),
    }


def _consistency(z: Tensor, labels: Tensor, min_support: int, seed: int) -> Scores:
    right = metrics.semantic_consistency(
        z, labels, min_support=min_support, seed=seed, shuffles=SHUFFLES, resamples=RESAMPLES
    )
    reason = f"no dimension is active on {min_support} labelled images"
    return {
        "semantic_consistency": score(**right._asdict(), reason=reason),
        "semantic_consistency_published": _published(
            as_published.semantic_consistency, z, z, labels, seed
        ),
    }


def _entropy(z: Tensor, labels: Tensor, min_support: int, seed: int) -> Scores:
    scores: Scores = {}
    reason = f"no dimension is active on {min_support} labelled images"
    unit = metrics.unit_rows(z)
    for weighting in WEIGHTINGS:
        right = metrics.semantic_entropy(
            z, labels, weighting=weighting, min_support=min_support, seed=seed, shuffles=SHUFFLES
        )
        rests_on: dict[str, Any] = {"dimensions": right.dimensions, "support": right.support}
        scores[f"semantic_entropy_{weighting}"] = score(
            right.nats, chance=right.chance, **rests_on, reason=reason
        )
        if weighting == "mass":
            scale = right.normalised / right.nats if right.normalised and right.nats else None
            scores["semantic_entropy_normalised"] = score(
                right.normalised,
                chance=right.chance * scale if right.chance and scale else None,
                **rests_on,
                reason=reason if right.nats is None else "there is only one class",
            )

        def published(rows: Tensor, by: Tensor, weighting: Weighting = weighting) -> float:
            return as_published.semantic_entropy(rows, by, weighting)

        scores[f"semantic_entropy_{weighting}_published"] = _published(
            published, unit, z, labels, seed
        )
    return scores


def _published(
    metric: Callable[[Tensor, Tensor], float], rows: Tensor, z: Tensor, labels: Tensor, seed: int
) -> Score:
    """A published form beside what it gives for shuffled labels."""
    by_luck = [metric(rows, other) for other in shuffled(labels, seed, PUBLISHED_SHUFFLES)]
    live, support = _published_support(z)
    return score(
        metric(rows, labels),
        chance=sum(by_luck) / len(by_luck),
        dimensions=live,
        support=support,
    )


def _published_support(z: Tensor) -> tuple[int, int]:
    """Live dimensions, active on any image, and the fewest active images of one."""
    counts = metrics.active_entries(z).sum(dim=0)
    counts = counts[counts > 0]
    return len(counts), int(counts.min()) if len(counts) else 0


def _retrieval(z: Tensor, labels: Tensor, strongest: Tensor) -> Scores:
    at = tuple(k for k in AT if k < len(z))
    scores = unscored(_retrieval_names(z.shape[1]), "there are too few labelled images")
    if not at:
        return scores
    for top in (None, *_tops(z.shape[1])):
        chosen = None if top is None else strongest[:top]
        found = metrics.retrieval_precision(z, labels, at=at, dimensions=chosen)
        for k, value in found.precision.items():
            scores[_retrieval_name(k, top)] = score(
                value, chance=found.chance, dimensions=found.dimensions, support=len(z)
            )
    return scores


def _tops(count: int) -> tuple[int, ...]:
    return tuple(top for top in TOP if top < count)


def _retrieval_name(k: int, top: int | None) -> str:
    return f"retrieval_at_{k}" + ("" if top is None else f"_of_{top}")


def _retrieval_names(count: int) -> tuple[str, ...]:
    return tuple(_retrieval_name(k, top) for top in (None, *_tops(count)) for k in AT)
