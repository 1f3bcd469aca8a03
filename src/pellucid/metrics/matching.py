"""Which dimensions of one representation are found again in another of the same images."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from pellucid.metrics.activity import active_entries, unit_rows
from pellucid.metrics.checks import ROWS, checked_features
from pellucid.randomness import seeded

RECURS = 0.5
"""Half-way from permuted images (0) to the same dimension (1). For two dimensions that are active
equally often and equally strongly it means half of the active images shared beyond luck. Neither
the cosine nor significance can decide instead: any two dense non-negative columns have a high
cosine, and over thousands of images the faintest likeness is no accident."""
DRAWS = 19
"""Permutations, and rotations: a dimension without counterpart beats them all one time in 20."""
CONSTANT = 1e-10
"""Columns that vary by less than a hundred-thousandth of their length cannot be told apart."""


class Matching(NamedTuple):
    """Each dimension of the first representation, and what it is in the second.

    Dimensions that are dead or left without a partner have partner -1, sign 0, NaN elsewhere.
    """

    partner: Int[Tensor, " k"]
    """The matched column of the second."""
    sign: Int[Tensor, " k"]
    """-1 where the partner points the other way, which only signed features may; else 1."""
    cosine: Float[Tensor, " k"]
    """Cosine of the column and sign x its partner over the images, fp64."""
    chance: Float[Tensor, " k"]
    """The mean of that cosine over all permutations of the images, fp64."""
    agreement: Float[Tensor, " k"]
    """(cosine - chance) / (1 - chance), fp64: 0 for permuted images, 1 for the same dimension."""
    permuted: Float[Tensor, "p k"]
    """Agreement of the match with the second's images permuted, fp64; NaN where there is none."""
    rotated: Float[Tensor, "r k"]
    """Agreement of the match with the second's axes rotated at random, fp64; likewise."""

    @property
    def highest_by_luck(self) -> Float[Tensor, " k"]:
        """The largest agreement with permuted images or on rotated axes; NaN without a match."""
        highest = _highest(torch.cat([self.permuted, self.rotated]))
        return highest.masked_fill(highest.isinf(), torch.nan)

    @property
    def recurs(self) -> Bool[Tensor, " k"]:
        """Agreement is at least `RECURS`, and above all that luck and rotated axes gave."""
        highest = _highest(torch.cat([self.permuted, self.rotated]))
        return (self.agreement >= RECURS) & (self.agreement > highest)

    @property
    def recurs_permuted(self) -> Bool[Tensor, "p k"]:
        """What would recur if each permutation in turn were the second, by the same rule."""
        return _above_the_others(self.permuted)

    @property
    def recurs_rotated(self) -> Bool[Tensor, "r k"]:
        """What would recur if each rotation in turn were the second, by the same rule."""
        return _above_the_others(self.rotated) & (self.rotated > _highest(self.permuted))


