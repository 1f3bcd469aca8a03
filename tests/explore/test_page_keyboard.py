"""The page without a mouse: everything can be reached, and the focus is never lost."""

import pytest

FOCUS = """() => {
    const node = document.activeElement;
    const style = getComputedStyle(node);
    const box = node.getBoundingClientRect();
    return {
        tag: node.tagName,
        id: node.id,
        words: node.innerText ?? node.value ?? "",
        ringed: node.matches(":focus-visible") && style.outlineStyle !== "none",
        seen: box.bottom > 0 && box.top < innerHeight && box.width > 0,
    };
}"""


@pytest.fixture
def focus(page):
    def where():
        found = page.evaluate(FOCUS)
        assert found["tag"] != "BODY"
        assert found["seen"], found
        return found

    return where


@pytest.fixture
def tab_to(page, focus):
    """Tabs to the first stop with these words, as someone would who sees only the focus."""

    def go(words, most=80):
        for _ in range(most):
            page.keyboard.press("Tab")
            found = focus()
            assert found["ringed"], found
            if found["words"].split("\n")[0].strip() == words:
                return found
        raise AssertionError(f"no stop of {words!r} within {most} of Tab")

    return go


def sorting(page):
    return page.locator("#list-rows thead th").evaluate_all(
        "all => Object.fromEntries(all.filter((th) => th.dataset.key)"
        ".map((th) => [th.dataset.key, th.getAttribute('aria-sort')]))"
    )


def test_the_whole_way_without_a_mouse(visit, gated, focus, tab_to, page):
    page.goto(gated.path.as_uri())
    page.locator("body[data-ready]").wait_for()
    page.keyboard.press("Tab")
    assert focus()["words"] == "Skip to the content"
    tab_to("Dimensions 12")
    page.keyboard.press("Enter")
    page.locator("#dimensions-title").wait_for()
    assert focus()["id"] == "dimensions-title"

    tab_to("consistency")  # sort
    assert sorting(page)["consistency"] == "none"
    page.keyboard.press("Enter")
    assert sorting(page)["consistency"] == "descending"
    assert focus()["words"].startswith("consistency")
    page.keyboard.press("Enter")
    assert sorting(page)["consistency"] == "ascending"
    assert [key for key, way in sorting(page).items() if way != "none"] == ["consistency"]

    page.keyboard.press("Shift+Tab")  # back to the filters
    for _ in range(30):
        if page.evaluate("document.activeElement.tagName") == "SELECT":
            break
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.tagName") == "SELECT"
    page.keyboard.press("a")  # "all"
    assert page.locator("#list-count").inner_text() == "12 of 12 dimensions shown"

    first = page.locator("#list-rows tbody th a").first.inner_text()
    tab_to(first)
    page.keyboard.press("ArrowDown")
    second = page.locator("#list-rows tbody th a").nth(1).inner_text()
    assert focus()["words"] == second
    page.keyboard.press("ArrowUp")
    assert focus()["words"] == first
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.locator("#dim-title").wait_for()
    assert focus()["id"] == "dim-title"
    assert page.locator("#dim-title").inner_text() == f"Dimension {second}"

    for _ in range(40):  # to a picture, and along the strip
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('shot')"):
            break
    before = page.evaluate("document.activeElement.href")
    page.keyboard.press("ArrowRight")
    after = page.evaluate("document.activeElement.href")
    assert "#img=" in after
    assert after != before
    page.keyboard.press("Enter")
    page.locator("#img-title").wait_for()
    assert focus()["id"] == "img-title"
    assert page.url == after

    tab_to("why")
    page.keyboard.press("Enter")
    page.locator("#pair-title").wait_for()
    assert focus()["id"] == "pair-title"
    for place in ("img", "dim", "dimensions", "overview"):
        page.keyboard.press("Escape")
        page.locator(f"#{place}-title").wait_for()
        assert focus()["id"] == f"{place}-title"


def test_keys_that_lead_somewhere(visit, plain, focus, page):
    visit(plain, "dimensions")
    page.keyboard.press("/")
    assert focus()["id"] == "find"
    page.keyboard.type("/?")
    assert page.locator("#find").input_value() == "/?"  # in a field they are letters
    page.locator("#find").fill("1")
    page.keyboard.press("ArrowDown")
    assert focus()["words"].startswith("dimension")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Escape")
    assert focus()["id"] == "find"
    assert page.locator("#found").is_hidden()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    page.locator("#dimensions-title").focus()
    page.keyboard.press("?")
    page.locator(".how[open]").wait_for()
    page.locator(".how summary:focus").wait_for()
    assert page.locator("#overview").is_visible()


def test_a_field_lets_go_at_escape(visit, plain, focus, page):
    visit(plain, "dimensions")
    field = page.get_by_label("name contains")
    field.focus()
    page.keyboard.press("Escape")
    assert focus()["id"] == "main"
    assert page.locator("#dimensions").is_visible()


def test_the_focus_survives_what_the_page_redraws(visit, make_run, explore, focus, page):
    site = explore(make_run(n=130, k=45, name="long-run"))
    visit(site, "dimensions")
    page.get_by_label("images from", exact=True).fill("0")
    page.get_by_role("button", name="next page").focus()
    page.keyboard.press("Enter")
    assert "page 2 of 3" in page.locator("#list-rows").inner_text()
    focus()
    visit(site, "images")
    page.get_by_role("button", name="next page").focus()
    page.keyboard.press("Enter")
    assert page.locator("#grid a").first.get_attribute("href") == "#img=60"
    focus()
    visit(site, "img=20")
    page.locator("#entries").get_by_role("button", name="show").focus()
    page.keyboard.press("Enter")
    focus()
    visit(site, "pair=20,21")
    page.get_by_role("button", name="show", exact=True).focus()
    page.keyboard.press("Enter")
    focus()
    page.locator("#explanation input[type=checkbox]").nth(3).focus()
    page.keyboard.press("Space")
    assert page.locator("#explanation input[type=checkbox]").nth(3).is_checked()
    focus()


@pytest.mark.parametrize("control", ["combobox", "checkbox"])
def test_the_focus_survives_on_the_heat_map(visit, plain, focus, page, control):
    visit(plain, "classes")
    if control == "combobox":
        page.get_by_role("combobox", name="cells show").focus()
        page.keyboard.press("ArrowDown")
    else:
        page.get_by_role("checkbox", name="all live dimensions").focus()
        page.keyboard.press("Space")
    assert focus()["tag"] == {"combobox": "SELECT", "checkbox": "INPUT"}[control]
