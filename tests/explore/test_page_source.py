"""What the scripts of the page may not contain."""

import re
from importlib import resources

import pytest

SCRIPTS = sorted(
    path.name
    for path in (resources.files("pellucid.explore") / "static").iterdir()
    if path.name.endswith(".js")
)
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser"
    r"|createContextualFragment|setHTML|srcdoc|\bfetch\b|XMLHttpRequest|WebSocket|sendBeacon"
    r"|EventSource|\bimport\b|localStorage|https?:(?!//www\.w3\.org/2000/svg)"
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_text_goes_in_as_text_and_nothing_is_loaded(name):
    text = (resources.files("pellucid.explore") / "static" / name).read_text("utf-8")
    assert FORBIDDEN.findall(text) == []


def test_every_script_is_in_the_page(plain):
    page = plain.path.read_text("utf-8")
    assert len(SCRIPTS) > 10
    for name in SCRIPTS:
        text = (resources.files("pellucid.explore") / "static" / name).read_text("utf-8")
        assert text in page, name
