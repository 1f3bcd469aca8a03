import io
import re
import unicodedata
from decimal import Decimal

import numpy as np
import pytest
import torch
from rich.console import Console

from pellucid.answer.examples import examples_of
from pellucid.answer.why import why
from pellucid.answer.why_answer import answer_why, rare
from pellucid.answer.why_table import bar
from pellucid.answer.words import cut, shortened
from pellucid.representation.representation import Representation
from pellucid.run import RunError
from pellucid.text import one_line

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\n\u202e[red]$x^2$"


def given(z, folder, **more):
    names = more.pop("names", [f"{i}.png" for i in range(len(z))])
    return Representation("features.npy", folder / "features.npy", z, names, **more)


def flat_colours(n):
    """One colour an image, so that a test can tell which is shown."""
    colour = torch.arange(n)[:, None] * torch.tensor([7, 11, 13]) % 256
    return colour.to(torch.uint8)[:, :, None, None].expand(n, 3, 4, 4)


def sparse(n=60, k=30, seed=0):
    z = (torch.randn(n, k, generator=torch.Generator().manual_seed(seed)) - 0.3).relu()
    z[7] = 0
    return z


def signed(n=60, k=12):
    return torch.randn(n, k, generator=torch.Generator().manual_seed(1))


def said(representation, *pair, width=110, **options):
    console = Console(width=width, record=True, file=io.StringIO())
    answer = why(representation, *pair, console, say=lambda _: None, **options)
    return answer, console.export_text()


def printed_sum(text):
    """Contributions and shares of the table, and their total, as printed."""
    values, shares, total = [], [], None
    for line in text.splitlines():
        numbers = [Decimal(number) for number in re.findall(r"-?\d\.\d{3}", line)]
        if re.match(r" *\d+  +-?\d\.\d{3}", line):
            values.append(numbers[2])  # after those of A and B
        elif re.match(r" *(\+ \d+ more|rounding)", line):
            values.append(numbers[0])
        elif line.strip().startswith("sum "):
            total = numbers[0]
            continue
        else:
            continue
        shares += [int(share) for share in re.findall(r"(-?\d+) %", line)]
    return values, shares, total


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", [sparse, signed])
def test_the_printed_column_sums_to_the_printed_cosine(tmp_path, make, seed):
    z = make()
    a, b = torch.randperm(60, generator=torch.Generator().manual_seed(seed))[:2].tolist()
    _, text = said(given(z, tmp_path), str(a), str(b), top=4)
    values, shares, total = printed_sum(text)
    x, y = z[a].double().numpy(), z[b].double().numpy()
    cosine = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
    assert sum(values) == total
    assert abs(float(total) - cosine) <= 5e-4
    assert f"cosine {total}" in text
    if make is sparse:
        assert sum(shares) == 100
    else:
        assert shares == []
        assert "%" not in text
        parts = re.search(r"positive (\S+), negative (\S+), sum (\S+)", text).groups()
        positive, negative, whole = map(Decimal, parts)
        assert positive + negative == whole == total
        products = x * y / np.linalg.norm(x) / np.linalg.norm(y)
        assert abs(float(negative) - products[products < 0].sum()) <= 5e-4


def test_rank_and_what_a_dimension_is_worth(tmp_path):
    z = sparse()
    answer, text = said(given(z, tmp_path), "3", "20")
    for dimension in [None, *answer.without]:
        kept = z.double().clone()
        if dimension is not None:
            kept[:, dimension] = 0
        unit = kept.numpy() / np.maximum(
            np.linalg.norm(kept.numpy(), axis=1, keepdims=True), 1e-300
        )
        cosines = unit @ unit[3]
        others = [i for i in range(60) if i != 3 and kept[i].any()]
        rank = sorted(others, key=lambda i: (-round(cosines[i], 12), i)).index(20) + 1
        found = answer.standing if dimension is None else answer.without[dimension].standing
        assert found == (rank, len(others))
        if dimension is not None:
            assert answer.without[dimension].cosine == pytest.approx(cosines[20], abs=1e-12)
    assert f"B is A's neighbour {answer.standing.rank} of {answer.standing.of}" in text