def match_dimensions(
    a: Float[Tensor, "n k"],
    b: Float[Tensor, "n l"],
    *,
    permutations: int = DRAWS,
    rotations: int = DRAWS,
    seed: int = 0,
) -> Matching:
    """One-to-one partners of the dimensions of `a` among those of `b`, and how far they agree.

    Rows are scaled to unit length. Two columns agree by (cosine - chance) / (1 - chance), chance
    being the mean of their cosine over all permutations of the images: corrected as kappa is, but
    exactly and pair by pair, from the means of the columns. It is Lin's concordance of the two
    columns at unit length. Partners are those whose agreement sums highest (Hungarian algorithm);
    by the plain cosine, dense columns would be given to dense columns whatever they say. When `a`
    or `b` has a negative entry, the sign of a dimension means nothing and the better one counts.
    Columns that do not vary agree by 0, even with themselves: no image tells them apart. Dead
    columns (|z| <= 1e-5 on every image) match nothing.

    Two levels say what a match is worth, each the same search in a second that shares no
    dimension with the first by construction:
    permuted images, what the search finds by luck among many columns; and rotated axes, b times a
    random orthogonal matrix, what it finds in any basis of the same space. A loss of inner
    products such as SimCLR's cannot tell a space from a rotated one. Where few directions carry
    most of it, every dimension has a lookalike in every run, and just as good ones on rotated axes.

    Args:
        a: the representation whose dimensions are sought.
        b: where they are sought: the same images in the same order.
        permutations: of the images of `b`, at least 1.
        rotations: of the live dimensions of `b`, at least 1.
        seed: of both.

    Sources: Lin, A concordance correlation coefficient (Biometrics 1989), equation 3; matched over
    seeds by the Hungarian algorithm in arXiv 2501.16615. Identity up to rotation in contrastive,
    up to order in non-negative contrastive learning: NCL (arXiv 2403.12459).

    Raises:
        TypeError, ValueError: a or b are unfit or not of the same number of images, or there is
            no permutation or no rotation.
    """
    a, b = checked_features(a, "a"), checked_features(b, "b").to(a.device)
    if len(a) != len(b):
        raise ValueError(f"a and b must be of the same images, got {len(a)} and {len(b)} of them")
    if permutations < 1 or rotations < 1:
        raise ValueError(
            "a match needs at least 1 permutation and 1 rotation to stand beside, "
            f"got {permutations} and {rotations}"
        )
    signed = bool((a < 0).any()) or bool((b < 0).any())
    live = active_entries(a).any(dim=0).nonzero().flatten()
    live_b = active_entries(b).any(dim=0).nonzero().flatten()
    ours, theirs = _columns(a, live), _columns(b, live_b)
    covariance = _covariance(ours, theirs, torch.arange(len(a), device=a.device))
    pairs = _compare(covariance, ours, theirs, signed)
    row, column = _assign(pairs.agreement)
    matched = live[row]

    def per_dimension(values: Tensor) -> Tensor:
        found = values.new_full((a.shape[1],), torch.nan)
        found[matched] = values[row, column]
        return found

    partner = torch.full((a.shape[1],), -1, dtype=torch.int64, device=a.device)
    partner[matched] = live_b[column]
    sign = torch.zeros_like(partner)
    sign[matched] = pairs.sign[row, column].long()
    levels = torch.full(
        (permutations + rotations, a.shape[1]), torch.nan, dtype=torch.float64, device=a.device
    )
    levels[:, live] = torch.stack(
        [
            _best(agreement)
            for agreements in (
                _permuted(ours, theirs, signed, seed, permutations),
                _rotated(covariance, ours, theirs, seed, rotations),
            )
            for agreement in agreements
        ]
    )
    return Matching(
        partner=partner,
        sign=sign,
        cosine=per_dimension(pairs.cosine),
        chance=per_dimension(pairs.chance),
        agreement=per_dimension(pairs.agreement),
        permuted=levels[:permutations],
        rotated=levels[permutations:],
    )


class _Columns(NamedTuple):
    """Live columns of unit rows, and their statistics over images in fp64."""

    rows: Float[Tensor, "n k"]
    mean: Float[Tensor, " k"]
    length: Float[Tensor, " k"]


class _Pairs(NamedTuple):
    """All columns of one against all of another, [K, L]."""

    sign: Tensor
    cosine: Tensor
    chance: Tensor
    agreement: Tensor


def _columns(features: Float[Tensor, "n k"], live: Int[Tensor, " live"]) -> _Columns:
    rows = torch.cat([unit_rows(some)[:, live] for some in torch.split(features, ROWS)])
    blocks = torch.split(rows, ROWS)
    total = torch.stack([some.sum(dim=0, dtype=torch.float64) for some in blocks]).sum(dim=0)
    square = torch.stack([some.double().square().sum(dim=0) for some in blocks]).sum(dim=0)
    return _Columns(rows, total / len(rows), square.sqrt())


def _covariance(ours: _Columns, theirs: _Columns, order: Int[Tensor, " n"]) -> Float[Tensor, "k l"]:
    """Sums over images of products of centred columns, the images of the second in this order."""
    total = ours.mean.new_zeros(len(ours.mean), len(theirs.mean))
    for rows, images in zip(torch.split(ours.rows, ROWS), torch.split(order, ROWS), strict=True):
        # Centring one side is enough, and is done first: afterwards, what nearly constant columns
        # share would have drowned in rounding.
        total += (rows.double() - ours.mean).T @ theirs.rows[images].double()
    return total


