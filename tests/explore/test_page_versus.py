"""Beside a second run of the same images: which dimensions both have, and what differs."""

import re

import numpy as np
import pytest

from pellucid.cli import main

ROWS = """rows => rows.map((row) => [...row.children].map((cell) => cell.innerText.trim()))"""


def unit(z):
    length = np.linalg.norm(z, axis=1, keepdims=True)
    return z / np.where(length > 0, length, 1)


def match_rows(page, which):
    page.get_by_role("combobox", name="show", exact=True).select_option(which)
    return page.locator("#match-rows tbody tr").evaluate_all(ROWS)


def test_which_dimensions_recur(visit, compared):
    page = visit(compared, "versus")
    a, b = unit(compared.made.z), unit(compared.other.z)
    columns = [m / np.linalg.norm(m, axis=0).clip(min=1e-12) for m in (a, b)]
    cosine = columns[0].T @ columns[1]
    both = match_rows(page, "recurs")
    pairs = {int(row[0].split()[0]): int(row[1].split()[0]) for row in both}
    twins = {5: {6, 5}, 6: {5, 6}}  # equal columns can be given to each other
    for k, j in pairs.items():
        assert j in twins.get(k, {11 - k})
    chance = 60 * np.outer(columns[0].mean(axis=0), columns[1].mean(axis=0))
    agreement = (cosine - chance) / (1 - chance)
    alike = {k for k in range(12) if agreement[k, 11 - k] > 0.7}
    assert len(alike) >= 6
    assert set(pairs) >= alike
    assert not set(pairs) & {2, 3, 9}
    for row in both:
        k, j = int(row[0].split()[0]), int(row[1].split()[0])
        assert float(row[3]) == pytest.approx(cosine[k, j], abs=5.1e-3)
        assert float(row[4]) == pytest.approx(chance[k, j], abs=5.1e-3)
        assert float(row[2]) == pytest.approx(agreement[k, j], abs=5.1e-3)
        assert float(row[2]) >= 0.5
    shown = [float(row[2]) for row in both]
    assert shown == sorted(shown)  # what differs most first
    here = {int(row[0].split()[0]) for row in match_rows(page, "here")}
    assert here == set(range(12)) - {3} - set(pairs)
    there = {int(row[1].split()[0]) for row in match_rows(page, "there")}
    assert there == set(range(12)) - {8} - set(pairs.values())
    words = page.locator("#versus > p").first.inner_text()
    assert words.startswith(f"{len(pairs)} of 11 live dimensions recur in second-run.")


def test_images_whose_neighbours_changed(visit, compared):
    def nearest(z):
        u = unit(z)
        cosine = u @ u.T
        np.fill_diagonal(cosine, -2)
        return np.argsort(-np.round(cosine, 9), axis=1, kind="stable")[:, :10]

    ours, theirs = nearest(compared.made.z), nearest(compared.other.z)
    kept = [len(set(a) & set(b)) for a, b in zip(ours, theirs, strict=True)]
    page = visit(compared, "versus")
    for row in page.locator(".changed").all():
        hrefs = row.locator("a").evaluate_all("all => all.map((a) => Number(a.hash.slice(5)))")
        image = hrefs[0]
        number = int(re.match(r"(\d+) of 10 kept", row.locator(".under").inner_text())[1])
        shown = len(set(hrefs[1:11]) & set(hrefs[11:21]))
        assert number == shown
        if image == 7:
            continue  # without any activation it has no neighbours
        assert number == pytest.approx(kept[image], abs=1)  # ties at the tenth place
        assert image not in hrefs[1:]
    assert page.locator(".changed").count() == 12


def test_a_card_tells_of_the_other_run(visit, compared):
    page = visit(compared, "dim=11")
    text = page.locator("#dim").inner_text()
    assert "Also in second-run?" in text
    assert re.search(r"Dimension 0, agreement 0\.\d\d .*: recurs", text)
    visit(compared, "dim=2")
    assert "does not recur" in page.locator("#dim").inner_text()


def test_the_scores_of_both_are_beside_each_other(visit, compared):
    page = visit(compared)
    heads = page.locator("table.scores").first.locator("thead th").all_inner_texts()
    assert heads[5] == "second-run"
    cells = page.locator('tr[data-score="knn"] td').all_inner_texts()
    assert cells[4] == f"{compared.made.scores['trained']['knn']['value']:.3f}"


def test_other_images_are_refused(tmp_path, capsys, make_run, plain):
    first = str(plain.made.folder)
    out = tmp_path / "explore.html"
    pixels = np.zeros((60, 3, 24, 24), dtype=np.uint8)
    pixels[:, 0] = np.arange(60, dtype=np.uint8)[:, None, None]
    for made, words in (
        (make_run(30, name="fewer-run"), ["60 and 30 of them"]),
        (make_run(pixels=pixels, name="other-images"), ["60 of 60 differ in content", "000.png"]),
    ):
        options = ["--with", str(made.folder), "--out", str(out)]
        assert main(["explore", first, *options]) == 1
        said = capsys.readouterr().err
        assert "are of different images" in said
        assert all(word in said for word in [*words, "stripes-run", made.folder.name])
        assert not out.exists()
