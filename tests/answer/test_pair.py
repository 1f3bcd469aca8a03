import math
from decimal import Decimal
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.answer.pair import cosine_without, explain, printed, rounded, weighed

VALUES = st.sampled_from([0.0, 0.0, 1e-7, 0.1, 0.3, 1.0, 2.5, -0.2, -1.5])


def row(*values):
    return torch.tensor(values)


def cosine_of(a, b):
    """By slow loops over exact fractions."""
    x, y = [Fraction(v) for v in a.tolist()], [Fraction(v) for v in b.tolist()]
    dot = sum((p * q for p, q in zip(x, y, strict=True)), Fraction(0))
    lengths = sum((p * p for p in x), Fraction(0)) * sum((q * q for q in y), Fraction(0))
    return float(dot) / math.sqrt(lengths)


@pytest.fixture
def rows():
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(40, 12, generator=generator) * torch.tensor(10.0) ** torch.arange(-4, 8)
    return z, z.relu()


@pytest.mark.parametrize("signed", [True, False])
def test_contributions_sum_to_the_cosine(rows, signed):
    z = rows[0] if signed else rows[1]
    for a, b in zip(z[:20], z[20:], strict=True):
        if not (a.any() and b.any()):
            continue
        pair = explain(a, b)
        assert pair.cosine == pytest.approx(cosine_of(a, b), abs=1e-14)
        assert pair.positive + pair.negative == pytest.approx(pair.cosine, abs=1e-14)
        length = math.hypot(*a.tolist()) * math.hypot(*b.tolist())
        for one in pair.shared:
            expected = a[one.dimension].item() * b[one.dimension].item() / length
            assert one.value == pytest.approx(expected, rel=1e-12)
            assert one.value == pytest.approx(one.a * one.b, rel=1e-12)


def test_a_pair_worked_by_hand():
    # |a| = |b| = 5; dimension 3 is below the metrics' threshold in a, and so active in b alone.
    a, b = row(3.0, 4.0, 0.0, 4e-5, 0.0), row(4.0, 0.0, 0.0, 3.0, 0.0)
    pair = explain(a, b)
    assert [one.dimension for one in pair.shared] == [0]
    assert (pair.shared[0].a, pair.shared[0].b) == pytest.approx((0.6, 0.8))
    assert pair.shared[0].share == pytest.approx(1, abs=1e-4)
    assert pair.cosine == pytest.approx(0.48, abs=1e-5)
    assert [k for k, _ in pair.only_a] == [1]
    assert [k for k, _ in pair.only_b] == [3]
    assert pair.only_b[0][1] == pytest.approx(0.6)
    assert not pair.signed


def test_the_largest_come_first_and_ties_by_dimension():
    pair = explain(row(1.0, 2.0, -3.0, 2.0), row(1.0, 1.0, 1.0, 1.0))
    assert [one.dimension for one in pair.shared] == [2, 1, 3, 0]


def test_shares_sum_to_one_where_nothing_cancels(rows):
    pair = explain(rows[1][0], rows[1][0])
    assert sum(one.share for one in pair.shared) == pytest.approx(1)
    assert pair.cosine == pytest.approx(1)


def test_where_contributions_cancel_there_is_no_share():
    pair = explain(row(1.0, 1.0, 1.0), row(1.0, 1.0, -1.0))
    assert pair.signed
    assert [one.share for one in pair.shared] == [None] * 3
    assert (pair.positive, pair.negative) == pytest.approx((2 / 3, -1 / 3))


def test_two_negative_values_make_a_positive_contribution():
    pair = explain(row(-1.0, 1.0), row(-1.0, 1.0))
    assert not pair.signed
    assert [one.share for one in pair.shared] == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(("a", "b"), [((0.0, 0.0), (1.0, 0.0)), ((0.0, 0.0), (0.0, 0.0))])
def test_a_zero_row_has_no_cosine(a, b):
    for pair in (explain(row(*a), row(*b)), explain(row(*b), row(*a))):
        assert pair.cosine is None
        assert pair.shared == []
        assert math.isfinite(pair.positive)


