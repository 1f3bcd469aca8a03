"""What a query transform does to images, and what the encoder keeps of it."""

import copy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.branch import Branch
from pellucid.evaluate.cost import parameters
from pellucid.evaluate.sheet import SHOWN, write_transform_sheet
from pellucid.learner import Learner
from pellucid.losses import gaussian_entropy, unit_rows
from pellucid.metrics.volume import entropy_gain, feature_volume
from pellucid.nets.batch_norm import recalibrate_batch_norm
from pellucid.randomness import seeded
from pellucid.run import Run
from pellucid.train.loop import layout
from pellucid.types import Embedding

SHEET = "transform.png"
IMAGES = 2048
"""Images that entropies and drift are taken over, at most."""
BATCH = 256
EXACT = 768
"""Values of an image (16 x 16 pixels) up to which the entropy gain is exact, not estimated."""
PROBES, ITERATIONS = 8, 30
VOLUME_IMAGES, THRESHOLD = 4, 1e-3


def query_view(
    run: Run,
    learner: Learner,
    images: Float[Tensor, "n 3 h w"],
    labels: Tensor | None,
) -> dict[str, Any]:
    """Measure the query transform of a trained run on plain images; write `transform.png`.

    Queries T(x) go through the branch with batch-norm statistics of queries, anchors x with those
    that the branch has: in training, too, each passes through batch norm by itself.

    Returns:
        - `images`: how many; `transform_parameters`;
        - `query_entropy`, `anchor_entropy`: of their unit projections u, in nats
          (`pellucid.losses.gaussian_entropy`);
        - `entropy_gain` = E log |det J|, `entropy_gain_scale_free`, in nats an image, over
          `entropy_gain_images` (`pellucid.metrics.entropy_gain`; exact up to 16 x 16
          pixels, else estimated); None without a transform;
        - `drift`: the share of queries whose nearest anchor by z is `same_image` (its own), and
          `same_class` (None without labels), with `chance` of the first; None without a transform.

    Args:
        run: where the sheet is written; without a transform there is none.
        learner: trained, on the images' device.
        images: plain images as the encoder takes them.
        labels: class indices, -1 where an image has none, or None.
    """
    branch, transform = learner.framework.online.eval(), learner.query_transform.eval()
    anchors = _embed(branch, images)
    found: dict[str, Any] = {
        "images": len(images),
        "transform_parameters": parameters(transform),
        "anchor_entropy": gaussian_entropy(anchors.u).item(),
    }
    few = images[:SHOWN]
    with torch.no_grad():
        changed = transform(few)[0]
    if changed is few:
        same = {"query_entropy": found["anchor_entropy"]}
        return found | same | dict.fromkeys(("entropy_gain", "entropy_gain_scale_free", "drift"))
    settings = run.recipe.data
    write_transform_sheet(run.folder / SHEET, few, changed, settings.mean, settings.std)
    with torch.no_grad():
        views = torch.cat([transform(some)[0] for some in torch.split(images, BATCH)])
    of_queries = copy.deepcopy(branch)
    whole = max(len(views) // BATCH * BATCH, min(len(views), BATCH))
    recalibrate_batch_norm(of_queries, map(layout, torch.split(views[:whole], BATCH)))
    queries = _embed(of_queries, views)
    small = few[0].numel() <= EXACT
    signs = None if small else seeded(run.recipe.evaluation.seed, "entropy")
    gain = entropy_gain(lambda x: transform(x)[0], few, signs, PROBES, ITERATIONS)
    return found | {
        "query_entropy": gaussian_entropy(queries.u).item(),
        "entropy_gain": gain.total.item(),
        "entropy_gain_scale_free": gain.scale_free.item(),
        "entropy_gain_images": len(few),
        "drift": drift(queries.z, anchors.z, labels),
    }


def drift(
    queries: Float[Tensor, "n k"], anchors: Float[Tensor, "m k"], labels: Tensor | None
) -> dict[str, float | None]:
    """The share of queries whose nearest anchor by cosine is their own image, and their own class.

    Both are shares that stay: 1 is no drift at all. Unlabelled images (-1) have no class.

    Raises:
        ValueError: there is no row, or not one anchor for each query.
    """
    if queries.shape != anchors.shape or len(queries) < 1:
        raise ValueError(
            f"drift needs one anchor for each query, got {tuple(queries.shape)} and "
            f"{tuple(anchors.shape)}"
        )
    anchors = unit_rows(anchors)
    nearest = torch.cat(
        [(q @ anchors.T).argmax(dim=1) for q in torch.split(unit_rows(queries), BATCH)]
    )
    own = torch.arange(len(queries), device=nearest.device)
    same_class = None
    if labels is not None and bool((labels >= 0).any()):
        labels = labels.to(nearest.device)
        known = labels >= 0
        same_class = (labels[nearest] == labels)[known].float().mean().item()
    return {
        "same_image": (nearest == own).float().mean().item(),
        "same_class": same_class,
        "chance": 1 / len(queries),
    }


def volumes(trained: Branch, untrained: Branch, images: Float[Tensor, "n 3 h w"]) -> dict[str, Any]:
    """The encoder's change of volume, after training and before.

    Returns:
        `trained` and `untrained`, each with `rank` and `log_volume` (nats) of dh/dx (see
        `pellucid.metrics.feature_volume`), over `images`, above `threshold`.

    Args:
        trained: in evaluation mode.
        untrained: in evaluation mode, its batch-norm statistics recalibrated.
        images: plain images; the first few are taken.
    """
    few = images[:VOLUME_IMAGES]
    return {
        "trained": feature_volume(trained.encoder, few, THRESHOLD)._asdict(),
        "untrained": feature_volume(untrained.encoder, few, THRESHOLD)._asdict(),
        "images": len(few),
        "threshold": THRESHOLD,
    }


@torch.no_grad()
def _embed(branch: Branch, images: Tensor) -> Embedding:
    parts = [branch(layout(some)) for some in torch.split(images, BATCH)]
    columns = {name: torch.cat([getattr(p, name).float() for p in parts]) for name in "huz"}
    return Embedding(**columns, gate=None, terms={})
