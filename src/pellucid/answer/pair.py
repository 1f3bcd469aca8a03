"""Why two images are similar: their cosine, dimension by dimension."""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.metrics.activity import active_entries

THOUSANDTH = Decimal("0.001")


class Contribution(NamedTuple):
    """What one dimension adds to a sum over dimensions."""

    dimension: int
    a: float
    """Value in the first row, of unit length."""
    b: float
    """Value in the second row, of unit length."""
    value: float
    """What the dimension adds: a x b in a cosine."""
    share: float | None
    """`value` over the sum, 0..1; None where a negative one makes shares meaningless."""


class Pair(NamedTuple):
    """Two rows of one representation, compared."""

    cosine: float | None
    """None where one of them is zero: it has no direction."""
    shared: list[Contribution]
    """Of the dimensions active in both, the largest |contribution| first, ties by dimension."""
    positive: float
    """Sum of the positive contributions, of all dimensions."""
    negative: float
    """Sum of the negative contributions, of all dimensions; 0 for non-negative rows."""
    only_a: list[tuple[int, float]]
    """Dimensions active in the first row alone, with its unit values, the largest first."""
    only_b: list[tuple[int, float]]

    @property
    def signed(self) -> bool:
        """Whether contributions cancel, so that none is a share of the cosine."""
        return self.negative < 0


def explain(a: Float[Tensor, " k"], b: Float[Tensor, " k"], *, signed: bool = False) -> Pair:
    """The cosine of two rows as a sum over dimensions, in float64.

    The contribution of dimension k is a_k b_k / (|a| |b|). They sum to the cosine for any two
    rows; where none is negative, each is also a share of it. A dimension is active where the
    metrics call it so (`metrics.activity.ACTIVE`). In a `signed` representation there are no
    shares, also where these two rows happen to have no negative contribution.
    """
    active_a, active_b = active_entries(torch.stack([a, b]))
    x, y = _unit(a), _unit(b)
    values = x * y
    cosine = values.sum().item()
    shared = _descending(values, active_a & active_b)
    whole = not signed and bool((values >= 0).all()) and cosine > 0
    return Pair(
        cosine=cosine if bool(a.any()) and bool(b.any()) else None,
        shared=[
            Contribution(k, x[k].item(), y[k].item(), value, value / cosine if whole else None)
            for k, value in shared
        ],
        positive=values.clamp(min=0).sum().item(),
        negative=values.clamp(max=0).sum().item(),
        only_a=_descending(x, active_a & ~active_b),
        only_b=_descending(y, active_b & ~active_a),
    )


def weighed(pair: Pair, frequency: Float[Tensor, " k"]) -> list[Contribution]:
    """Contributions over the share of images that a dimension is active on: rare ones count more.

    This is the sum of the theory of BayesNCL (arXiv 2605.28441), and not the cosine that a model
    was trained with.

    Args:
        pair: from `explain`.
        frequency: share of images on which each dimension is active, 0..1.

    Returns:
        The shared dimensions, the largest |contribution| first; shares are of their sum.
    """
    values = {row.dimension: row.value / frequency[row.dimension].item() for row in pair.shared}
    total = sum(values.values())
    rows = [
        row._replace(
            value=values[row.dimension],
            share=None if row.share is None else values[row.dimension] / total,
        )
        for row in pair.shared
    ]
    return sorted(rows, key=lambda row: (-abs(row.value), row.dimension))


def cosine_without(a: Float[Tensor, " k"], b: Float[Tensor, " k"], dimension: int) -> float | None:
    """The cosine of what is left of two rows without a dimension, scaled to unit length again.

    None where nothing is left of one of them.
    """
    kept = torch.arange(len(a)) != dimension
    x, y = a[kept], b[kept]
    if not (bool(x.any()) and bool(y.any())):
        return None
    return (_unit(x) * _unit(y)).sum().item()


class Line(NamedTuple):
    """A contribution as it is printed."""

    row: Contribution
    value: Decimal
    """To three decimals."""
    share: Decimal | None
    """In whole per cent."""


class Printed(NamedTuple):
    """A sum as it is printed: what is shown adds up, digit by digit."""

    lines: list[Line]
    further: int
    """Contributions that are not shown one by one."""
    rest: Decimal
    """The printed sum minus the printed lines: the further ones, and what rounding took."""
    rest_share: Decimal | None
    total: Decimal


def printed(rows: Sequence[Contribution], total: float, top: int) -> Printed:
    """The first `top` contributions and the rest, rounded so that they add up to the total.

    Args:
        rows: in the order of printing.
        total: what all contributions sum to.
        top: how many to show, at least 1.

    Raises:
        ValueError: `top` is below 1.
    """
    if top < 1:
        raise ValueError(f"at least 1 dimension must be shown, not {top}")
    known = [row.share for row in rows[:top] if row.share is not None]
    shares = percentages([*known, max(0.0, 1 - sum(known))]) if known else []
    lines = [
        Line(row, rounded(row.value, THOUSANDTH), shares[place] if shares else None)
        for place, row in enumerate(rows[:top])
    ]
    whole = rounded(total, THOUSANDTH)
    return Printed(
        lines,
        further=max(0, len(rows) - top),
        rest=whole - sum((line.value for line in lines), Decimal(0)),
        rest_share=shares[-1] if shares else None,
        total=whole,
    )


def percentages(shares: Sequence[float]) -> list[Decimal]:
    """Shares that sum to 1 as whole per cent that sum to 100, by the largest remainders."""
    exact = [100 * share for share in shares]
    whole = [math.floor(value) for value in exact]
    order = sorted(range(len(exact)), key=lambda place: (whole[place] - exact[place], place))
    for place in order[: max(0, 100 - sum(whole))]:
        whole[place] += 1
    return [Decimal(value) for value in whole]


def rounded(value: float, step: Decimal) -> Decimal:
    """A value to the decimals of `step`, never a negative zero."""
    return Decimal(value).quantize(step) + 0


def _unit(row: Tensor) -> Tensor:
    row = row.double()
    length: Tensor = torch.linalg.vector_norm(row)
    return row / length if bool(length > 0) else row


def _descending(values: Tensor, chosen: Tensor) -> list[tuple[int, float]]:
    dimensions = chosen.nonzero().flatten()
    order = values[dimensions].abs().argsort(descending=True, stable=True)
    return [(int(k), values[k].item()) for k in dimensions[order]]
