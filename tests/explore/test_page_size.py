"""A page of 10,000 images x 256 dimensions stays a file that opens."""

import re

import numpy as np
import pytest


@pytest.fixture(scope="module")
def large(make_run, explore):
    """Thumbnails of noise, which nothing compresses: the worst that there is."""
    random = np.random.default_rng(0)
    z = random.random((10_000, 256), dtype=np.float32)
    z *= random.random((10_000, 256), dtype=np.float32) < 0.21
    pixels = random.integers(0, 256, (10_000, 3, 48, 48), dtype=np.uint8)
    made = make_run(10_000, 256, z=z, pixels=pixels, name="large-run")
    return explore(made)


def test_bytes_stay_within_the_budget_and_are_accounted_for(large):
    size = large.path.stat().st_size
    assert size <= 15e6
    said = large.said
    total, listed = re.search(r"; ([\d.]+) MB \((.+)\)", said).groups()
    parts = dict(part.rsplit(" ", 1) for part in listed.split(", "))
    assert set(parts) == {
        *("thumbnails", "activations", "statistics and names", "code and style", "first page"),
    }
    assert float(total) == pytest.approx(size / 1e6, abs=5.1e-3)
    assert sum(map(float, parts.values())) == pytest.approx(size / 1e6, abs=0.03)
    assert "thumbnails of 32 px" in said
    assert float(parts["thumbnails"]) > 7  # as much of the budget as there is goes into pictures


@pytest.mark.parametrize("place", ["overview", "dimensions", "dim=17", "images", "img=9"])
def test_few_elements_at_any_time(visit, large, place):
    shown = large.said
    number = int(re.search(r"([\d,]+) of 10,000 images", shown)[1].replace(",", ""))
    assert number >= 5_000
    page = visit(large, "overview")
    first = page.locator("#start a.shot").first.get_attribute("href")
    visit(large, first.removeprefix("#") if place.startswith("img") else place)
    assert page.locator("*").count() < 5_000
    assert page.locator("img").count() < 400
    assert page.locator("img").count() > 5
