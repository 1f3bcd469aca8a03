"""Entropy of a batch of projections and its divergence from another, under Gaussian assumption.

Rows are scaled to unit length first: without that, scaling by 10 adds K log 10 to an entropy. The
covariance S of the rows (over n, centred) is shrunk to (1 - shrinkage) S + shrinkage / K I, whose
target is the covariance of rows that are uniform on the sphere. A batch smaller than K, duplicates
and dead dimensions then leave both values finite, and their determinants are taken of the smaller
of the n x n and the K x K form.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.losses.contrastive import unit_rows

SHRINKAGE = 0.1


def gaussian_entropy(u: Float[Tensor, "n k"], shrinkage: float = SHRINKAGE) -> Float[Tensor, ""]:
    """Entropy in nats of the Gaussian with the shrunk covariance of the unit rows of u.

    H = (K log(2 pi e) + log det Sigma) / 2. It lies between K/2 log(2 pi e shrinkage / K), for a
    batch of one point, and K/2 log(2 pi e / K), for rows uniform on the sphere: only K log(1 /
    shrinkage) / 2 nats can be gained at all.

    Source: the entropy term of IE-CL (arXiv 2603.12594) under its Gaussian assumption; unit rows
    and shrinkage are ours.

    Raises:
        ValueError: u is not [N, K] with a row and a column, or shrinkage is not above 0 and at
            most 1.
    """
    _check(u, shrinkage)
    with torch.autocast(u.device.type, enabled=False):
        factor, _ = _centred(unit_rows(u), shrinkage)
        k = u.shape[1]
        return (k * math.log(2 * math.pi * math.e) + _log_det(factor, shrinkage / k)) / 2


def gaussian_kl(
    query: Float[Tensor, "n k"], anchor: Float[Tensor, "m k"], shrinkage: float = SHRINKAGE
) -> Float[Tensor, ""]:
    """KL(query || anchor) in nats of the Gaussians with the means and shrunk covariances of rows.

    (tr(Sa^-1 Sq) + (ma - mq)' Sa^-1 (ma - mq) - K + log det Sa - log det Sq) / 2. The anchor's
    statistics carry no gradient. It holds -H(query): weighing it by beta also weighs the query's
    entropy by beta.

    Source: the KL term of IE-CL (arXiv 2603.12594); unit rows and shrinkage are ours.

    Raises:
        ValueError: the widths differ, or as for `gaussian_entropy`.
    """
    _check(query, shrinkage)
    _check(anchor, shrinkage)
    if query.shape[1] != anchor.shape[1]:
        raise ValueError(
            f"query and anchor must have one width, got {query.shape[1]} and {anchor.shape[1]}"
        )
    with torch.autocast(query.device.type, enabled=False):
        q, q_mean = _centred(unit_rows(query), shrinkage)
        a, a_mean = _centred(unit_rows(anchor).detach(), shrinkage)
        k = query.shape[1]
        c = shrinkage / k
        divisor = _Divisor(a, c)
        floor = math.sqrt(c) * torch.eye(k, dtype=q.dtype, device=q.device)
        apart = (q_mean - a_mean)[None]
        distance = divisor.quadratic(q) + divisor.quadratic(floor) + divisor.quadratic(apart)
        return (distance - k + _log_det(a, c) - _log_det(q, c)) / 2


def nearest_neighbour_entropy(u: Float[Tensor, "n k"]) -> Float[Tensor, ""]:
    """Entropy in nats of the unit rows of u by the distances to their nearest neighbours.

    H = (K - 1) mean(log distance) + log(n - 1) + log(volume of the unit (K - 1)-ball) + Euler's
    constant: on the sphere, of K - 1 dimensions, where it is at most the log of the sphere's area;
    in R^K it would be minus infinity. No Gaussian assumption, and a large variance for few rows.
    Distances are sqrt(d^2 + 1e-12), so that duplicates stay finite.

    Source: Kozachenko and Leonenko, 1987; the second estimator beside `gaussian_entropy`.

    Raises:
        ValueError: u is not [N, K] with at least two rows and two columns.
    """
    _check(u, SHRINKAGE)
    n, k = u.shape
    if n < 2 or k < 2:
        raise ValueError(f"neighbours on a sphere need N and K of at least 2, got {n} and {k}")
    sphere = k - 1  # its dimension
    with torch.autocast(u.device.type, enabled=False):
        rows = unit_rows(u)
        with torch.no_grad():
            similarity = (rows @ rows.T).fill_diagonal_(-math.inf)
            nearest = similarity.argmax(dim=1)
        # The difference, not 2 - 2 cos: that cancels where neighbours are close.
        squared = (rows - rows[nearest]).square().sum(dim=1)
        log_ball = sphere / 2 * math.log(math.pi) - math.lgamma(sphere / 2 + 1)
        gamma = 0.57721566490153286
        spread = sphere / 2 * torch.log(squared + 1e-12).mean()
        return spread + math.log(n - 1) + log_ball + gamma


def _centred(rows: Tensor, shrinkage: float) -> tuple[Tensor, Tensor]:
    """F [n, K] with F'F = (1 - shrinkage) covariance, and the mean [K]."""
    mean = rows.mean(dim=0)
    return (rows - mean) * math.sqrt((1 - shrinkage) / len(rows)), mean


def _gram(factor: Tensor) -> Tensor:
    n, k = factor.shape
    return factor @ factor.T if n < k else factor.T @ factor


def _log_det(factor: Tensor, c: float) -> Tensor:
    """Log-determinant of c I + F'F, of the K x K or the n x n form, which are equal (Sylvester)."""
    gram = _gram(factor)
    one = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    diagonal = _cholesky(one + gram / c).diagonal()
    return factor.shape[1] * math.log(c) + 2 * diagonal.log().sum()


class _Divisor:
    """Quadratic forms sum_i v_i' (c I + F'F)^-1 v_i of the rows of V [m, K]."""

    def __init__(self, factor: Tensor, c: float) -> None:
        self.factor, self.c = factor, c
        gram = _gram(factor)
        one = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        self.lower = _cholesky(c * one + gram)

    def quadratic(self, rows: Tensor) -> Tensor:
        n, k = self.factor.shape
        if n >= k:
            return _solve(self.lower, rows.T).square().sum()
        inside = _solve(self.lower, self.factor @ rows.T)  # Woodbury
        return (rows.square().sum() - inside.square().sum()) / self.c


def _cholesky(matrix: Tensor) -> Tensor:
    """The lower factor; NaN of NaN, for a log to name, where torch's own check would raise."""
    lower: Tensor = torch.linalg.cholesky_ex(matrix).L
    return lower


def _solve(lower: Tensor, right: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(lower, right, upper=False)


def _check(u: Tensor, shrinkage: float) -> None:
    if u.ndim != 2 or u.shape[0] < 1 or u.shape[1] < 1:
        raise ValueError(f"u must be [N, K] with a row and a column, got shape {tuple(u.shape)}")
    if not 0 < shrinkage <= 1:
        raise ValueError(f"shrinkage must be above 0 and at most 1, got {shrinkage}")
