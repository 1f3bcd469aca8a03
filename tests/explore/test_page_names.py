"""Names are data: whatever files, classes and dimensions are called is shown as it is."""

import json

import numpy as np
import pytest

from pellucid.cli import main

NASTY = [
    "</script><img src=x onerror=window.pwned=1>",
    '"><b>bold</b>',
    "<!--",
    "{{7*7}}",
    "' onclick='window.pwned=1",
    "a\u2028b",
    "\u202egnp.exe",
    "x" * 300,
    "",
    "caf\udce9.png",  # a byte that is no UTF-8, as file names are listed
    "&amp;&lt;",
    "__proto__",
    "=cmd|'/c calc'!A1",
]
SHOWN = ["caf\\xe9.png" if name == "caf\udce9.png" else name for name in NASTY]
TAGS = """() => {
    const found = {};
    for (const node of document.querySelectorAll("*")) {
        found[node.tagName] = (found[node.tagName] ?? 0) + 1;
    }
    return found;
}"""
GIVEN = {"0": NASTY[0], "2": "stripes", "4": NASTY[1], "5": "مرحبا <b>", "11": "x" * 200}


@pytest.fixture(scope="module")
def hostile(make_run, explore):
    names = [*NASTY, *(f"plain/{i}.png" for i in range(60 - len(NASTY)))]
    made = make_run(gate="hard", names=names, classes=tuple(NASTY), name="<b>run {{7*7}} & <!--")
    (made.folder / "names.json").write_text(json.dumps(GIVEN))
    return explore(made)


@pytest.fixture(scope="module")
def benign(make_run, explore):
    names = [f"odd/{i}.png" if i >= len(NASTY) or NASTY[i] else "" for i in range(60)]
    classes = tuple(f"sort {c}" if name else "" for c, name in enumerate(NASTY))
    made = make_run(gate="hard", names=names, classes=classes, name="benign")
    (made.folder / "names.json").write_text(json.dumps(dict.fromkeys(GIVEN, "given")))
    return explore(made)


def test_hostile_names_add_no_element(browser, visit, hostile, benign, places):
    plain = browser.new_context(offline=True).new_page()
    plain.goto(benign.path.as_uri())
    plain.locator("body[data-ready]").wait_for()
    for place in (*places, "img=2", "img=12", "images=class-1"):
        page = visit(hostile, place)
        plain.goto(f"{benign.path.as_uri()}#{place}")
        plain.wait_for_timeout(20)
        assert page.evaluate(TAGS) == plain.evaluate(TAGS), place
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280, place
        assert page.evaluate("window.pwned") is None
    plain.context.close()


def test_hostile_names_of_images_are_shown_as_they_are(visit, hostile):
    for i, name in enumerate(SHOWN):
        page = visit(hostile, f"img={i}")
        assert page.locator("#img .path").evaluate("p => p.textContent") == name
        label = int(hostile.made.labels[i])
        link = page.locator(f'#img .summary a[href="#images=class-{label}"]')
        assert link.evaluate("a => a.textContent") == SHOWN[label]
        alt = page.locator("#img .image-head img").get_attribute("alt")
        parts = [name, SHOWN[label]]
        assert alt == ", ".join(part for part in parts if part)


def test_hostile_names_of_classes_are_shown_as_they_are(visit, hostile):
    page = visit(hostile, "classes")
    texts = "all => all.map((node) => node.textContent)"
    assert page.locator(".heat-names li").evaluate_all(texts) == SHOWN
    visit(hostile, "images")
    options = page.locator("#images select").first.locator("option").evaluate_all(texts)
    assert options == ["any", *SHOWN]


def test_a_hostile_run_is_called_by_its_name(visit, hostile):
    page = visit(hostile)
    assert page.locator("h1").evaluate("h => h.textContent") == hostile.made.folder.name
    assert hostile.made.folder.name in page.title()