def _compare(
    covariance: Float[Tensor, "k l"], ours: _Columns, theirs: _Columns, signed: bool
) -> _Pairs:
    images, lengths = len(ours.rows), torch.outer(ours.length, theirs.length)
    chance = images * torch.outer(ours.mean, theirs.mean) / lengths
    excess = covariance / lengths
    sign = torch.ones_like(excess)
    if signed:
        sign[excess < 0] = -1  # the sign of what is left beyond chance, not of the cosine
    room = 1 - sign * chance
    agreement = (sign * excess / room).where(room > CONSTANT, torch.zeros_like(excess))
    # Rounding may lead out of the range of a cosine.
    cosine, chance = ((sign * values).clamp(-1, 1) for values in (excess + chance, chance))
    return _Pairs(sign, cosine, chance, agreement.clamp(max=1))


def _permuted(
    ours: _Columns, theirs: _Columns, signed: bool, seed: int, permutations: int
) -> Iterator[Float[Tensor, "k l"]]:
    for number in range(permutations):
        order = torch.randperm(
            len(ours.rows), generator=seeded(seed, "permuted images", number)
        ).to(ours.rows.device)
        yield _compare(_covariance(ours, theirs, order), ours, theirs, signed).agreement


def _rotated(
    covariance: Float[Tensor, "k l"], ours: _Columns, theirs: _Columns, seed: int, rotations: int
) -> Iterator[Float[Tensor, "k l"]]:
    """Agreement with theirs @ a random orthogonal matrix, from sums over images alone."""
    count = len(theirs.mean)
    root = _covariance(theirs, theirs, torch.arange(len(theirs.rows), device=theirs.rows.device))
    products = root + len(theirs.rows) * torch.outer(theirs.mean, theirs.mean)
    for number in range(rotations):
        normal = torch.randn(
            count, count, dtype=torch.float64, generator=seeded(seed, "rotated axes", number)
        )
        # With R's diagonal made positive Q is uniform over all rotations (arXiv math-ph/0609050).
        q, r = torch.linalg.qr(normal)
        rotation = (q * torch.where(r.diagonal() < 0, -1.0, 1.0)).to(covariance.device)
        square = (
            ((products @ rotation) * rotation).sum(dim=0).clamp(min=torch.finfo(torch.float64).tiny)
        )
        rotated = theirs._replace(mean=theirs.mean @ rotation, length=square.sqrt())
        yield _compare(covariance @ rotation, ours, rotated, signed=True).agreement


def _assign(agreement: Float[Tensor, "k l"]) -> tuple[Int[Tensor, " m"], Int[Tensor, " m"]]:
    """Row and column of each pair of the one-to-one assignment whose sum is highest."""
    row, column = linear_sum_assignment(agreement.cpu().numpy(), maximize=True)
    return torch.from_numpy(row).to(agreement.device), torch.from_numpy(column).to(agreement.device)


def _best(agreement: Float[Tensor, "k l"]) -> Float[Tensor, " k"]:
    """Each row's agreement with the column that it is assigned; NaN without one."""
    row, column = _assign(agreement)
    best = agreement.new_full((len(agreement),), torch.nan)
    best[row] = agreement[row, column]
    return best


def _highest(levels: Float[Tensor, "r k"]) -> Float[Tensor, " k"]:
    """Over draws; minus infinity where no draw has a match."""
    return levels.nan_to_num(nan=-math.inf).amax(dim=0)


def _above_the_others(levels: Float[Tensor, "r k"]) -> Bool[Tensor, "r k"]:
    """Where a draw reaches `RECURS` and leads all other draws of its dimension."""
    known = levels.nan_to_num(nan=-math.inf)
    others = torch.full_like(known, -math.inf)
    if len(known) > 1:
        first, second = known.topk(2, dim=0).values
        others = torch.where(known == first, second, first)
    return (known >= RECURS) & (known > others)
