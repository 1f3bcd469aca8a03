"""Dimensions in the list and on their cards: numbers, pictures and order, against numpy."""

import re

import numpy as np
import pytest

LIST = """rows => rows.map((row) => ({
    k: Number(row.dataset.dim),
    id: row.querySelector("th").innerText,
    href: row.querySelector("th a").getAttribute("href"),
    cells: Object.fromEntries([...row.querySelectorAll("td[data-head]")]
        .map((cell) => [cell.dataset.head, cell.innerText])),
    alts: [...row.querySelectorAll("img")].map((image) => image.alt),
    flags: row.querySelector(".flags")?.innerText ?? "",
}))"""
ALTS = "all => all.map((image) => image.alt)"


def listed(page):
    return page.locator("#list-rows tbody tr").evaluate_all(LIST)


def show_all(page):
    page.get_by_role("combobox", name="show", exact=True).select_option("all")


def consistency(made, k):
    """The largest class's part of a dimension's class rates."""
    rates = [made.active[made.labels == c, k].mean() for c in range(3)]
    return max(rates) / sum(rates) if sum(rates) else None


def sort_by(page, head):
    page.locator("#list-rows thead").get_by_role("button", name=head, exact=False).first.click()


def test_ids_are_the_columns_of_the_model(visit, plain):
    made = plain.made
    page = visit(plain, "dimensions")
    show_all(page)
    sort_by(page, "consistency")
    rows = listed(page)
    assert len(rows) == 12
    values = [consistency(made, row["k"]) for row in rows]
    known = [value for value in values if value is not None]
    assert values[: len(known)] == sorted(known, reverse=True)
    assert [row["k"] for row in rows] != sorted(row["k"] for row in rows)
    for row, value in zip(rows, values, strict=True):
        k = row["k"]
        assert (row["id"], row["href"]) == (str(k), f"#dim={k}")
        assert row["cells"]["images"] == str(made.active[:, k].sum())
        on = float(row["cells"]["on"].removesuffix(" %"))
        assert on == pytest.approx(100 * made.active[:, k].mean(), abs=0.51)
        if value is None:
            assert row["cells"]["consistency"] == "not defined"
        else:
            assert float(row["cells"]["consistency"]) == pytest.approx(value, abs=5.1e-3)
    sort_by(page, "dim")
    assert [row["k"] for row in listed(page)] == list(range(12))


def test_the_card_of_the_last_dimension_is_that_of_the_last_column(visit, plain):
    made, k = plain.made, 11
    page = visit(plain, "dimensions")
    show_all(page)
    sort_by(page, "consistency")
    page.locator("#list-rows").get_by_role("link", name=str(k), exact=True).click()
    assert page.locator("#dim h2").inner_text() == "Dimension 11"
    values = made.unit[made.active[:, k], k]
    words = page.locator("#dim .summary").inner_text()
    said = re.match(r"Active on (\d+) of (\d+) images \((\S+) %\); mean when active (\S+), largest"
                    r" (\S+)\. ", words)  # fmt: skip
    assert [int(said[1]), int(said[2])] == [len(values), 60]
    assert float(said[3]) == pytest.approx(100 * len(values) / 60, abs=0.51)
    assert [float(said[4]), float(said[5])] == pytest.approx(
        [values.mean(), values.max()], abs=5.1e-3
    )
    assert made.active[:, 10].sum() != len(values)  # or its neighbour's numbers would do


def test_flags_and_kinds(visit, plain):
    page = visit(plain, "dimensions")
    page.get_by_label("images from", exact=True).fill("0")
    for kind, expected in (
        ("all", set(range(12))), ("live", set(range(12)) - {3}), ("dead", {3}), ("always", {4}),
        ("doubles", {5, 6}), ("rare", {0, 1}), ("named", set()),
    ):  # fmt: skip
        page.get_by_role("combobox", name="show", exact=True).select_option(kind)
        assert {row["k"] for row in listed(page)} == expected, kind
        count = page.locator("#list-count").inner_text()
        assert count == f"{len(expected)} of 12 dimensions shown"
    show_all(page)
    flags = {row["k"]: row["flags"] for row in listed(page)}
    assert flags[3] == "dead"
    assert "always on" in flags[4]
    assert "near-duplicate of 6" in flags[5]
    assert "few images" in flags[1]
    page.get_by_label("images from", exact=True).fill("10")
    page.get_by_role("combobox", name="show", exact=True).select_option("live")
    assert {row["k"] for row in listed(page)} == {
        k for k in range(12) if plain.made.active[:, k].sum() >= 10
    }


def test_every_picture_is_of_the_image_that_it_names(visit, plain, colours):
    made = plain.made
    page = visit(plain, "dimensions")

    def check(place):
        pictures = page.locator(f"{place} img")
        alts = pictures.evaluate_all(ALTS)
        assert len(alts) > 10
        named = [(alt, image) for alt, image in zip(alts, colours(pictures), strict=True) if alt]
        assert named
        for alt, image in named:
            assert alt.startswith(f"{made.names[image]}, {made.classes[made.labels[image]]}")

    check("#list-rows")
    show_all(page)
    for head in ("on", "consistency", "dim", "dim"):
        sort_by(page, head)
        check("#list-rows")
    page.get_by_role("combobox", name="top class", exact=True).select_option("0")
    check("#list-rows")
    page.locator("#list-rows").get_by_role("link", name="0", exact=True).click()
    assert page.locator("#dim h2").inner_text() == "Dimension 0"
    check("#dim")
    visit(plain, "images")
    page.get_by_role("combobox", name="sort by", exact=True).select_option("most")
    check("#grid")
    page.get_by_role("combobox", name="class", exact=True).select_option("1")
    check("#grid")