def test_only_the_largest_are_shown_and_the_rest_counted(tmp_path):
    answer, text = said(given(sparse() + 0.1, tmp_path), "3", "20", top=2)
    assert len(answer.shown.lines) == 2
    assert "+ 28 more" in text
    sizes = [abs(row.value) for row in answer.pair.shared]
    assert [abs(line.row.value) for line in answer.shown.lines] == sorted(sizes)[:-3:-1]
    with pytest.raises(RunError, match="at least 1"):
        answer_why(given(sparse(), tmp_path), "3", "20", top=0)


@pytest.mark.parametrize(
    ("ungated", "words"),
    [
        (None, "No dimension is active"),
        (0.0, "No dimension is active"),
        (1.0, "All gates are closed"),
    ],
)
def test_a_zero_row_is_said_in_words(tmp_path, ungated, words):
    z = sparse()
    before = None if ungated is None else z.clone()
    if before is not None:
        before[7] = ungated
    representation = given(z, tmp_path, ungated=before, thumbnails=lambda: flat_colours(60))
    for letter, pair in (("A", ("7", "3")), ("B", ("3", "7"))):
        for ending in ("png", "html"):
            _, text = said(representation, *pair, out=tmp_path / f"why.{ending}", rarity=True)
            assert f"{letter}: {words} on this image; its similarity is not defined." in text
            assert not re.search(r"nan|None|inf\b|\d %|cosine", text, re.IGNORECASE)
        page = (tmp_path / "why.html").read_text("utf-8")
        assert words in page
        assert not re.search(r"\bnan\b|\bNone\b|\d %", page)


def test_no_shared_dimension(tmp_path):
    z = sparse()
    z[0], z[1] = 0, 0
    z[0, :3], z[1, 5] = 1, 2
    _, text = said(given(z, tmp_path), "0", "1", out=tmp_path / "why.png")
    assert "These images share no active dimension." in text
    assert "cosine 0.000" in text
    assert "only in A: 0 (0.577), 1 (0.577), 2 (0.577)" in text
    assert "only in B: 5 (1.000)" in text
    assert "%" not in text


def test_duplicates_and_one_image_twice(tmp_path):
    z = sparse()
    z[9] = z[8]
    _, text = said(given(z, tmp_path), "8", "9")
    assert "cosine 1.000" in text
    assert "B is A's neighbour 1 of 58" in text
    _, text = said(given(z, tmp_path), "8", "8.png")
    assert "A and B are the same image." in text
    assert "neighbour 1" not in text


def test_names_are_data(tmp_path):
    z = sparse()
    representation = given(
        z,
        tmp_path,
        names=[HOSTILE, "a/\udcff.png", *(f"{i}.png" for i in range(2, 60))],
        labels=torch.zeros(60, dtype=torch.int64),
        classes=(HOSTILE,),
        thumbnails=lambda: flat_colours(60),
    )
    z[:2, :2] += 2
    assert {0, 1} <= {row.dimension for row in answer_why(representation, "0", "1").pair.shared}
    representation.names_file().write_text('{"0": "</td>\\u001b[2J\\u202e[red]", "1": "{{7*7}}"}')
    answer, text = said(representation, "0", "1", out=tmp_path / "why.html", width=200)
    assert {0, 1} <= set(answer.without)
    for shown in (text, text.replace("\n", "")):
        assert all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cs", "Cf") for c in shown)
    assert "</td>\\x1b[2J\\u202e[…" in text  # neither markup nor an escape sequence
    assert "{{7*7}}" in text
    page = (tmp_path / "why.html").read_text("utf-8")
    assert "<img src=x" not in page
    assert "</td>\x1b" not in page
    assert "{{7*7}}" in page
    assert "<script" not in page
    assert "\\xff" in page
    said(representation, "0", "1", out=tmp_path / "why.png")
    assert (tmp_path / "why.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert not list(tmp_path.glob(".*"))


def test_the_page_loads_and_runs_nothing(tmp_path):
    from playwright.sync_api import sync_playwright

    z = signed()
    representation = given(z, tmp_path, thumbnails=lambda: flat_colours(60))
    out = tmp_path / "why é.html"
    answer, _ = said(representation, "3", "20", out=out)
    flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=flags)
        page = browser.new_context(offline=True).new_page()
        asked, errors = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: errors.append(message.text))
        page.goto(out.as_uri())
        colours = page.evaluate(
            """[...document.images].map(image => {
                const canvas = document.createElement('canvas');
                const drawn = canvas.getContext('2d');
                drawn.drawImage(image, 0, 0);
                return [image.alt, ...drawn.getImageData(0, 0, 1, 1).data.slice(0, 3)];
            })"""
        )
        bars = page.evaluate(
            """[...document.querySelectorAll('tbody .bar')].map(bar => {
                const [mark, zero] = [bar.querySelector('rect'), bar.querySelector('.zero')];
                return [mark.getBoundingClientRect(), zero.getBoundingClientRect()]
                    .flatMap(box => [box.left, box.width]);
            })"""
        )
        rule = page.evaluate("getComputedStyle(document.querySelector('.number')).textAlign")
        browser.close()
    assert errors == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert rule == "right"  # the policy lets the style through
    shown = {"image A": 3, "image B": 20}
    for alt, *colour in colours:  # each picture is of the image that is named beside it
        image = shown[alt] if alt in shown else int(alt.removesuffix(".png"))
        assert colour == flat_colours(60)[image, :, 0, 0].tolist()
    assert len(colours) == 2 + 8 * len(answer.without)
    largest = max(abs(line.value) for line in answer.shown.lines)
    for (left, width, zero, thin), line in zip(bars, answer.shown.lines, strict=True):
        side = left + width / 2 - zero - thin / 2
        assert (side > 0) == (line.value > 0)
        longest = max(found[1] for found in bars)
        assert width / longest == pytest.approx(float(abs(line.value) / largest), abs=0.02)


