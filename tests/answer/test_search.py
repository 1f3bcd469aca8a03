import io
import re
import unicodedata
from decimal import Decimal

import numpy as np
import pytest
import torch
from rich.console import Console

from pellucid.answer import search as module
from pellucid.answer.search import search
from pellucid.answer.search_answer import carried_by, find_similar
from pellucid.cli import search as verb
from pellucid.cli.entry import main
from pellucid.representation.representation import Representation
from pellucid.run import RunError

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\n\u202e[red]$x^2$"


def given(z, folder, **more):
    names = more.pop("names", [f"{i}.png" for i in range(len(z))])
    return Representation("features.npy", folder / "features.npy", z, names, **more)


def flat_colours(n):
    colour = torch.arange(n)[:, None] * torch.tensor([7, 11, 13]) % 256
    return colour.to(torch.uint8)[:, :, None, None].expand(n, 3, 4, 4)


def sparse(n=60, k=12, seed=0):
    z = (torch.randn(n, k, generator=torch.Generator().manual_seed(seed)) - 0.3).relu()
    z[7] = 0
    return z


def said(representation, image, width=110, **options):
    console = Console(width=width, record=True, file=io.StringIO())
    answer = search(representation, image, console, say=lambda _: None, **options)
    return answer, console.export_text()


def ranking(z, query, allowed):
    """By a slow loop in float64."""
    scored = []
    for i in allowed:
        row, asked = z[i].double().numpy(), z[query].double().numpy()
        if row.any():
            cosine = row @ asked / np.linalg.norm(row) / np.linalg.norm(asked)
            scored.append((-cosine.round(12), i))
    return sorted(scored)


@pytest.mark.parametrize("make", [sparse, lambda: torch.randn(60, 12)])
def test_images_order_and_scores_are_those_of_float64(tmp_path, make):
    z = make()
    z[9], z[30] = z[8], z[8]
    representation = given(z, tmp_path, labels=torch.arange(60) % 3 - 1, classes=("cat", "dog"))
    for query in range(0, 60, 6):
        if query == 30:
            continue
        answer, text = said(representation, str(query), top=5)
        expected = ranking(z, query, [i for i in range(60) if i != query])[:5]
        assert [match.image for match in answer.matches] == [i for _, i in expected]
        lines = [line.split() for line in text.splitlines() if re.match(r" +[1-5] ", line)]
        assert len(lines) == 5
        for rank, (line, (value, i)) in enumerate(zip(lines, expected, strict=True), start=1):
            assert line[:3] == [str(rank), f"{-value:.3f}".replace("-0.000", "0.000"), str(i)]
            label = (None, "cat", "dog")[i % 3]
            assert label is None or label in line
            assert f"{i}.png" in line
    assert [match.image for match in find_similar(representation, "30", top=2).matches] == [8, 9]


def test_filters_keep_images_with_and_without_dimensions(tmp_path):
    z = sparse()
    answer, text = said(given(z, tmp_path), "3", top=60, with_dims=[2, 5, 2], without_dims=[4])
    allowed = [i for i in range(60) if i != 3 and z[i, 2] > 0 and z[i, 5] > 0 and z[i, 4] == 0]
    assert [match.image for match in answer.matches] == [i for _, i in ranking(z, 3, allowed)]
    assert len(allowed) > 1
    count = len(allowed)
    assert f"{count} nearest images with dimension 2, with dimension 5, without dimension 4" in text


def test_no_image_left(tmp_path):
    z = sparse()
    z[:, 4] = 0
    _, text = said(given(z, tmp_path), "3", with_dims=[4], out=tmp_path / "found.png")
    assert "No other image with dimension 4 has a similarity to it." in text


def test_a_zero_query_is_said_in_words(tmp_path):
    z = sparse()
    for ungated, words in ((None, "No dimension is active"), (z + 1, "All gates are closed")):
        for ending in ("png", "html"):
            representation = given(z, tmp_path, ungated=ungated)
            answer, text = said(representation, "7", out=tmp_path / f"found.{ending}")
            assert answer.matches == []
            assert f"{words} on this image; its similarity is not defined." in text
            assert not re.search(r"nan|%|cosine", text, re.IGNORECASE)
        assert words in (tmp_path / "found.html").read_text("utf-8")


def test_each_match_names_what_carries_it(tmp_path):
    z = sparse()
    representation = given(z, tmp_path)
    representation.names_file().write_text('{"2": "stripes"}')
    answer, text = said(representation, "3", top=60)
    for match in answer.matches:
        products = z[3].double() * z[match.image].double()
        order = products.argsort(descending=True, stable=True)[:3].tolist()
        order = [k for k in order if products[k] > 0]
        found = carried_by(match, answer.names)
        assert [int(words.split()[0]) for words, _ in found] == order
        for k, (words, value) in zip(order, found, strict=True):
            assert abs(int(value.removesuffix(" %")) - 100 * products[k] / products.sum()) < 1
            assert words == ("2 stripes" if k == 2 else str(k))
    assert "2 stripes (" in text


