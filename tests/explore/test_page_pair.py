"""Why two images are similar: what is printed adds up to what is true."""

import re
from decimal import Decimal

import numpy as np
import pytest

PAIRS = [
    *((8, 9), (20, 21), (21, 22), (20, 23), (10, 11), (0, 1), (0, 30), (2, 45), (3, 17), (5, 59)),
    *((12, 33), (13, 14), (16, 40), (18, 52), (25, 26), (29, 58), (31, 32), (41, 50), (55, 56)),
    (34, 34),
]
ROUNDED = 5e-4 + 2e-5
"""Of a number with three decimals, made of values that are stored in 16 bits."""


ROWS = """rows => rows.map((row) => [
    row.dataset.dim ?? null,
    row.querySelector(".part").innerText,
    row.querySelector(".share")?.innerText ?? null,
])"""


def number(text):
    return Decimal(text.replace("−", "-"))


def rows_of(page):
    """Dimension, product in print, and share of each row; the rest row has no dimension."""
    rows = page.locator("table.additive tbody tr:not(.sum)").evaluate_all(ROWS)
    return [
        (
            None if k is None else int(k),
            number(part),
            None if share is None else int(share.removesuffix(" %")),
        )
        for k, part, share in rows
    ]


def check_rows(rows, products, cosine, *, signed):
    """Each row is the product of two unit vectors, and all of them are the printed cosine."""
    assert sum(part for _, part, _ in rows) == cosine
    shown = [row for row in rows if row[0] is not None]
    for k, part, share in shown:
        assert abs(float(part) - products[k]) < ROUNDED
        if signed:
            assert share is None
        else:
            assert abs(share - 100 * products[k] / products.sum()) < 1.01
    if not signed:
        assert sum(share for *_, share in rows) == 100
    sizes = [abs(products[k]) for k, *_ in shown]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("which", ["plain", "gated", "signed"])
def test_the_printed_rows_sum_to_the_cosine(request, visit, which):
    site = request.getfixturevalue(which)
    unit, signed = site.made.unit, which == "signed"
    opened = 0
    for a, b in PAIRS:
        page = visit(site, f"pair={a},{b}")
        printed = [page.locator(at).inner_text() for at in ("#cosine-value", "#sum-value")]
        assert printed[0] == printed[1]
        products = unit[a] * unit[b]
        assert abs(float(number(printed[0])) - products.sum()) < ROUNDED, (a, b)
        check_rows(rows_of(page), products, number(printed[0]), signed=signed)
        more = page.get_by_role("button", name="show", exact=True)
        if more.count():
            more.click()
            opened += 1
            rows = rows_of(page)
            check_rows(rows, products, number(printed[0]), signed=signed)
            both = (np.abs(unit[a]) > 1e-5) & (np.abs(unit[b]) > 1e-5)  # active in both
            assert {k for k, *_ in rows} - {None} == set(np.flatnonzero(both).tolist())
    assert opened > 0  # a pair with more dimensions than are shown at once was among them


def test_equal_images_have_a_cosine_of_one(visit, plain):
    page = visit(plain, "pair=8,9")
    assert page.locator("#cosine-value").inner_text() == "1.000"
    assert "B is A's neighbour 1 of 58" in page.locator("#cosine").inner_text()


def test_the_values_of_both_sides(visit, plain):
    unit = plain.made.unit
    page = visit(plain, "pair=20,21")
    for row in page.locator("table.additive tbody tr[data-dim]").all():
        k = int(row.get_attribute("data-dim"))
        a, b = row.locator("td.wide").all_inner_texts()
        assert float(a) == pytest.approx(unit[20, k], abs=5.1e-3)
        assert float(b) == pytest.approx(unit[21, k], abs=5.1e-3)


def test_where_the_second_stands_among_the_neighbours(visit, plain):
    unit = plain.made.unit
    alive = np.flatnonzero(unit.any(axis=1))
    for a, b in [(20, 21), (2, 45), (13, 14)]:
        page = visit(plain, f"pair={a},{b}")
        better = sum(unit[r] @ unit[a] > unit[b] @ unit[a] for r in alive if r not in (a, b))
        words = page.locator("#cosine").inner_text()
        assert f"B is A's neighbour {better + 1} of {len(alive) - 1}" in words


def test_a_signed_pair_has_no_shares_but_both_sums(visit, signed):
    unit = signed.made.unit
    a, b = 0, 30
    page = visit(signed, f"pair={a},{b}")
    text = page.locator("#pair").inner_text()
    assert "%" not in text
    assert page.get_by_role("columnheader", name="share").count() == 0
    said = re.search(r"Positive (\S+), negative (\S+), sum (\S+), which is the cosine", text)
    products = unit[a] * unit[b]
    expected = [products[products > 0].sum(), products[products < 0].sum(), products.sum()]
    assert [float(number(s)) for s in said.groups()] == pytest.approx(expected, abs=5.1e-3)
    for row in page.locator("table.additive tbody tr[data-dim]").all():
        k = int(row.get_attribute("data-dim"))
        negative = row.locator(".meter.signed .mark.negative").count()
        assert negative == (products[k] < 0)
    middle = page.locator(".meter.signed").first.bounding_box()
    for mark, left in ((".mark.negative", True), (".mark:not(.negative)", False)):
        box = page.locator(f".meter.signed {mark}").first.bounding_box()
        centre = middle["x"] + middle["width"] / 2
        assert (box["x"] + box["width"] <= centre + 1) if left else (box["x"] >= centre - 1)


def test_what_only_one_side_has(visit, plain):
    active = plain.made.active
    a, b = 2, 45
    page = visit(plain, f"pair={a},{b}")
    for letter, mine, other in (("A", a, b), ("B", b, a)):
        links = page.locator(".only", has_text=f"Only in {letter}").locator("li a:not([tabindex])")
        shown = {int(link.get_attribute("href").removeprefix("#dim=")) for link in links.all()}
        assert shown == set(np.flatnonzero(active[mine] & ~active[other]))


def test_leaving_a_dimension_out(visit, plain):
    z = plain.made.z
    a, b = 20, 21
    page = visit(plain, f"pair={a},{b}")
    first = page.locator("table.additive tbody tr[data-dim]").first
    k = int(first.get_attribute("data-dim"))
    first.get_by_role("checkbox").check()
    left = np.delete(z, k, axis=1)
    cosine = left[a] @ left[b] / np.linalg.norm(left[a]) / np.linalg.norm(left[b])
    length = np.linalg.norm(left, axis=1)
    alive = [r for r in range(len(z)) if length[r] > 0 and r not in (a, b)]
    better = sum(left[r] @ left[a] / length[r] / length[a] > cosine for r in alive)
    words = page.locator(".without").inner_text()
    assert float(re.search(r"the cosine is (\S+) in place", words)[1]) == pytest.approx(
        cosine, abs=ROUNDED
    )
    assert f"B is A's neighbour {better + 1} in place of" in words
    assert page.locator(f'tr[data-dim="{k}"] input').evaluate("e => e === document.activeElement")


def test_images_that_share_nothing(make_run, explore, visit):
    z = np.zeros((4, 3))
    z[0, 0], z[1, 1], z[2, :2], z[3, 2] = 1, 2, 3, 4
    site = explore(make_run(z=z, n=4, k=3, labels=None, name="apart"))
    page = visit(site, "pair=0,1")
    assert page.locator("#cosine-value").inner_text() == "0.000"
    assert "These images share no active dimension." in page.locator("#pair").inner_text()
    assert page.locator(".only").count() == 2
