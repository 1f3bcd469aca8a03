"""Contrastive losses of row-normalised representations."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def unit_rows(z: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
    """Rows scaled to length one, z * rsqrt(sum z^2 + eps), in fp32 (float64 stays float64).

    A zero row stays zero, and the spectral norm of any row's Jacobian is at most 1/sqrt(eps). eps
    is 1e-8 (bound 1e4; rows of length 0.1 and more agree with an exact normalisation to 1e-6), and
    1e-6 for fp16 (bound 1e3), whose largest number is 65504.
    """
    eps = 1e-6 if z.dtype == torch.float16 else 1e-8
    with torch.autocast(z.device.type, enabled=False):
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        return z * torch.rsqrt(z.square().sum(dim=1, keepdim=True) + eps)


def nt_xent(
    z_a: Float[Tensor, "n k"], z_b: Float[Tensor, "n k"], temperature: float
) -> Float[Tensor, ""]:
    """Normalised-temperature cross entropy of two views, averaged over all 2N anchors.

    Row i of `z_a` and row i of `z_b` are the positive pair; the other 2N - 2 rows of both views are
    the anchor's negatives, the anchor itself is left out. One image has no negatives: its loss
    and gradient are 0. Rows need no normalisation. The gradient by one row is at most
    (1 + 1/N) / temperature times the bound of `unit_rows`, reached only near zero rows.

    Source: SimCLR (Chen et al., 2020, arXiv 2002.05709), equation 1 and algorithm 1.

    Raises:
        ValueError: the temperature is not positive, the shapes differ or there is no row.
    """
    _check_pairs(z_a, z_b, temperature)
    with torch.autocast(z_a.device.type, enabled=False):
        z = unit_rows(torch.cat([z_a, z_b]))
        similarity = (z @ z.T) / temperature
        similarity = similarity.fill_diagonal_(float("-inf"))  # exp(-inf) = 0: no anchor is its own
        positives = torch.arange(len(z), device=z.device).roll(len(z_a))
        return F.cross_entropy(similarity, positives)


def info_nce(
    z_q: Float[Tensor, "n k"],
    z_k: Float[Tensor, "n k"],
    negatives: Float[Tensor, "m k"],
    temperature: float,
) -> Float[Tensor, ""]:
    """Cross entropy of each query's own key against negatives that all queries share.

    Row i of `z_k` is the positive of row i of `z_q`. Without negatives (an empty queue) the loss
    and its gradient are 0. Rows need no normalisation; gradients reach whatever was not detached.

    Source: MoCo (He et al., 2020, arXiv 1911.05722), equation 1.

    Raises:
        ValueError: the temperature is not positive, shapes differ or there is no query.
    """
    _check_pairs(z_q, z_k, temperature)
    if negatives.shape[1:] != z_q.shape[1:]:
        raise ValueError(
            f"negatives must be rows of the queries' width {z_q.shape[1]}, "
            f"got shape {tuple(negatives.shape)}"
        )
    with torch.autocast(z_q.device.type, enabled=False):
        q, k = unit_rows(z_q), unit_rows(z_k)
        positive = (q * k).sum(dim=1, keepdim=True)
        negative = q @ unit_rows(negatives).T
        logits = torch.cat([positive, negative], dim=1) / temperature  # [N, 1 + M]
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))


def _check_pairs(z_a: Tensor, z_b: Tensor, temperature: float) -> None:
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}")
    if z_a.shape != z_b.shape or z_a.ndim != 2:
        raise ValueError(
            "both sides must be [N, K] with row i of one belonging to row i of the other, "
            f"got shapes {tuple(z_a.shape)} and {tuple(z_b.shape)}"
        )
    if len(z_a) < 1:
        raise ValueError("a contrastive loss needs at least one row, got an empty batch")
