"""Largest singular values as differentiable functions of a matrix."""

import torch
from jaxtyping import Float
from torch import Tensor


def largest_singular_value(
    matrix: Float[Tensor, "m n"],
    left: Float[Tensor, " m"],
    gain: Float[Tensor, " m"] | None = None,
) -> Float[Tensor, ""]:
    """The largest singular value, given an estimate of its left singular vector.

    u' W v with u = left and v = W'u / |W'u|, both without gradient, so the gradient is u v'. Exact
    when `left` is the singular vector; otherwise from below, with an error of the second order.

    Args:
        matrix: W.
        left: u.
        gain: factors of the rows, for the value of diag(gain) W, which is never formed.

    Source: power iteration as in Miyato et al., 2018 (arXiv 1802.05957), appendix A.
    """
    with torch.autocast(matrix.device.type, enabled=False):
        matrix = matrix.to(torch.promote_types(matrix.dtype, torch.float32))
        left = left.detach().to(matrix.dtype)
        if gain is not None:
            left = left * gain.to(matrix.dtype)
        with torch.no_grad():
            right = unit(left @ matrix)
        return left @ (matrix @ right)


@torch.no_grad()
def power_iteration(
    matrix: Float[Tensor, "m n"],
    left: Float[Tensor, " m"],
    iterations: int = 1,
    gain: Float[Tensor, " m"] | None = None,
) -> Float[Tensor, " m"]:
    """A better estimate of the left singular vector of the largest singular value.

    Of diag(gain) times the matrix, where there is a gain.

    A matrix that is zero, such as that of a layer before a batch norm that starts at zero, leaves
    the estimate as it is, so that it can go on once the matrix is none.
    """
    matrix = matrix.to(torch.promote_types(matrix.dtype, torch.float32))
    left = left.to(matrix.dtype)
    rows = left.new_ones(()) if gain is None else gain.to(matrix.dtype)
    for _ in range(iterations):
        turned = unit(rows * (matrix @ ((rows * left) @ matrix)))
        left = torch.where(turned.any(), turned, left)
    return left


def unit(vector: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The vector at length one; a zero vector stays zero."""
    return vector / vector.norm().clamp_min(torch.finfo(vector.dtype).tiny)