def test_no_shared_dimension():
    pair = explain(row(1.0, 0.0, 2.0), row(0.0, 1.0, 0.0))
    assert pair.cosine == 0
    assert pair.shared == []
    assert [k for k, _ in pair.only_a] == [2, 0]
    assert [k for k, _ in pair.only_b] == [1]
    assert printed(pair.shared, 0.0, 8).rest == 0


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_length_of_rows_does_not_matter(rows, scale):
    a, b = torch.randn(2, 6, generator=torch.Generator().manual_seed(1))
    assert explain(a * scale, b * scale).cosine == pytest.approx(cosine_of(a, b), abs=1e-6)


def test_without_a_dimension_rows_are_renormalised():
    a, b = row(3.0, 4.0, 12.0), row(4.0, 3.0, 0.0)
    assert cosine_without(a, b, 2) == pytest.approx(24 / 25)
    assert cosine_without(a, b, 0) == pytest.approx(cosine_of(a[1:], b[1:]))
    assert cosine_without(row(0.0, 1.0), row(1.0, 1.0), 1) is None  # nothing is left of a
    assert cosine_without(row(1.0, 1.0), row(0.0, 1.0), 1) is None


def test_rare_dimensions_weigh_more():
    pair = explain(row(2.0, 1.0), row(2.0, 1.0))
    rows = weighed(pair, torch.tensor([0.8, 0.1]))
    assert [one.dimension for one in rows] == [1, 0]
    assert [one.value for one in rows] == pytest.approx([0.2 / 0.1, 0.8 / 0.8])
    assert [one.share for one in rows] == pytest.approx([2 / 3, 1 / 3])


@given(
    st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=30),
    st.integers(min_value=1, max_value=12),
)
@settings(max_examples=300, deadline=None)
def test_printed_rows_sum_to_the_printed_cosine(values, top):
    a, b = (torch.tensor(side) for side in zip(*values, strict=True))
    pair = explain(a, b)
    if pair.cosine is None:
        return
    shown = printed(pair.shared, pair.cosine, top)
    texts = [str(line.value) for line in shown.lines] + [str(shown.rest)]
    assert sum(map(Decimal, texts)) == Decimal(f"{pair.cosine:.3f}")
    assert str(shown.total) == f"{pair.cosine:.3f}".replace("-0.000", "0.000")
    assert "-0.000" not in texts
    assert len(shown.lines) + shown.further == len(pair.shared)
    for line in shown.lines:
        assert abs(float(line.value) - line.row.value) <= 5e-4 + 1e-12
    # The rest is the sum of what is not shown, but for roundings and inactive dimensions.
    hidden = sum(one.value for one in pair.shared[top:])
    assert abs(float(shown.rest) - hidden) <= 5e-4 * (len(shown.lines) + 1) + 1e-5 * len(values)
    if shown.rest_share is None:
        assert pair.signed or not pair.shared or pair.cosine <= 0
    else:
        assert sum(int(line.share) for line in shown.lines) + int(shown.rest_share) == 100


def test_the_rest_holds_what_rounding_took():
    rows = explain(row(1.0, 1.0, 1.0), row(1.0, 1.0, 1.0))
    shown = printed(rows.shared, rows.cosine, 3)
    assert [str(line.value) for line in shown.lines] == ["0.333"] * 3
    assert (str(shown.rest), shown.further) == ("0.001", 0)
    assert [line.share for line in shown.lines] == [34, 33, 33]  # by the largest remainders
    assert shown.rest_share == 0


def test_printed_shares_are_never_over_100_per_cent():
    rows = explain(row(0.168, 0.168, 0.164), row(1.0, 1.0, 1.0))
    shown = printed(rows.shared, rows.cosine, 3)
    assert [line.share for line in shown.lines] == [34, 33, 33]
    assert sum(line.share for line in shown.lines) + shown.rest_share == 100


def test_a_signed_representation_has_no_shares_even_where_nothing_cancels():
    rows = explain(row(1.0, 2.0), row(1.0, 1.0), signed=True)
    assert [one.share for one in rows.shared] == [None, None]


def test_a_negative_zero_is_printed_as_zero():
    assert str(rounded(-1e-9, Decimal("0.001"))) == "0.000"


def test_at_least_one_dimension_is_shown():
    with pytest.raises(ValueError, match="at least 1"):
        printed([], 0.0, 0)
