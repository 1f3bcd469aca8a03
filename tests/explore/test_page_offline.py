"""The page is one file: nothing is asked of a network, and nothing of a neighbouring file."""

import re
import shutil

import pytest

CSP = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


USE_ALL = """async (places) => {
    const used = new Set();
    const rest = () => new Promise((done) => setTimeout(done));
    const enter = async (place) => {
        for (const hash of ["overview", place]) {
            if (location.hash === `#${hash}`) continue;
            const event = new Promise((done) => {
                addEventListener("hashchange", done, { once: true });
            });
            location.hash = hash;
            await event;
        }
        await rest();
        return document.querySelector("section.place:not([hidden])");
    };
    const kind = (button) => button.textContent.replace(/\\d+/g, "0");
    for (const place of places) {
        let section = await enter(place);
        for (const label of new Set([...section.querySelectorAll("button")].map(kind))) {
            section = await enter(place);
            const button = [...section.querySelectorAll("button")].find((b) => kind(b) === label);
            if (button === undefined || button.disabled) continue;
            button.click();
            used.add(label);
            await rest();
        }
        section = await enter(place);
        for (const summary of section.querySelectorAll("summary")) summary.click();
        for (const field of section.querySelectorAll("input, select")) {
            const values = field.options ? [...field.options].map((o) => o.value) : ["1"];
            for (const value of values) {
                if (field.type === "checkbox") field.click();
                else {
                    field.value = value;
                    for (const event of ["input", "change"]) field.dispatchEvent(new Event(event));
                }
                used.add(field.type);
                await rest();
            }
        }
        const canvas = section.querySelector("canvas");
        if (canvas) canvas.click();
    }
    return [...used];
}"""


def test_every_place_and_control_without_a_request(visit, compared, places):
    page = visit(compared)
    for place in places:  # slowly, so that pictures are loaded
        visit(compared, place)
        assert page.locator("section.place:visible").get_attribute("id") == place.partition("=")[0]
    used = page.evaluate(USE_ALL, places)
    page.locator("#find").fill("1")
    page.locator("#found a").first.click()
    assert set(used) >= {
        *("Download table (CSV)", "random live one", "show others", "Save names.json", "explain"),
        *("random image", "A with its nearest", "random image with its nearest", "show"),
        *("text", "number", "checkbox", "select-one"),
    }


def test_the_policy_comes_first_and_allows_nothing(plain):
    text = plain.path.read_text("utf-8")
    (policy,) = CSP.findall(text)
    assert policy.startswith("default-src 'none'; ")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["img-src"] == "data: blob:"
    parts = {"default-src", "script-src", "style-src", "img-src", "base-uri", "form-action"}
    assert set(rules) == parts
    for kind in ("script-src", "style-src"):
        assert re.fullmatch(r"'sha256-[A-Za-z0-9+/=]+'", rules[kind])
    before = text[: text.index(policy)]
    assert not re.search(r"<(script|style|link|img|base)\b", before)


@pytest.mark.parametrize("what", ["fetch", "image"])
def test_the_browser_itself_refuses_requests(browser, plain, what):
    # With a network that would answer: only the policy is in the way.
    context = browser.new_context()
    context.route(
        "https://**",
        lambda route: route.fulfill(
            headers={"Access-Control-Allow-Origin": "*", "Content-Type": "image/svg+xml"},
            body='<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
        ),
    )
    page = context.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(plain.path.as_uri())
    page.locator("body[data-ready]").wait_for()
    script = {
        "fetch": "() => fetch('https://example.com').then(() => 'came', () => 'refused')",
        "image": """() => new Promise((done) => {
            const image = new Image();
            [image.onload, image.onerror] = [() => done("came"), () => done("refused")];
            image.src = "https://example.com/dot.svg";
        })""",
    }[what]
    answer = page.evaluate(script)
    context.close()
    assert answer == "refused"
    assert any("Content Security Policy" in words for words in said)


def test_the_file_alone_in_an_odd_folder_is_enough(tmp_path, page, gated):
    folder = tmp_path / "été & hiver" / "a b#c"
    folder.mkdir(parents=True)
    copy = shutil.copy(gated.path, folder / "explore.html")
    assert [path.name for path in folder.iterdir()] == ["explore.html"]
    page.goto(copy.as_uri() + "#dimensions")
    page.locator("body[data-ready]").wait_for(timeout=8_000)
    shown = """async () => {
        const seen = [...document.images].filter((image) => {
            const box = image.getBoundingClientRect();
            return box.bottom > 0 && box.top < innerHeight && box.width > 0;
        });
        for (let i = 0; i < 80 && seen.some((image) => !image.complete || !image.src); i++) {
            await new Promise((done) => setTimeout(done, 50));
        }
        return seen.map((image) => image.naturalWidth);
    }"""
    widths = page.evaluate(shown)
    assert len(widths) >= 20
    assert min(widths) > 0
