"""Gradient conflict: do images pull a dimension in one direction, and what pulls?"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.losses.contrastive import unit_rows


class Conflict(NamedTuple):
    """Statistics of the gradient that reaches each dimension, in fp64."""

    mean: Float[Tensor, " k"]
    """Mean of dL/dz_k over images."""
    variance: Float[Tensor, " k"]
    """Variance over images, divided by their number less one."""
    ratio: Float[Tensor, " k"]
    """|mean| / standard deviation: near 0, images cancel each other (conflict); infinite where
    all agree exactly; NaN where no gradient ever arrived."""
    images: int
    """Rows that the statistics rest on."""


class Forces(NamedTuple):
    """The gradient of NT-Xent in two parts, rows of z_a then of z_b."""

    attraction: Float[Tensor, "images k"]
    """From the similarity to the positive. Descent follows its negative, towards the positive."""
    repulsion: Float[Tensor, "images k"]
    """From the log-sum-exp over all other rows, the positive among them."""


def gradient_conflict(batches: Iterable[Float[Tensor, "_ k"]]) -> Conflict:
    """Mean, variance and |mean| / std of dL/dz_k over the images of all batches.

    Batches [B, K] may differ in size and are read one at a time: a generator needs the memory of
    one, and a tensor [batches, B, K] is a sequence of them. Statistics are merged batch by batch
    in fp64, so the result does not depend on how images are batched. A loss that is a mean over a
    batch gives gradients in proportion to 1/B: multiply by B when batches differ in size.

    Source: BayesNCL (arXiv 2605.28441), gradient conflict of shared dimensions.

    Raises:
        ValueError: fewer than two images, a batch that is not [B, K] with one K, or a gradient
            that is not finite, or whose square is not.
    """
    images, width, mean, scatter = 0, None, torch.zeros(()), torch.zeros(())
    for batch in batches:
        if width is None and batch.ndim == 2:
            width = batch.shape[1]
        if batch.ndim != 2 or batch.shape[1] != width:
            expected = "[B, K]" if width is None else f"[B, {width}] as in the first batch"
            raise ValueError(f"gradients must be {expected}, got {tuple(batch.shape)}")
        if len(batch) == 0:
            continue
        batch = batch.detach().double()
        if not batch.isfinite().all():
            raise ValueError(f"gradients must be finite; a batch after {images} images is not")
        centre = batch.mean(dim=0)
        if images == 0:
            mean, scatter = torch.zeros_like(centre), torch.zeros_like(centre)
        # Merging means and sums of squared deviations keeps the variance free of cancellation.
        away, total = centre - mean, images + len(batch)
        scatter = scatter + (batch - centre).square().sum(dim=0)
        scatter = scatter + away.square() * (images * len(batch) / total)
        mean = mean + away * (len(batch) / total)
        images = total
    if images < 2:
        raise ValueError(f"a variance needs gradients of at least two images, got {images}")
    variance = scatter / (images - 1)
    if not (mean.isfinite().all() and variance.isfinite().all()):
        raise ValueError("gradients are too large: their squares must be finite in fp64")
    return Conflict(mean, variance, mean.abs() / variance.sqrt(), images)


def nt_xent_forces(
    z_a: Float[Tensor, "n k"], z_b: Float[Tensor, "n k"], temperature: float
) -> Forces:
    """The gradient dL/dz of NT-Xent, [2N, K], split exactly into attraction and repulsion.

    Rows are normalised as in `losses.nt_xent`; each of the 2N rows is an anchor, its positive is
    the other view of its image, and the loss is the mean over anchors of the log-sum-exp of the
    similarities to all other rows, less the similarity to the positive, both over the temperature.
    The two parts add up to the gradient of `losses.nt_xent`. Computed in fp32, or fp64 for fp64
    rows, with autocast off.

    Source: SimCLR (arXiv 2002.05709), equation 1.

    Raises:
        ValueError: the temperature is not positive, shapes differ, a row or its length is not
            finite, or there is none.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}")
    if z_a.shape != z_b.shape:
        raise ValueError(
            "z_a and z_b must be two views of the same images, "
            f"got shapes {tuple(z_a.shape)} and {tuple(z_b.shape)}"
        )
    z = torch.cat([z_a, z_b]).detach()
    z = z.to(torch.promote_types(z.dtype, torch.float32))
    if len(z) == 0 or not z.isfinite().all():
        raise ValueError(f"z_a and z_b must be finite rows, got {len(z_a)} images")
    if not z.square().sum(dim=1).isfinite().all():
        raise ValueError(
            f"z_a and z_b must be of finite length, and the squares of {z.abs().max().item():.3g} "
            "are not: the branch has diverged"
        )
    with torch.enable_grad(), torch.autocast(z.device.type, enabled=False):
        z.requires_grad_()
        unit = unit_rows(z)
        similarity = (unit @ unit.T / temperature).fill_diagonal_(-torch.inf)
        positive = (unit * unit.roll(len(z_a), dims=0)).sum(dim=1) / temperature
        (attraction,) = torch.autograd.grad(-positive.mean(), z, retain_graph=True)
        (repulsion,) = torch.autograd.grad(similarity.logsumexp(dim=1).mean(), z)
    return Forces(attraction, repulsion)