def test_given_names_are_shown_everywhere(visit, hostile):
    texts = "all => all.map((node) => node.textContent)"
    page = visit(hostile, "dimensions")
    page.get_by_role("combobox", name="show", exact=True).select_option("named")
    page.get_by_label("images from", exact=True).fill("0")
    found = page.locator("#list-rows .c-name").evaluate_all(texts)
    assert sorted(found) == sorted(GIVEN.values())
    page.get_by_label("name contains").fill("STRIPES")
    assert page.locator("#list-rows tbody tr").evaluate_all("r => r.map((x) => x.dataset.dim)") == [
        "2"
    ]
    for k, name in GIVEN.items():
        visit(hostile, f"dim={k}")
        assert page.locator("#given").input_value() == name
        full = f"{k} {name}"
        image = int(np.argmax(hostile.made.unit[:, int(k)]))
        visit(hostile, f"img={image}")
        assert full in page.locator(".dictionary a:not([tabindex])").evaluate_all(texts)
        visit(hostile, f"pair={image},{image}")
        while page.get_by_role("button", name="show", exact=True).count():
            page.get_by_role("button", name="show", exact=True).click()
        assert full in page.locator(".additive th a:not([tabindex])").evaluate_all(texts)
    visit(hostile, "gate")
    assert "2 stripes" in page.locator("#gate-rows th").evaluate_all(texts)


def test_a_name_given_on_the_page_is_kept_by_the_command(tmp_path, make_run, explore, visit):
    made = make_run(name="to-be-named")
    site = explore(made)
    page = visit(site, "dim=0")
    assert page.locator("#unsaved").inner_text() == ""
    for k, name in (("0", '<img src=x> "tiger" stripes'), ("11", "  grass ")):
        visit(site, f"dim={k}")
        page.locator("#given").fill(name)
        page.locator("#given").blur()
        assert "Save names.json" in page.locator("#unsaved").inner_text()
    visit(site, "dim=0")
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save names.json").click()
    assert saving.value.suggested_filename == "names.json"
    saved = tmp_path / "names.json"
    saving.value.save_as(saved)
    assert json.loads(saved.read_text("utf-8")) == {
        "0": '<img src=x> "tiger" stripes',
        "11": "grass",
    }
    again = explore(made, "--names", saved)
    assert "2 names kept" in again.said
    assert json.loads((made.folder / "names.json").read_text()) == json.loads(saved.read_text())
    third = explore(made)  # and are there without being asked for
    visit(third, "dim=11")
    assert page.locator("#given").input_value() == "grass"
    page.locator("#find").fill("tiger")
    texts = page.locator("#found bdi").evaluate_all("all => all.map((node) => node.textContent)")
    assert '0 <img src=x> "tiger" stripes' in texts


def test_a_name_is_taken_away_by_an_empty_field(visit, hostile):
    page = visit(hostile, "dim=2")
    page.locator("#given").fill("  ")
    page.locator("#given").blur()
    visit(hostile, "dimensions")
    page.get_by_role("combobox", name="show", exact=True).select_option("named")
    page.get_by_label("images from", exact=True).fill("0")
    shown = page.locator("#list-rows tbody tr").evaluate_all("r => r.map((x) => x.dataset.dim)")
    assert sorted(shown, key=int) == ["0", "4", "5", "11"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[]", "must hold names by dimension"),
        ('{"1": 2}', "must hold names by dimension"),
        ('{"12": "beyond"}', "names dimension '12'; there are 0 to 11"),
        ('{"stripes": "1"}', "names dimension 'stripes'"),
        ("\udcff", "cannot be read"),
    ],
)
def test_a_bad_file_of_names_is_refused_in_words(tmp_path, capsys, plain, text, words):
    path = tmp_path / "names.json"
    path.write_text(text, "utf-8", errors="surrogateescape")
    out = tmp_path / "explore.html"
    run = str(plain.made.folder)
    assert main(["explore", run, "--names", str(path), "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert not out.exists()
    assert not (plain.made.folder / "names.json").exists()
