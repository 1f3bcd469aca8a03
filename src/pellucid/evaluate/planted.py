"""What can be said of a representation when the truth is known: objects on shared backgrounds."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Integer
from torch import Tensor

from pellucid.evaluate.extract import Features
from pellucid.metrics import as_published, semantic_consistency

Json = dict[str, Any]

PI_EDGES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)
"""Bins of how many images use a dimension; the same for every run, so that runs compare."""


class Bound(NamedTuple):
    """What each dimension answers to."""

    background: Int[Tensor, " k"]
    """Index of the background that it answers to, or -1."""
    object: Bool[Tensor, " k"]
    """Whether it answers to an object."""


class _Use(NamedTuple):
    """How the scored dimensions are used, in fp64."""

    active: Bool[Tensor, "n k"]
    opened: Bool[Tensor, "n k"]
    pi: Float[Tensor, " k"]
    rate: Float[Tensor, " k"]
    rate_active: Float[Tensor, " k"]


def planted_scores(
    features: Features,
    objects: Integer[Tensor, " n"],
    backgrounds: Integer[Tensor, " n"],
    background_names: Sequence[str],
    prior: float | None,
    weight: float | None,
    *,
    threshold: float = 0.5,
    min_support: int = 10,
    seed: int = 0,
) -> Json:
    """Scores of images whose object and background are both known, as JSON-ready values.

    A dimension is active on an image when its ungated activation is above 0, so that a gate does
    not decide what it is judged by; pi_k is the share of images on which it is. Dimensions active
    on fewer than `min_support` images are left out of everything but consistency, which has its
    own rule. Rates are shares of images, 0..1; rank correlations (Spearman) are None when there
    are fewer than three dimensions or one side does not vary.

    Keys:
        images, min_support: what the scores rest on.
        consistency: `object` and `background`, each with the fields of `metrics.Consistency` and
            `published`, the authors' form.
        dimensions: `scored`, and how many of them answer to a `background`, to an `object`, to
            `neither` (see `bound`).
        backgrounds: one entry each: `name`, its `frequency` in these images, how many
            `dimensions` answer to it, and means over these: `pi`; with a gate also `open_rate`,
            and `open_rate_here` and `open_rate_elsewhere`, the rate on active images with this
            and with other backgrounds. None where there is nothing to average.
        gate: None without a gate, and then `gate_reason` says so. Otherwise `threshold`;
            `open_rate` over all images and `open_rate_active` over those where the dimension is
            active (elsewhere the gate changes nothing), each with its `mean` over dimensions,
            `lowest`, `highest` and `spearman_pi`; `bins` of pi (`from`, `to`, `dimensions`, the
            mean `open_rate` and `open_rate_active`); `background_frequency`, the rank correlation
            `spearman` of open rate and the frequency of its background over the `dimensions`
            that answer to one; `theory`.
        theory (in `gate`): `price` of opening a dimension, weight x log((1 - prior) / prior) in
            nats, which is positive only for a prior below 0.5; `gain` pi_k (1 - pi_k) of closing
            a shared one: its `mean` and `spearman_open_rate`.

    Args:
        features: of the images, with labels or without.
        objects: the object of each image, 0..C-1.
        backgrounds: the background of each image, an index into the names.
        background_names: what backgrounds are called.
        prior: rho of the gate; None if it has none.
        weight: lambda of the gate's KL; None if it has none.
        threshold: a gate is open when its probability is above this.
        min_support: the fewest active images of a dimension that is scored.
        seed: of shuffles and draws of the consistency.

    Source: BayesNCL (arXiv 2605.28441) for gate, price and gain.

    Raises:
        ValueError: images and labels differ in number, or a background has no name.
    """
    count = len(features.z)
    if len(objects) != count or len(backgrounds) != count:
        raise ValueError(
            f"{count} images need as many objects and backgrounds, "
            f"got {len(objects)} and {len(backgrounds)}"
        )
    objects, backgrounds = objects.long().cpu(), backgrounds.long().cpu()
    if int(backgrounds.max()) >= len(background_names) or int(backgrounds.min()) < 0:
        raise ValueError(
            f"backgrounds must be 0..{len(background_names) - 1}, one for each name, "
            f"got {int(backgrounds.min())}..{int(backgrounds.max())}"
        )
    activation = features.ungated.float().cpu().clamp(min=0)
    scored = ((activation > 0).sum(dim=0) >= min_support).nonzero()[:, 0]
    activation = activation[:, scored]
    answers = bound(activation, objects, backgrounds)
    use = None
    if features.gate is not None:
        use = _use(activation > 0, features.gate.float().cpu()[:, scored] > threshold)
    frequency = backgrounds.bincount(minlength=len(background_names)).double() / count
    on_background = answers.background >= 0
    return {
        "images": count,
        "min_support": min_support,
        "consistency": {
            "object": _consistency(features.z, objects, min_support, seed),
            "background": _consistency(features.z, backgrounds, min_support, seed),
        },
        "dimensions": {
            "scored": len(scored),
            "background": int(on_background.sum()),
            "object": int(answers.object.sum()),
            "neither": len(scored) - int(on_background.sum()) - int(answers.object.sum()),
        },
        "backgrounds": [
            {
                "name": name,
                "frequency": frequency[index].item(),
                **_background(index, answers, backgrounds, activation > 0, use),
            }
            for index, name in enumerate(background_names)
        ],
        "gate": None
        if use is None
        else {
            "threshold": threshold,
            **_gate(use),
            "background_frequency": {
                "spearman": spearman(
                    frequency[answers.background[on_background]], use.rate[on_background]
                ),
                "dimensions": int(on_background.sum()),
            },
            "theory": _theory(use, prior, weight),
        },
        "gate_reason": "the head has no gate" if use is None else None,
    }


def bound(
    activation: Float[Tensor, "n k"], objects: Int[Tensor, " n"], backgrounds: Int[Tensor, " n"]
) -> Bound:
    """What each dimension answers to: a background, an object, or neither.

    The mean activation on each class, divided by the sum of these means, is the share of the
    dimension's mass that the class holds if all classes are equally frequent. A dimension answers
    to its largest background when this holds more than half of its mass, and its largest object
    less of it; the two are compared by (share - 1/C) / (1 - 1/C), which is 0 without a preference
    and 1 for a single class, because 10 objects share less than 5 backgrounds by themselves.
    Likewise for objects. All else answers to neither.

    Args:
        activation: not negative, each column above 0 somewhere.
        objects: the object of each image.
        backgrounds: the background of each image.
    """
    object_share, object_excess, _ = _largest(activation, objects)
    share, excess, which = _largest(activation, backgrounds)
    nothing = torch.full_like(which, -1)
    return Bound(
        background=torch.where((share > 0.5) & (excess > object_excess), which, nothing),
        object=(object_share > 0.5) & (object_excess > excess),
    )


def spearman(a: Float[Tensor, " n"], b: Float[Tensor, " n"]) -> float | None:
    """Spearman's rank correlation, -1..1, ties sharing their mean rank.

    None for fewer than three values, or when one side does not vary.
    """
    if len(a) < 3:
        return None
    first, second = (ranks - ranks.mean() for ranks in (_ranks(a), _ranks(b)))
    scale = first.norm() * second.norm()
    return ((first * second).sum() / scale).item() if scale > 0 else None


def _ranks(values: Tensor) -> Tensor:
    _, place, ties = torch.unique(values, return_inverse=True, return_counts=True)
    return (ties.cumsum(0).double() - (ties - 1) / 2)[place]


def _largest(activation: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The balanced share of the largest class, its excess over no preference, and the class."""
    member = torch.nn.functional.one_hot(labels).double()  # [N, C]
    sizes = member.sum(dim=0)
    means = member.T @ activation.double() / sizes.clamp(min=1)[:, None]
    share, which = (means / means.sum(dim=0)).max(dim=0)
    even = 1 / int((sizes > 0).sum())
    return share, (share - even) / max(1 - even, 1e-9), which


