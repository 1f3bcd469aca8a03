"""Classes against numpy where there are labels, and no word of them where there are none."""

import re

import numpy as np
import pytest

TEXTS = """() => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
        if (!node.parentElement.closest("script, noscript")) found.push(node.textContent);
    }
    for (const node of document.querySelectorAll("body *")) {
        for (const key of ["title", "alt", "aria-label", "placeholder"]) {
            found.push(node.getAttribute(key) ?? "");
        }
    }
    return found.join("\\n");
}"""


def test_without_labels_the_word_is_absent(visit, unlabelled, places):
    for place in [*places, "classes"]:
        page = visit(unlabelled, place)
        text = page.evaluate(TEXTS)
        found = re.search("class|consistency", text, re.IGNORECASE)
        assert found is None, (place, text[max(0, found.start() - 60) : found.end() + 30])
    assert page.locator("#overview").is_visible()  # there is no such place
    assert page.locator("nav a").all_inner_texts() == [
        *("Overview", "Dimensions 12", "Images 60", "Pair"),
    ]


def test_without_labels_the_rest_works(visit, unlabelled):
    made = unlabelled.made
    page = visit(unlabelled, "dimensions")
    assert page.locator("#list-rows tbody tr").count() > 0
    heads = page.locator("#list-rows thead th").all_inner_texts()
    assert "monosem." in " ".join(heads)
    visit(unlabelled, "dim=5")
    assert page.locator('#dim [data-kind="random"] a').count() == 9
    assert page.locator("table.bars").count() == 0
    visit(unlabelled, "pair=20,21")
    true = float(made.unit[20] @ made.unit[21])
    assert float(page.locator("#cosine-value").inner_text()) == pytest.approx(true, abs=5.2e-4)
    visit(unlabelled, "img=20")
    nearest = page.locator("#nearest a.shot").first.get_attribute("href")
    cosine = made.unit @ made.unit[20]
    cosine[20] = -1
    assert nearest == f"#img={np.argmax(cosine)}"
    visit(unlabelled, "overview")
    assert "These images have no labels." in page.locator("#overview").inner_text()
    assert page.locator("#start .mini").count() > 0


def test_without_labels_scores_that_need_none_are_there(visit, unlabelled):
    keys = visit(unlabelled).locator("tr[data-score]")
    assert set(keys.evaluate_all("rows => rows.map((row) => row.dataset.score)")) == {
        *("activation_rate", "density", "effective_rank", "orthogonality", "monosemanticity"),
    }


def tables(made):
    """Active images, and mean value, by class and dimension."""
    labels = made.labels
    counts = np.array([made.active[labels == c].sum(axis=0) for c in range(3)])
    mass = np.array([made.unit[labels == c].mean(axis=0) for c in range(3)])
    return counts, mass


@pytest.mark.parametrize("mode", ["share", "mass", "lift"])
def test_cells_read_by_arrow_keys(visit, plain, mode):
    counts, mass = tables(plain.made)
    share = counts / counts.sum(axis=0).clip(min=1)
    images = np.bincount(plain.made.labels) / 60
    expected = {"share": share, "mass": mass, "lift": share / images[:, None]}[mode]
    precision = {"share": 5.1e-3, "mass": 5.1e-5, "lift": 5.1e-3}[mode]
    page = visit(plain, "classes")
    page.get_by_role("combobox", name="cells show").select_option(mode)
    page.get_by_role("checkbox", name="all live dimensions").check()
    canvas = page.locator("canvas")
    canvas.focus()
    seen = set()
    for key in (*["ArrowUp"] * 3, *["ArrowLeft"] * 12, "", *["ArrowRight"] * 10, "ArrowDown"):
        if key:
            canvas.press(key)
        words = page.locator("#heat-reading").inner_text()
        name, k, value, active = re.match(
            r"(\w+), dimension (\d+): ×?(\S+?)(?: %)? \((\d+) active images? of the", words
        ).groups()
        c, k = plain.made.classes.index(name), int(k)
        seen.add((c, k))
        shown = float(value) / (100 if mode == "share" else 1)
        assert shown == pytest.approx(expected[c, k], abs=precision)
        assert int(active) == counts[c, k]
    assert {k for c, k in seen if c == 0} == set(range(12)) - {3}
    assert {c for c, _ in seen} == {0, 1}
    canvas.press("Enter")
    assert page.locator("#dim h2").inner_text() == f"Dimension {k}"


def test_order_of_the_heat_map(visit, plain):
    made = plain.made
    rates = np.array([made.active[made.labels == c].mean(axis=0) for c in range(3)])
    total = rates.sum(axis=0)
    live = [k for k in range(12) if total[k] > 0]
    order = sorted(
        live, key=lambda k: (rates[:, k].argmax(), -round(rates[:, k].max() / total[k], 5), k)
    )
    page = visit(plain, "classes")
    page.get_by_role("checkbox", name="all live dimensions").check()
    canvas = page.locator("canvas")
    for _ in range(12):
        canvas.press("ArrowLeft")
    seen = []
    for _ in live:
        link = page.locator("#heat-reading a").get_attribute("href")
        seen.append(int(link.removeprefix("#dim=")))
        canvas.press("ArrowRight")
    assert seen == order


def test_tables_beside_the_heat_map(visit, plain):
    counts, _ = tables(plain.made)
    share = counts / counts.sum(axis=0).clip(min=1)
    page = visit(plain, "classes")
    reading = page.locator("#heat-reading a").get_attribute("href")
    k = int(reading.removeprefix("#dim="))
    rows = page.locator("#classes .columns table").first.locator("tbody tr").all_inner_texts()
    found = dict(row.split("\t") for row in rows)
    assert found.keys() == set(plain.made.classes)
    for c, name in enumerate(plain.made.classes):
        assert float(found[name].removesuffix(" %")) == pytest.approx(100 * share[c, k], abs=0.51)


def test_the_cell_under_a_click(visit, plain):
    page = visit(plain, "classes")
    page.get_by_role("checkbox", name="all live dimensions").check()
    canvas = page.locator("canvas")
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] / 11 * 4.5, "y": box["height"] / 3 * 2.5})
    clicked = page.locator("#heat-reading").inner_text()
    assert clicked.startswith("heron")
    for key in ("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"):
        canvas.press(key)
    assert page.locator("#heat-reading").inner_text() == clicked


def test_a_class_leads_to_its_images(visit, plain):
    page = visit(plain, "dim=0")
    page.locator("table.bars").get_by_role("link", name="tiger").click()
    shown = page.locator("#grid a.shot").evaluate_all("a => a.map((x) => Number(x.hash.slice(5)))")
    assert shown == list(np.flatnonzero(plain.made.labels == 0))
