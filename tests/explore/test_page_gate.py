"""The gate as it is shown, against the activations before it and its probabilities."""

import re

import numpy as np
import pytest

CELLS = """rows => rows.map((row) => [Number(row.dataset.dim),
    ...[...row.querySelectorAll("td")].map((cell) => cell.innerText)])"""
IMAGES = "all => all.map((a) => Number(a.hash.slice(5)))"


def share(text):
    return float(text.removesuffix(" %")) / 100


def closed(made):
    """Where the gate took away what was there; a probability of one half is closed."""
    return (made.before > 0) & (made.gate <= 0.5)


def test_the_table_of_the_gate(visit, gated):
    made = gated.made
    assert (made.gate[made.before > 0] == 0.5).any()  # the edge is among them
    page = visit(gated, "gate")
    rows = page.locator("#gate-rows tbody tr").evaluate_all(CELLS)
    assert {row[0] for row in rows} == set(range(12)) - {3}
    for k, pi, opened, mean, after, taken, _ in rows:
        assert share(pi) == pytest.approx((made.before[:, k] > 0).mean(), abs=5.1e-3)
        assert share(opened) == pytest.approx((made.gate[:, k] > 0.5).mean(), abs=5.1e-3)
        assert float(mean) == pytest.approx(made.gate[:, k].mean(), abs=5.1e-3)
        assert share(after) == pytest.approx((made.z[:, k] > 0).mean(), abs=5.1e-3)
        assert int(taken) == closed(made)[:, k].sum()
    counts = [row[5] for row in rows]
    assert counts == sorted(counts, key=int, reverse=True)


def test_closed_here_are_exactly_the_images_that_lost_it(visit, gated):
    made = gated.made
    for k in range(12):
        lost = np.flatnonzero(closed(made)[:, k])
        page = visit(gated, f"dim={k}")
        strip = page.locator('#dim [data-kind="closed"] a').evaluate_all(IMAGES)
        assert len(lost) <= 9  # all of them are shown
        assert sorted(strip) == list(lost)
        visit(gated, f"gate={k}")
        assert sorted(page.locator("#closed-here a").evaluate_all(IMAGES)) == list(lost)
        on = np.flatnonzero(made.z[:, k] > 0)
        opened = page.locator("#opened-here a").evaluate_all(IMAGES)
        assert set(opened) <= set(on)
        assert len(opened) == min(12, len(on))


def test_what_the_gate_took_from_an_image(visit, gated):
    made = gated.made
    before = (made.before**2).sum(axis=1)
    removed = 1 - (made.z**2).sum(axis=1) / np.where(before > 0, before, 1)
    for image in (int(np.argmax(closed(made)[:7].sum(axis=1))), 7, 20):
        lost = set(np.flatnonzero(closed(made)[image]))
        page = visit(gated, f"img={image}")
        listed = page.locator("#img > div", has_text="Closed by the gate here")
        links = listed.locator("li a:not([tabindex])").evaluate_all(IMAGES)
        assert set(links) == lost
        words = page.locator("#img .summary").inner_text()
        found = re.search(r"took away (\d+) dimensions?, (\S+ %) of the energy", words)
        assert (found is None) == (not lost)
        if found:
            assert int(found[1]) == len(lost)
            assert share(found[2]) == pytest.approx(removed[image], abs=6e-3)
    page = visit(gated, "gate")
    most = page.locator("#most-gated a").evaluate_all(IMAGES)
    assert most[0] == 7
    expected = np.sort(removed)[::-1][:24]
    assert removed[most] == pytest.approx(expected, abs=1e-4)


def test_median_loss(visit, gated):
    made = gated.made
    before = (made.before**2).sum(axis=1)
    removed = np.sort(1 - (made.z**2).sum(axis=1) / before)
    words = visit(gated, "gate").locator("#gate > p").first.inner_text()
    median, most = re.search(r"median image loses (\S+ %) .* one (\S+ %)\.", words).groups()
    assert share(median) == pytest.approx(removed[29], abs=5.1e-3)
    assert share(most) == 1


def test_points_and_their_table_agree(visit, gated):
    made = gated.made
    page = visit(gated, "gate")
    points = page.locator("svg.scatter a").evaluate_all(
        "all => all.map((a) => [a.getAttribute('href'), a.querySelector('circle').cx.baseVal.value,"
        " a.querySelector('circle').cy.baseVal.value])"
    )
    for href, x, y in points:
        k = int(href.removeprefix("#dim="))
        assert (x - 40) / 240 == pytest.approx((made.before[:, k] > 0).mean(), abs=1e-4)
        assert (280 - y) / 240 == pytest.approx((made.gate[:, k] > 0.5).mean(), abs=1e-4)
    assert len(points) == 11


def test_a_soft_gate_is_said_to_be_soft(make_run, explore, visit):
    site = explore(make_run(gate="soft", name="soft-run"))
    made = site.made
    page = visit(site, "gate")
    text = page.locator("#gate").inner_text()
    assert "This gate is soft" in text
    assert "Images that the gate changed most" not in text
    rows = page.locator("#gate-rows tbody tr").evaluate_all(CELLS)
    for k, pi, opened, mean, *_ in rows:
        assert share(pi) == pytest.approx((made.before[:, k] > 0).mean(), abs=5.1e-3)
        assert share(opened) == pytest.approx((made.gate[:, k] > 0.5).mean(), abs=5.1e-3)
        assert float(mean) == pytest.approx(made.gate[:, k].mean(), abs=5.1e-3)
    visit(site, "dim=2")
    assert "The gate is soft" in page.locator("#dim").inner_text()
    assert page.locator('[data-kind="closed"]').count() == 0
    visit(site, "pair=20,21")
    true = float(made.unit[20] @ made.unit[21])
    assert float(page.locator("#cosine-value").inner_text()) == pytest.approx(true, abs=5.2e-4)


def test_without_a_gate_there_is_no_gate(visit, plain):
    page = visit(plain, "overview")
    assert page.locator("nav a", has_text="Gate").count() == 0
    assert "This representation has no gate." in page.locator("#overview").inner_text()
    for place in ("gate", "gate=2"):
        visit(plain, place)
        assert page.locator("#overview").is_visible()
    for place in ("dim=2", "img=20", "dimensions"):
        visit(plain, place)
        assert "gate" not in page.locator("section.place:visible").inner_text().lower()