def _use(active: Tensor, opened: Tensor) -> _Use:
    both = (active & opened).double().sum(dim=0)
    return _Use(
        active=active,
        opened=opened,
        pi=active.double().mean(dim=0),
        rate=opened.double().mean(dim=0),
        rate_active=both / active.double().sum(dim=0),
    )


def _consistency(z: Tensor, labels: Tensor, min_support: int, seed: int) -> Json:
    right = semantic_consistency(z, labels, min_support=min_support, seed=seed)
    published = as_published.semantic_consistency(z, labels)
    return right._asdict() | {"published": None if math.isnan(published) else published}


def _background(
    index: int, answers: Bound, backgrounds: Tensor, active: Tensor, use: _Use | None
) -> Json:
    own = answers.background == index
    here = (backgrounds == index)[:, None]
    entry: Json = {"dimensions": int(own.sum()), "pi": _mean(active[:, own].double())}
    if use is not None:
        used = use.active[:, own]
        opened = use.opened[:, own].double()
        entry["open_rate"] = _mean(opened)
        entry["open_rate_here"] = _mean(opened[used & here])
        entry["open_rate_elsewhere"] = _mean(opened[used & ~here])
    return entry


def _gate(use: _Use) -> Json:
    bins = []
    for low, high in itertools.pairwise(PI_EDGES):
        inside = (use.pi > low) & (use.pi <= high)
        bins.append(
            {
                "from": low,
                "to": high,
                "dimensions": int(inside.sum()),
                "open_rate": _mean(use.rate[inside]),
                "open_rate_active": _mean(use.rate_active[inside]),
            }
        )
    return {
        "open_rate": _rate(use.rate, use.pi),
        "open_rate_active": _rate(use.rate_active, use.pi),
        "bins": bins,
    }


def _rate(rate: Tensor, pi: Tensor) -> Json:
    return {
        "mean": _mean(rate),
        "lowest": rate.min().item() if len(rate) else None,
        "highest": rate.max().item() if len(rate) else None,
        "spearman_pi": spearman(pi, rate),
    }


def _theory(use: _Use, prior: float | None, weight: float | None) -> Json:
    gain = use.pi * (1 - use.pi)
    price = None
    if prior is not None and weight is not None:
        price = weight * math.log((1 - prior) / prior)
    return {
        "prior": prior,
        "weight": weight,
        "price": price,
        "gain": {"mean": _mean(gain), "spearman_open_rate": spearman(gain, use.rate)},
    }


def _mean(values: Tensor) -> float | None:
    return values.mean().item() if values.numel() else None
