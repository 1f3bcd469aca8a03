"""What is not defined is said so, and runs of hardly anything have a page."""

import copy
import re

import numpy as np
import pytest

UNWORDS = re.compile(r"(?i:\b(nan|null|undefined|inf|infinity)\b)|\bNone\b|\[object")
WORDS = """() => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
        if (!node.parentElement.closest("script, noscript")) found.push(node.textContent);
    }
    for (const node of document.querySelectorAll("body *")) {
        for (const key of ["title", "alt", "aria-label", "placeholder", "value"]) {
            found.push(node.getAttribute(key) ?? "");
        }
    }
    return found.join("\\n");
}"""


def check_words(page):
    """No word of a machine for nothing, shown, folded away or read out."""
    text = page.evaluate(WORDS)
    found = UNWORDS.search(text)
    assert found is None, text[max(0, found.start() - 60) : found.end() + 20]


def open_all(visit, site, places):
    for place in places:
        page = visit(site, place)
        assert page.locator("section.place:visible h2").inner_text() != ""
        check_words(page)
    return page


@pytest.fixture(scope="module")
def broken(make_run, explore):
    """Scores that are not numbers, as a diverged model leaves them."""
    made = make_run(gate="hard", name="gated-run")
    scores = copy.deepcopy(made.scores)
    for key, value in (("semantic_consistency", np.nan), ("knn", None), ("density", np.inf)):
        scores["trained"][key] |= {"value": value, "low": value, "high": value, "chance": value}
        scores["untrained"][key]["value"] = value
    scores["trained"]["knn"]["reason"] = "nothing could be scored"
    made = make_run(gate="hard", name="gated-run", scores=scores)
    assert "NaN" in (made.folder / "scores.json").read_text()
    return explore(made)


def test_undefined_stays_undefined_everywhere(visit, broken, places):
    page = open_all(visit, broken, [*places, "pair=7,7", "gate=3", "dim=11"])
    visit(broken, "overview")
    for key in ("semantic_consistency", "knn", "density"):
        cells = page.locator(f'tr[data-score="{key}"] td').all_text_contents()
        assert cells[0].startswith("not defined")
        assert cells[1:4] == ["–"] * 3
    knn = page.locator('tr[data-score="knn"] td').first.inner_text()
    assert knn.split("\n")[-1] == "nothing could be scored"


def test_a_closed_image_has_no_similarity(visit, broken):
    page = visit(broken, "pair=7,8")
    sentence = "All gates are closed on this image; its similarity is not defined."
    assert f"A: {sentence}" in page.locator("#explanation").inner_text()
    assert page.locator("#cosine").inner_text() == "not defined"
    assert page.locator("table.additive").count() == 0
    visit(broken, "pair=8,7")
    assert f"B: {sentence}" in page.locator("#explanation").inner_text()
    visit(broken, "pair=7,7")
    assert f"A and B: {sentence}" in page.locator("#explanation").inner_text()
    visit(broken, "img=7")
    assert sentence in page.locator("#img").inner_text()
    assert page.locator("#nearest").count() == 0


def test_without_a_gate_no_gate_is_blamed(visit, plain):
    page = visit(plain, "pair=7,8")
    words = page.locator("#explanation").inner_text()
    assert "No dimension is active on this image; its similarity is not defined." in words


def test_a_dead_dimension_says_so(visit, broken):
    page = visit(broken, "dim=3")
    words = page.locator("#dim").inner_text()
    assert "This dimension has no active image: it is dead." in words
    assert "Consistency: not defined." in words
    assert page.locator("#dim img").count() == 0


@pytest.mark.parametrize(
    ("n", "k", "what", "labels"),
    [
        (1, 5, "one image", "thirds"),
        (6, 1, "one dimension", "thirds"),
        (2, 3, "two images", None),
        (12, 6, "a dead model", "thirds"),
        (1, 1, "nothing", None),
    ],
)
def test_runs_of_hardly_anything_have_a_page(make_run, explore, visit, places, n, k, what, labels):
    dead = what in ("a dead model", "nothing")
    z = np.zeros((n, k)) if dead else np.random.default_rng(3).random((n, k))
    site = explore(make_run(n, k, z=z, labels=labels, name="tiny"))
    own = [place for place in places if place.partition("=")[0] not in ("pair", "dim", "img")]
    page = open_all(visit, site, [*own, "dim=0", "img=0", "pair", f"pair=0,{n - 1}"])
    assert page.locator("#cosine").inner_text().startswith("not defined" if dead else ("1.0", "0."))
    visit(site, "overview")
    assert page.locator("#count-dead").inner_text() == str(k if dead else 0)
    assert page.locator("#count-none").inner_text() == str(n if dead else 0)


