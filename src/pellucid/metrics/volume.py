"""How much a map changes volume: the entropy that a transform adds, and what an encoder keeps.

For y = T(x), H(y) = H(x) + E log |det J_T(x)|: IE-CL's incremental entropy (arXiv 2603.12594). A
gain by mere scale is undone by the next batch norm, so it is reported apart.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Map = Callable[[Tensor], Tensor]
"""A map of a batch whose images do not touch each other."""
TINY = 1e-30


class EntropyGain(NamedTuple):
    """The entropy that a transform adds to an image, in nats; scalars on the images' device."""

    total: Tensor
    """E log |det J| over the images."""
    scale_free: Tensor
    """Without D log(std of all T(x) / std of all x): the gain of standardised images."""


class Volume(NamedTuple):
    """What is left of an image's neighbourhood in its features, averaged over images."""

    rank: float
    """Singular values of dh/dx above `threshold` of the largest, 0..min(F, D)."""
    log_volume: float
    """Sum of their logs, in nats."""


def log_abs_det(transform: Map, images: Float[Tensor, "n ..."]) -> Float[Tensor, " n"]:
    """Exact log |det J| of each image, in nats, of the whole D x D Jacobian; for small images."""
    count, size = len(images), images[0].numel()
    logs = []
    for image in images:
        jacobian = torch.func.jacrev(lambda x: transform(x[None])[0])(image)
        logs.append(torch.linalg.slogdet(jacobian.reshape(size, size).double()).logabsdet)
    return torch.stack(logs).reshape(count)


def estimate_log_abs_det(
    transform: Map,
    images: Float[Tensor, "n ..."],
    generator: torch.Generator,
    probes: int = 2,
    iterations: int = 12,
) -> Float[Tensor, " n"]:
    """Estimate log |det J| of each image in nats, without its Jacobian.

    Half of log det J'J by stochastic Lanczos quadrature: `iterations` products with J and with J'
    for each of `probes` random signs. The spread over probes falls with 1 / sqrt(probes). Few
    iterations overestimate where singular values differ widely: the quadrature of a logarithm errs
    upwards only.

    Source: Ubaru, Chen and Saad, 2017 (SIAM J. Matrix Anal. Appl. 38), algorithm 1.

    Args:
        transform: of a batch whose images do not touch each other.
        images: where to take the Jacobians.
        generator: of the random signs, on the CPU.
        probes: random vectors an image.
        iterations: Lanczos steps, at most D.
    """
    count, size = len(images), images[0].numel()
    signs = torch.randint(2, (probes * count, size), generator=generator) * 2.0 - 1
    start = signs.to(images) / size**0.5
    with torch.enable_grad():
        x = images.detach().repeat(probes, *[1] * (images.ndim - 1)).requires_grad_()
        y = transform(x)
        dual = torch.zeros_like(y, requires_grad=True)
        pulled = torch.autograd.grad(y, x, dual, create_graph=True)[0]  # J' dual, linear in dual

        def apply(vectors: Tensor) -> Tensor:
            forward = torch.autograd.grad(pulled, dual, vectors.view_as(x), retain_graph=True)[0]
            back: Tensor = torch.autograd.grad(y, x, forward, retain_graph=True)[0]
            return back.reshape(len(vectors), size)

        diagonal, beside = _lanczos(apply, start, min(iterations, size))
    tridiagonal = torch.diag_embed(diagonal.double())
    if beside.shape[1]:
        off = torch.diag_embed(beside.double(), offset=1)
        tridiagonal = tridiagonal + off + off.mT
    values, vectors = torch.linalg.eigh(tridiagonal)
    weights = vectors[:, 0].square()
    each = size / 2 * (weights * values.clamp_min(TINY).log()).sum(dim=1)
    return each.view(probes, count).mean(dim=0)


def entropy_gain(
    transform: Map,
    images: Float[Tensor, "n 3 h w"],
    generator: torch.Generator | None = None,
    probes: int = 2,
    iterations: int = 12,
) -> EntropyGain:
    """The entropy that a transform adds to these images.

    Args:
        transform: of a batch whose images do not touch each other.
        images: at least two values.
        generator: of the estimate's random signs, on the CPU; None for the exact value, which
            takes the whole Jacobian of every image.
        probes: random vectors an image.
        iterations: Lanczos steps.
    """
    if generator is None:
        total = log_abs_det(transform, images).mean()
    else:
        total = estimate_log_abs_det(transform, images, generator, probes, iterations).mean()
    with torch.no_grad():
        scale = transform(images).std() / images.std()
        return EntropyGain(total, total - images[0].numel() * scale.log())


def feature_volume(
    encoder: Map, images: Float[Tensor, "n 3 h w"], threshold: float = 1e-3, rows: int = 64
) -> Volume:
    """Rank and log-volume of dh/dx, from its singular values at each image.

    An encoder maps D numbers to fewer F, so it has no determinant; what it keeps are the directions
    whose singular values are not small. Local: a net of ReLUs is linear around each image.

    Args:
        encoder: in evaluation mode, images [B, 3, H, W] -> features [B, F].
        images: at least one.
        threshold: share of the largest singular value below which a direction counts as lost.
        rows: features whose gradients are taken at once.
    """
    found = []
    for image in images:
        jacobian = _rows_of_jacobian(encoder, image, rows).double()
        singular = torch.linalg.svdvals(jacobian)
        kept = singular[singular > threshold * singular[0].clamp_min(TINY)]
        found.append((len(kept), kept.log().sum().item()))
    ranks, logs = zip(*found, strict=True)
    return Volume(sum(ranks) / len(ranks), sum(logs) / len(logs))


def _rows_of_jacobian(encoder: Map, image: Tensor, rows: int) -> Float[Tensor, "f d"]:
    parts, width, first = [], 1, 0
    while first < width:
        with torch.enable_grad():
            x = image.detach()[None].repeat(rows, 1, 1, 1).requires_grad_()
            h = encoder(x)
            width = h.shape[1]
            count = min(rows, width - first)
            own = torch.arange(count, device=h.device)
            picked = h[own, first + own].sum()
            gradient = torch.autograd.grad(picked, x)[0]
        parts.append(gradient[:count].flatten(1))
        first += count
    return torch.cat(parts)


def _lanczos(
    apply: Map, start: Float[Tensor, "n d"], iterations: int
) -> tuple[Float[Tensor, "n m"], Float[Tensor, "n l"]]:
    """Diagonal and off-diagonal of the tridiagonal form of a symmetric map, each row by itself."""
    basis, diagonal, beside = [start], [], []
    for _ in range(iterations):
        new = apply(basis[-1])
        diagonal.append((new * basis[-1]).sum(dim=1))
        for _ in range(2):  # against all, twice: rounding would bring found directions back
            for old in basis:
                new = new - (new * old).sum(dim=1, keepdim=True) * old
        length = new.norm(dim=1)
        if not bool(length.isfinite().all()):  # squares leave fp32 before the vectors do
            length = new.double().norm(dim=1).to(new)
        beside.append(length)
        # Where nothing new is left the vector is noise; its coupling of about 0 keeps it out.
        basis.append(new / length.clamp_min(TINY)[:, None])
    return torch.stack(diagonal, dim=1), torch.stack(beside, dim=1)[:, :-1]