def test_a_figure_without_pictures(tmp_path):
    for ending in ("png", "html"):
        said(given(sparse(), tmp_path), "3", "20", out=tmp_path / f"a/b.{ending}")
    assert "no picture" in (tmp_path / "a/b.html").read_text("utf-8")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["b.html", "b.png"]


@pytest.mark.parametrize("out", ["why.jpg", "why", "folder.png"])
def test_another_ending_is_refused_before_any_work(tmp_path, out):
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(RunError, match=r"--out takes a file"):
        said(given(sparse(), tmp_path), "none", "none", out=tmp_path / out)


def test_rarity_weighs_by_the_frequency_before_the_gate(tmp_path):
    z = sparse()
    ungated = z.clone()
    ungated[30:] += 1
    answer = answer_why(given(z, tmp_path, ungated=ungated), "3", "20")
    for row in rare(answer):
        share = (ungated[:, row.dimension] > 0).double().mean().item()
        assert row.value == pytest.approx(row.a * row.b / share)
    _, text = said(given(z, tmp_path), "3", "20", rarity=True)
    assert "not the cosine that the model was trained with" in text


def test_examples_are_active_random_first_and_never_the_pair():
    z = sparse()
    found = examples_of(z, [2, 5], each=6, leave_out={3, 20})
    for k, examples in found.items():
        value = z[:, k] / z.norm(dim=1).clamp(min=1e-30)
        value[[3, 20]] = 0
        assert examples.strongest == value.argsort(descending=True)[:6].tolist()
        assert all(value[i] > 0 for i in examples.random)
        assert len(set(examples.random)) == 6
    assert found[2].random != found[2].strongest
    assert examples_of(z, [2], each=6, leave_out={3, 20})[2] == found[2]
    other = examples_of(z, [2], each=6, leave_out={3, 20, found[2].random[0]})[2]
    assert other.random[:5] == found[2].random[1:]  # the same in every answer
    none = torch.zeros(5, 3)
    none[1, 0] = 1
    assert examples_of(none, [0, 1], each=4, leave_out=set()) == {0: ([1], [1]), 1: ([], [])}


def test_examples_of_a_signed_dimension_are_on_the_side_of_a():
    z = signed()
    found = examples_of(z, [2], each=6, leave_out=set(), signs={2: -0.3})[2]
    assert all(z[i, 2] < 0 for i in [*found.random, *found.strongest])


def test_bars():
    assert bar(1.0, 10, signed=False) == "█" * 10
    assert bar(-0.2, 10, signed=False) == ""
    assert bar(0.5, 11, signed=True) == "     │██   "
    assert bar(-1.0, 11, signed=True) == "▒▒▒▒▒│     "


def test_words():
    assert shortened("abcdefghij", 5) == "ab…ij"
    assert shortened("abc", 3) == "abc"
    assert cut("abcdef", 4) == "abc…"
    assert one_line("a\r\n\x1b]\x9b") == "a\\r\\n\\x1b]\\x9b"