def test_only_some_images_have_labels(make_run, explore, visit, places):
    labels = np.where(np.arange(60) % 3 == 0, -1, np.arange(60) // 20)
    site = explore(make_run(labels=labels, name="partly"))
    page = open_all(visit, site, places)
    visit(site, "img=3")
    assert "Class" not in page.locator("#img .summary").inner_text()
    visit(site, "img=4")
    assert "Class tiger." in page.locator("#img .summary").inner_text()
    active, known = site.made.active, labels >= 0
    visit(site, "dim=5")
    rows = page.locator("table.bars tbody tr").evaluate_all(
        "rows => rows.map((row) => [...row.children].map((cell) => cell.innerText.trim()))"
    )
    for c, label in enumerate(("tiger", "zebra", "heron")):
        (row,) = (row for row in rows if row[0] == label)
        here = active[labels == c, 5].sum() / active[known, 5].sum()
        overall = (labels == c).sum() / known.sum()
        assert float(row[1].removesuffix(" %")) == pytest.approx(100 * here, abs=0.51)
        assert float(row[2].removesuffix(" %")) == pytest.approx(100 * overall, abs=0.51)
        assert float(row[3].removeprefix("×")) == pytest.approx(here / overall, abs=0.051)
        assert int(row[4]) == active[labels == c, 5].sum()


def test_no_image_has_a_label(make_run, explore, visit):
    site = explore(make_run(labels=np.full(60, -1), name="none-labelled"))
    page = visit(site, "classes")
    assert page.locator("nav a", has_text="Classes").count() == 0
    assert page.locator("#overview").is_visible()
    assert "These images have no labels." in page.locator("#overview").inner_text()


MALFORMED = {
    "dim=abc": "There is no such dimension: they are numbered 0 to 11.",
    "dim=99999": "There is no such dimension: they are numbered 0 to 11.",
    "dim": "There is no such dimension",
    "dim=-1": "There is no such dimension",
    "dim=": "There is no such dimension",
    "dim=1=2": "There is no such dimension",
    "pair=1": "There is no such image",
    "pair=x,y": "There is no such image",
    "pair=1,99999": "There is no such image: they are numbered 0 to 59.",
    "img=": "There is no such image",
    "img=1.5": "There is no such image",
    "img=60": "There is no such image: they are numbered 0 to 59.",
    "gate=99": "Gate",
    "gate=x": "Gate",
    "gate=-1": "Gate",
    "images=class-99": "Images",
    "images=class-x": "Images",
    "nowhere": "Overview",
    "constructor": "Overview",
    "__proto__": "Overview",
    "%E0%A4%A": "Overview",
    "dim=%": "Overview",
}


def test_malformed_addresses_are_answered_in_words(visit, gated):
    page = visit(gated)
    for place, words in MALFORMED.items():
        visit(gated, "dimensions")
        visit(gated, place)
        shown = page.locator("section.place:visible")
        assert shown.count() == 1
        assert words in shown.inner_text(), place
        check_words(page)
        assert page.locator("#trouble").is_hidden()
        if place.startswith("gate"):
            assert page.locator("#gate-dim").inner_text() == ""
        if place.startswith("images"):
            assert page.locator("#grid a").count() == 60


def test_without_labels_an_address_of_one_shows_all_images(visit, unlabelled):
    page = visit(unlabelled, "images=class-1")
    assert page.locator("#grid a").count() == 60


def test_a_page_opens_at_a_malformed_address(visit, gated):
    assert visit(gated, "%E0%A4%A").locator("#overview").is_visible()


def test_a_comma_may_come_encoded(visit, gated):
    page = visit(gated, "pair=8%2C9")
    assert page.locator("#cosine-value").inner_text() == "1.000"