def test_the_picture_of_a_dimension_is_its_strongest_image(visit, plain, colours):
    made = plain.made
    page = visit(plain, "img=20")
    rows = page.locator(".dictionary li").evaluate_all(
        "all => all.map((li) => [li.querySelector('a:not([tabindex])').hash, "
        "li.querySelector('.number').innerText])"
    )
    icons = colours(page.locator(".dictionary li img"))
    ks = [int(href.removeprefix("#dim=")) for href, _ in rows]
    assert ks == sorted(np.flatnonzero(made.active[20]), key=lambda k: -made.unit[20, k])
    assert icons == [int(np.argmax(made.unit[:, k])) for k in ks]
    for k, (_, value) in zip(ks, rows, strict=True):
        assert float(value) == pytest.approx(made.unit[20, k], abs=5.1e-3)


def strip(page, kind):
    shots = page.locator(f'#dim [data-kind="{kind}"] a')
    return shots.evaluate_all("all => all.map((a) => [Number(a.hash.slice(5)), a.innerText])")


@pytest.mark.parametrize("k", [0, 5])
def test_random_images_come_first_and_misses_are_shown(visit, plain, k):
    made = plain.made
    page = visit(plain, f"dim={k}")
    heads = page.locator("#dim h3").all_inner_texts()
    assert heads[:4] == ["Random active images", "Strongest", "By strength", "Misses"]
    active = set(np.flatnonzero(made.active[:, k]))
    random = [image for image, _ in strip(page, "random")]
    assert len(set(random)) == len(random) == min(9, len(active))
    assert set(random) <= active
    column = made.unit[:, k]
    order = sorted(active, key=lambda i: (-round(column[i], 9), i))[:9]
    strongest = strip(page, "strongest")
    assert [image for image, _ in strongest] == order
    for image, value in strongest:
        assert float(value) == pytest.approx(column[image], abs=5.1e-3)
    missed = [image for image, _ in strip(page, "misses")]
    assert len(missed) == 6
    assert not set(missed) & active
    assert missed == nearest_without(made, k, order)[:6]
    page.reload()
    page.locator("body[data-ready]").wait_for()
    assert [image for image, _ in strip(page, "random")] == random
    page.get_by_role("button", name="show others").click()
    others = [image for image, _ in strip(page, "random")]
    assert set(others) <= active
    assert others != random


def nearest_without(made, k, strongest):
    """Images with the dimension off, by their cosine with the mean of some in all the others."""
    left = np.delete(made.z, k, axis=1)
    length = np.linalg.norm(left, axis=1)
    unit = left / np.where(length > 0, length, 1)[:, None]
    mean = unit[strongest].sum(axis=0)
    cosine = unit @ mean / np.linalg.norm(mean)
    off = [i for i in range(len(left)) if length[i] > 0 and not made.active[i, k]]
    return sorted(off, key=lambda i: (-round(cosine[i], 9), i))


@pytest.mark.parametrize("k", [0, 4, 5, 11])
def test_shares_by_strength(visit, plain, k):
    values = plain.made.unit[plain.made.active[:, k], k]
    page = visit(plain, f"dim={k}")
    shown = page.locator("#dim .stratum .share").all_inner_texts()
    shares = [int(text.removesuffix(" %")) for text in shown]
    assert sum(shares) == 100
    counts, _ = np.histogram(values, bins=4, range=(0, values.max()))
    assert shares == pytest.approx(100 * counts / counts.sum(), abs=1)
    ends = page.locator("#dim .stratum b").all_inner_texts()
    edges = [float(end) for words in ends for end in words.split(" to ")]
    expected = np.repeat(np.linspace(0, values.max(), 5), 2)[1:-1]
    assert edges == pytest.approx(expected, abs=5.1e-3)
    for i, stratum in enumerate(page.locator("#dim .stratum .strip").all()):
        images = stratum.locator("a").evaluate_all("a => a.map((x) => Number(x.hash.slice(5)))")
        assert len(images) == min(4, counts[i])
        low, high = expected[2 * i] - 1e-4, expected[2 * i + 1] + 1e-4
        assert all(low <= plain.made.unit[image, k] <= high for image in images)


def test_nearest_dimensions(visit, plain):
    column = plain.made.unit / np.linalg.norm(plain.made.unit, axis=0).clip(min=1e-12)
    cosine = column.T @ column
    page = visit(plain, "dim=5")
    block = page.locator("#dim .columns > div", has_text="Nearest dimensions").locator("li")
    found = [re.match(r"(\d+)\s+\(cos (\S+)\)", text).groups() for text in block.all_inner_texts()]
    order = sorted((k for k in range(12) if k != 5), key=lambda k: -cosine[5, k])[:5]
    assert [int(k) for k, _ in found] == order
    assert [float(v) for _, v in found] == pytest.approx([cosine[5, k] for k in order], abs=5.1e-3)
    assert found[0] == ("6", "1.00")


def test_the_table_as_a_file(visit, plain):
    made = plain.made
    page = visit(plain, "dimensions")
    with page.expect_download() as saving:
        page.get_by_role("button", name="Download table").click()
    lines = saving.value.path().read_text("utf-8").splitlines()
    heads = lines[0].split(",")
    assert len(lines) == 13
    for k, line in enumerate(lines[1:]):
        cells = dict(zip(heads, line.split(","), strict=True))
        assert int(cells["dimension"]) == k
        assert int(cells["support"]) == made.active[:, k].sum()
        assert float(cells["frequency"]) == pytest.approx(made.active[:, k].mean(), rel=1e-4)
        value = consistency(made, k)
        assert cells["consistency"] == "" if value is None else (
            float(cells["consistency"]) == pytest.approx(value, rel=1e-4)
        )  # fmt: skip
