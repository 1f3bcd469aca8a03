"""The overview says what the files of the run say."""

import re

import numpy as np
import pytest

from pellucid.cli import main

LOWER = {
    *("semantic_entropy_mass", "semantic_entropy_mass_published", "orthogonality"),
    "semantic_entropy_normalised",
}
NEITHER = {"activation_rate", "density"}
HEADS = [
    *("score", "this run", "95 % interval", "chance", "untrained", "better", "dims scored"),
    "smallest support",
]
ROWS = """rows => rows.map((row) => ({
    key: row.dataset.score,
    heads: [...row.closest("table").querySelectorAll("thead th")].map((head) => head.textContent),
    cells: [...row.children].map((cell) => cell.firstChild.textContent.trim()),
    words: [...row.children].map((cell) => cell.textContent),
}))"""


def printed(text, value):
    """Whether a text is the number, to the digits that it has."""
    digits = len(text.partition(".")[2])
    assert digits == (3 if abs(value) < 10 else 1), (text, value)
    return abs(float(text.replace(",", "")) - value) <= 0.5 * 10**-digits + 1e-12


def score_rows(page):
    return {row["key"]: row for row in page.locator("tr[data-score]").evaluate_all(ROWS)}


def test_every_number_of_the_score_table_is_that_of_the_file(visit, plain):
    rows = score_rows(visit(plain))
    scores = plain.made.scores
    assert rows.keys() == scores["trained"].keys()
    for key, score in scores["trained"].items():
        assert rows[key]["heads"] == HEADS
        _, value, interval, chance, untrained, _, dims, support = rows[key]["cells"]
        assert printed(value, score["value"])
        assert printed(chance, score["chance"])
        assert printed(untrained, scores["untrained"][key]["value"])
        low, high = interval.split(" to ")
        assert printed(low, score["low"])
        assert printed(high, score["high"])
        assert (dims, support) == (str(score["dimensions"]), f"{score['support']:,}")
        better = rows[key]["words"][5]
        if key in NEITHER:
            assert better == "–"
        else:
            assert better == ("↓lower is better" if key in LOWER else "↑higher is better")


def test_the_further_scores_can_be_opened(visit, plain):
    page = visit(plain)
    hidden = page.locator('tr[data-score="density"]')
    assert page.locator('tr[data-score="semantic_consistency"]').is_visible()
    assert hidden.is_hidden()
    page.locator("summary", has_text="further scores").click()
    assert hidden.is_visible()


@pytest.mark.parametrize("which", ["plain", "gated"])
def test_counts(request, visit, which):
    site = request.getfixturevalue(which)
    active = site.made.active
    page = visit(site)
    shown = {
        name: page.locator(f"#count-{name}").inner_text()
        for name in ("live", "dead", "always", "duplicates", "none")
    }
    assert shown == {"live": "11", "dead": "1", "always": "1", "duplicates": "1", "none": "1"}
    each = sorted(active.sum(axis=1))
    words = page.locator("dl.counts div", has_text="active an image").inner_text()
    assert re.sub(r"\s+", " ", words) == (
        f"active an image {each[29]} median; {each[0]} to {each[-1]}"
    )


def test_a_score_of_too_few_images_is_marked(make_run, explore, visit):
    made = make_run(name="few-run")
    made.scores["trained"]["knn"]["support"] = 9
    made.scores["trained"]["density"]["support"] = 10
    again = explore(make_run(scores=made.scores, name="few-run"))
    rows = score_rows(visit(again))
    marked = {key for key, row in rows.items() if "few" in row["words"][-1]}
    assert marked == {"knn"}


def test_charts_hold_every_dimension_and_image(visit, plain):
    page = visit(plain)
    often, each = page.locator("#overview .charts svg").evaluate_all(
        "all => all.map((svg) => svg.getAttribute('aria-label'))"
    )
    frequency = plain.made.active.mean(axis=0)
    bars = [int(n) for n in re.search(r"steps (.+)$", often)[1].split(", ")]
    live = frequency[frequency > 0]
    assert sum(bars) == 11
    assert [bool(bar) for bar in bars] == [
        any(i / 20 <= f < (i + 1) / 20 or (i == 19 and f == 1) for f in live) for i in range(20)
    ]
    assert sum(int(n) for n in re.search(r"steps (.+)$", each)[1].split(", ")) == 60


def test_where_to_start(visit, plain):
    page = visit(plain)
    minis = page.locator("#start .minis")
    dims = [
        minis.nth(i).locator("h4 a").evaluate_all("a => a.map((x) => Number(x.hash.slice(5)))")
        for i in range(2)
    ]
    made = plain.made
    enough = [k for k in range(12) if 10 <= made.active[:, k].sum() <= 54]
    assert set(dims[0]) <= set(enough)
    assert {0, 1, 4} <= set(dims[1])  # two of few images, one that is always on
    assert 3 not in dims[0] + dims[1]
    assert page.locator("#start .pairlink").get_attribute("href").startswith("#pair=")


def test_a_bare_file_of_features_has_a_page(tmp_path, visit, plain):
    z = plain.made.z.astype(np.float32)
    np.save(tmp_path / "codes.npy", z)
    (tmp_path / "sorts.txt").write_text("\n".join(plain.made.classes[c] for c in plain.made.labels))
    options = ["--labels", str(tmp_path / "sorts.txt"), "--out", str(tmp_path / "page.html")]
    assert main(["explore", str(tmp_path / "codes.npy"), *options]) == 0
    page = visit(tmp_path / "page.html")
    assert page.locator("h1").inner_text() == "codes"
    assert page.locator('tr[data-score="knn"]').count() == 0  # there is no encoder to read off
    assert page.locator("img").count() == 0
    visit(tmp_path / "page.html", "pair=20,21")
    true = float(plain.made.unit[20] @ plain.made.unit[21])
    assert float(page.locator("#cosine-value").inner_text()) == pytest.approx(true, abs=5.2e-4)
    visit(tmp_path / "page.html", "img=45")
    assert "Class heron." in page.locator("#img .summary").inner_text()


def test_the_overview_is_there_without_scripts(browser, plain):
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(plain.path.as_uri())
    text = page.locator("body").inner_text()
    context.close()
    assert "Scripts are off" in text
    assert "live dimensions" in text
    assert "semantic consistency" in text
