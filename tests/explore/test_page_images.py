"""Images: their dimensions, their neighbours, and the field that finds them."""

import re

import numpy as np
import pytest

QUERIES = (0, 8, 10, 13, 20, 27, 34, 41, 48, 58)
NEAR = """all => all.map((near) => [
    Number(near.querySelector("a.shot").hash.slice(5)),
    near.querySelector(".under").innerText,
    near.querySelector("a.why").hash,
])"""


def ranking(made, query):
    """Exact cosines of the others, the highest first, equal ones by index."""
    unit = made.unit
    cosine = unit @ unit[query]
    others = [i for i in range(len(unit)) if i != query and unit[i].any()]
    order = sorted(others, key=lambda i: (-round(cosine[i], 12), i))
    return [(i, cosine[i]) for i in order]


@pytest.mark.parametrize("which", ["plain", "gated"])
def test_neighbours_are_those_of_exact_cosines(request, visit, which):
    site = request.getfixturevalue(which)
    for query in QUERIES:
        expected = ranking(site.made, query)
        gaps = -np.diff([cosine for _, cosine in expected[:13]])
        assert all(gap < 1e-12 or gap > 5e-5 for gap in gaps)  # no order below stored precision
        page = visit(site, f"img={query}")
        found = page.locator("#nearest .near").evaluate_all(NEAR)
        assert [image for image, *_ in found] == [image for image, _ in expected[:12]], query
        for (image, words, why), (_, cosine) in zip(found, expected, strict=False):
            assert float(words.split()[0]) == pytest.approx(cosine, abs=5.2e-4)
            assert why == f"#pair={query},{image}"
            assert site.made.classes[site.made.labels[image]] in words


def test_an_equal_image_is_a_neighbour_and_the_image_itself_is_not(visit, plain):
    for query, twin in ((8, 9), (9, 8), (10, 11)):
        page = visit(plain, f"img={query}")
        found = page.locator("#nearest .near").evaluate_all(NEAR)
        images = [image for image, *_ in found]
        assert images[0] == twin
        assert found[0][1].startswith("1.000")
        assert query not in images


def test_what_an_image_says_of_itself(visit, plain):
    made = plain.made
    page = visit(plain, "img=20")
    assert page.locator("#img .path").inner_text() == "shots/020.png"
    words = page.locator("#img .summary").inner_text()
    assert f"Image 20; {made.active[20].sum()} of 12 dimensions active." in words
    assert f"Class {made.classes[made.labels[20]]}." in words


def test_the_grid_filters_and_sorts(visit, plain):
    made = plain.made
    page = visit(plain, "images")
    links = page.locator("#grid a.shot")

    def images():
        return links.evaluate_all("all => all.map((a) => Number(a.hash.slice(5)))")

    assert images() == list(range(60))
    page.get_by_role("combobox", name="class", exact=True).select_option(label="zebra")
    assert images() == list(np.flatnonzero(made.labels == 1))
    assert page.locator("#grid-count").inner_text() == "20 of 60 embedded images shown"
    page.get_by_label("file contains").fill("SHOTS/02")
    assert images() == list(range(20, 30))
    page.get_by_role("combobox", name="sort by", exact=True).select_option("fewest")
    active = made.active.sum(axis=1)
    assert images() == sorted(range(20, 30), key=lambda i: (active[i], i))
    page.get_by_label("file contains").fill("nothing")
    assert "No image passes this filter." in page.locator("#grid").inner_text()
    visit(plain, "overview")
    visit(plain, "images=class-2")
    page.get_by_label("file contains").fill("")
    assert set(images()) == set(np.flatnonzero(made.labels == 2))


def test_a_picture_leads_to_its_image_and_why_to_the_pair(visit, plain):
    page = visit(plain, "images")
    page.locator("#grid a.shot").nth(33).click()
    assert page.locator("#img .path").inner_text() == "shots/033.png"
    page.locator("#nearest a.why").first.click()
    near = ranking(plain.made, 33)[0][0]
    assert page.url.endswith(f"#pair=33,{near}")
    assert re.match(r"A 033\.png", page.locator(".side").first.inner_text())
    page.keyboard.press("Escape")
    page.locator("#img-title").wait_for()
    page.go_back()
    page.locator("#images-title").wait_for()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("17", [("image", "shots/017.png")]),
        ("dim 4", [("dimension", "4")]),
        ("ZEB", [("class", "zebra")]),
        ("shots/05", [("image", f"shots/05{i}.png") for i in range(10)]),
        ("image 4", [("image", "shots/004.png")]),
        ("#11", [("dimension", "11"), ("image", "shots/011.png")]),
    ],
)
def test_what_is_found(visit, plain, asked, expected):
    page = visit(plain)
    page.locator("#find").fill(asked)
    found = page.locator("#found a").evaluate_all(
        "all => all.map((a) => [a.querySelector('.kind').innerText, "
        "a.querySelector('bdi').innerText])"
    )
    assert [tuple(one) for one in found] == expected
    page.locator("#find").press("Enter")
    leads = {"image": "#img=", "dimension": "#dim=", "class": "#images=class-"}
    assert leads[expected[0][0]] in page.url
    assert page.locator("#found").is_hidden()


def test_nothing_found_is_said(visit, plain):
    page = visit(plain)
    page.locator("#find").fill("no such thing")
    assert page.locator("#found").inner_text() == "nothing found"
    assert page.locator("#said").inner_text() == "0 results"
    page.locator("#find").press("Escape")
    assert page.locator("#found").is_hidden()
    assert page.locator("#find").input_value() == ""
