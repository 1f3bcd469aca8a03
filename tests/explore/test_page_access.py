"""What a reader with another eye, light or screen meets, on every place."""

import pytest
from axe_playwright_python.sync_playwright import Axe

SIDEWAYS = "document.documentElement.scrollWidth"
NAMELESS = """() => [...document.querySelectorAll("img")].filter((image) =>
    !image.hasAttribute("alt") || (image.alt === "" && image.closest("a:not([aria-hidden])")
    && image.closest("a").innerText.trim() === "")).length"""


SERIOUS = """rules => axe.run({ resultTypes: ["violations"], ...rules }).then(({ violations }) =>
    violations.filter(({ impact }) => impact === "serious" || impact === "critical")
        .map(({ id, nodes }) => [id, nodes.slice(0, 3).map(({ html }) => html)]))"""


# In the dark only colours differ.
@pytest.mark.parametrize(
    ("scheme", "rules"), [("light", {}), ("dark", {"runOnly": ["color-contrast"]})]
)
def test_no_serious_barrier_on_any_place(visit, compared, places, page, scheme, rules):
    page.emulate_media(color_scheme=scheme)
    visit(compared)
    page.evaluate(Axe().axe_script)
    page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
    for place in places:
        visit(compared, place)
        assert page.evaluate(SERIOUS, rules) == [], place
        assert page.evaluate(NAMELESS) == 0, place


def test_schemes_differ(visit, plain, page):
    papers = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        visit(plain)
        papers.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert papers == ["rgb(251, 250, 248)", "rgb(20, 24, 27)"]


@pytest.mark.parametrize("which", ["compared", "signed", "unlabelled"])
def test_a_narrow_screen_does_not_scroll_sideways(request, visit, places, page, which):
    site = request.getfixturevalue(which)
    page.set_viewport_size({"width": 320, "height": 640})
    for place in places:
        visit(site, place)
        assert page.evaluate(SIDEWAYS) <= 320, place
    visit(site, "overview")
    page.locator("#find").fill("1")
    assert page.evaluate(SIDEWAYS) <= 320
    box = page.locator("#found").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 320


def test_one_heading_and_landmarks(visit, plain, page):
    visit(plain)
    assert page.locator("h1").count() == 1
    assert page.locator("main").count() == 1
    assert page.locator("nav").count() == 1
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator("nav a[aria-current=page]").inner_text() == "Overview"
    visit(plain, "dim=0")
    assert page.locator("nav a[aria-current=page]").inner_text() == "Dimensions 12"


def test_results_are_announced(visit, plain, page):
    visit(plain, "dimensions")
    assert page.locator("#list-count").get_attribute("role") == "status"
    assert page.locator("#said").get_attribute("aria-live") == "polite"
    page.locator("#find").fill("tiger")
    assert page.locator("#said").inner_text() == "1 result"