def test_where_contributions_cancel_values_stand_in_place_of_shares(tmp_path):
    z = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    answer, text = said(given(z, tmp_path), "0", top=39)
    assert any(match.pair.signed for match in answer.matches)
    for match in answer.matches:
        if match.pair.signed:
            for (_, value), line in zip(carried_by(match, {}), match.shown.lines, strict=True):
                assert value[0] in "+-"
                assert Decimal(value) == Decimal(f"{line.row.value:.3f}")
    assert "(+0." in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"with_dims": [12]}, "--with-dim 12: features.npy has dimensions 0 to 11"),
        ({"without_dims": [3, -1]}, "--without-dim -1: features.npy has dimensions 0 to 11"),
        ({"with_dims": [3, 4], "without_dims": [4]}, "dimension 4 is asked for"),
        ({"top": 0}, "--top must be at least 1"),
        ({"out": "found.gif"}, "--out takes a file that ends in .png or .html"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(tmp_path, options, words):
    if "out" in options:
        options = {"out": tmp_path / options["out"]}
    with pytest.raises(RunError, match=re.escape(words)):
        said(given(sparse(), tmp_path), "3", **options)


def test_names_are_data(tmp_path):
    z = sparse()
    names = [f"{HOSTILE}{i}\udcff" for i in range(60)]
    representation = given(
        z,
        tmp_path,
        names=names,
        labels=torch.zeros(60, dtype=torch.int64),
        classes=(HOSTILE,),
        thumbnails=lambda: flat_colours(60),
    )
    text = ", ".join(f'"{k}": "</td>\\u001b[2J\\u202e[red]$"' for k in range(12))
    representation.names_file().write_text(f"{{{text}}}")
    for width in (40, 300):
        _, text = said(representation, names[3], width=width)
        seen = {unicodedata.category(c) for c in text if c != "\n"}
        assert not seen & {"Cc", "Cs", "Cf"}
    for ending in ("png", "html"):
        said(representation, "3", out=tmp_path / f"found.{ending}")
    page = (tmp_path / "found.html").read_text("utf-8")
    assert "<script" not in page
    assert "<img src=x" not in page
    assert page.count("<img ") == 11
    assert (tmp_path / "found.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert not list(tmp_path.glob(".*"))


def test_numbers_are_whole_on_a_narrow_terminal(tmp_path):
    answer, text = said(given(sparse(), tmp_path), "3", width=30, top=3)
    for match in answer.matches:
        assert f" {match.shown.total} " in text


def test_a_figure_without_pictures(tmp_path):
    for ending in ("png", "html"):
        said(given(sparse(), tmp_path), "3", out=tmp_path / f"found.{ending}", top=3)
    assert (tmp_path / "found.html").read_text("utf-8").count("no picture") == 4


def test_the_page_shows_the_right_images_and_runs_nothing(tmp_path):
    from playwright.sync_api import sync_playwright

    representation = given(sparse(), tmp_path, thumbnails=lambda: flat_colours(60))
    out = tmp_path / "found.html"
    answer, _ = said(representation, "3", out=out, top=6)
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_context(offline=True).new_page()
        asked, errors = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: errors.append(message.text))
        page.goto(out.as_uri())
        colours = page.evaluate(
            """[...document.images].map(image => {
                const drawn = document.createElement('canvas').getContext('2d');
                drawn.drawImage(image, 0, 0);
                return [...drawn.getImageData(0, 0, 1, 1).data.slice(0, 3)];
            })"""
        )
        words = page.locator(".match p").all_inner_texts()
        display = page.evaluate("getComputedStyle(document.querySelector('.matches')).display")
        browser.close()
    assert errors == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert display == "grid"  # the policy lets the style through
    images = [3, *(match.image for match in answer.matches)]
    assert colours == [flat_colours(60)[i, :, 0, 0].tolist() for i in images]
    for shown, match in zip(words, answer.matches, strict=True):
        assert str(match.shown.total) in shown
        assert f"image {match.image}, {match.name}" in shown


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    asked = {}
    monkeypatch.setattr(verb, "representation_of", lambda options: options.run)
    monkeypatch.setattr(module, "search", lambda *given, **more: asked.update(more, given=given))
    flags = ["--with-dim", "17", "3", "--without-dim", "5", "--with-dim", "4", "--top", "2"]
    assert main(["search", "runs/a", "cat.png", *flags, "--out", "found.png"]) == 0
    assert (asked["with_dims"], asked["without_dims"]) == ([17, 3, 4], [5])
    assert (asked["top"], str(asked["out"])) == (2, "found.png")
    assert asked["given"][1] == "cat.png"
    assert main(["search", "runs/a", "cat.png"]) == 0
    assert (asked["with_dims"], asked["without_dims"], asked["out"]) == ([], [], None)
    with pytest.raises(SystemExit):
        main(["search", "runs/a", "cat.png", "--with-dim", "stripes"])
