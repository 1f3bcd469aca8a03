"""Every verb on a stranger's images and run, whose names attack whatever shows them.

All verbs run in one process of their own, since an audit hook, which notes whatever they fetch,
start, unpickle or write elsewhere, stays in a process for ever: this file is also its script.
"""

import contextlib
import csv
import html.parser
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

EVIL = "evil.example"
LINK = f"\x1b]8;;http:{EVIL}\x1b\\click\x1b]8;;\x1b\\"
NAMES = [
    *(f"[link=http:{EVIL}]a", "[red]b", "[bold]", LINK, "\x1b[2J\x1b[31m", "\x9b31m"),
    *("\u202egnp.exe", "over\rwritten", "a\nerror: b", "\x07\x08", "\u2066\u200f", "$\\frac{a$"),
    *(f'=HYPERLINK("http:{EVIL}")', "+1", "-2+3", "@SUM(A1)", "\t=1", '"=1+1', " '=2", "＝1+1"),
    *(f"<img src=x:{EVIL} onerror=alert(1)>", '" onmouseover="alert(1)', "{{ 7 * 7 }}", "`a`|b"),
]
"""What files may be called."""
WORDS = [
    *NAMES,
    "[/]",
    f"</script><script src=//{EVIL}></script>",
    "</title><b>",
    "]]>-->",
    "\ud800",
]
"""What JSON may call things."""
CLASSES = (f'=HYPERLINK("http:{EVIL}")', f"[red]{LINK}\u202e<b onclick=alert(1)>")
TINY = [
    *("views.size=8", "projector.hidden=16", "projector.dimensions=8", "evaluation.min_support=1"),
    *("encoder.name=resnet18-thin", "head.hidden=16", "train.batch=16", "train.epochs=1"),
    *("train.warmup_epochs=0", "train.precision=fp32", "data.bad_share=0.2"),
]
ENCODERS = ("hf-hub:evil/model", "hf_hub:evil/model", "local-dir:/evil", "timm/resnet18", "hf-hub:")
FORBIDDEN = {
    *("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"),
    *("urllib.Request", "http.client.connect", "webbrowser.open", "pickle.find_class"),
    *("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system"),
}


def watch(root, events):
    """Note whatever a verb may not do."""

    def hook(event, arguments):
        if event in FORBIDDEN:
            events.append(f"{event} {arguments!r}")
        elif event == "open" and isinstance(arguments[0], str):
            path, mode, flags = arguments
            writes = set(mode or "") & set("wax+") or (flags or 0) & (os.O_WRONLY | os.O_RDWR)
            if writes and not path.startswith((root, "/dev/")):
                events.append(f"wrote {path!r}")

    sys.addaudithook(hook)


def run_jobs(root):
    """Do the jobs in turn; keep what each said, and what was noted."""
    import matplotlib.font_manager  # noqa: F401  # it may look for fonts the first time

    from pellucid.cli import main
    from pellucid.nets.encoders import make_encoder

    events, said = [], {}
    watch(root, events)
    for name, kind, arguments in json.loads(Path(root, "jobs.json").read_text()):
        out, err, status = io.StringIO(), io.StringIO(), None
        if kind == "write":
            Path(arguments[0]).write_text(arguments[1])
        elif kind == "link":
            Path(arguments[0]).parent.mkdir(exist_ok=True)
            Path(arguments[0]).symlink_to(arguments[1])
        elif kind == "copy":
            shutil.copytree(*arguments)
        elif kind == "encoder":
            try:
                make_encoder(arguments[0], 8)
                status = 0
            except ValueError as error:
                err.write(str(error))
        else:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = main(arguments)
        said[name] = {"status": status, "out": out.getvalue(), "err": err.getvalue()}
    Path(root, "said.json").write_text(json.dumps({"said": said, "events": events}))


def make_images(photos):
    generator = np.random.default_rng(0)
    for split, count in (("train", len(NAMES)), ("test", 8)):
        for number, kind in enumerate(CLASSES):
            (photos / split / kind).mkdir(parents=True)
            for index, name in enumerate(NAMES[:count]):
                pixels = generator.integers(0, 100, (8, 8, 3), dtype=np.uint8)
                pixels[::2, :: 1 + number] += 150
                Image.fromarray(pixels).save(photos / split / kind / f"{name} {index}.png", "PNG")
    for name in NAMES[-12:]:
        (photos / "train" / CLASSES[0] / f"{name}.png").write_bytes(b"no image")


def jobs_of(root):
    photos = root / f"[link=http:{EVIL}]photos\x1b[2J\u202e"
    make_images(photos)
    run, again = root / f"=run[red]{LINK}<b>", root / "@again\r\x9b31m"
    shown, features, canary = root / "shown", root / "=features\x1b[31m<b>", str(root / "canary")
    Path(canary).write_text("alive")
    names = json.dumps({str(k): word for k, word in enumerate([*WORDS[-5:], *NAMES[12:15]])})
    recipe = ["bayesncl", str(photos), "small", *TINY]
    lost, image = f"\x1b[31m[red]{LINK}\r\u202e", photos / "test" / CLASSES[1] / f"{NAMES[3]} 3.png"
    stranger = root / f"{LINK}.png"
    Image.new("RGB", (8, 8), "red").save(stranger, "PNG")
    codes = root / f"[red]{LINK}codes.npz"
    np.savez(codes, features=np.eye(16, dtype=np.float32))  # under a name that is noted
    jobs = [
        ("preview", "verb", ["preview", *recipe, "--out", shown / "preview.png"]),
        ("pretrain", "verb", ["pretrain", *recipe, "--out", run]),
        *((f"link {name}", "link", [run / "features" / f".{name}.safetensors.writing", canary])
          for name in ("test", "thumbnails")),
        *((f"link {name}", "link", [shown / f".{name}.png.writing", canary])
          for name in ("why", "search", "compare", "dimensions")),
        *((f"link {path.name}", "link", [path.with_name(f".{path.name}.writing"), canary])
          for path in (run / "scores.json", run / "features" / "test.json",
                       shown / "explore.html", shown / "compare.csv", shown / "compare.md")),
        ("evaluate", "verb", ["evaluate", run]),
        ("names", "write", [run / "names.json", names]),
        ("copy", "copy", [run, again]),
        ("explore", "verb", ["explore", run, "--with", again, "--out", shown / "explore.html"]),
        ("why", "verb", ["why", run, "0", "9", "--rarity", "--out", shown / "why.html"]),
        ("why a file", "verb", ["why", run, image, stranger, "--out", shown / "why.png"]),
        ("search", "verb", ["search", run, "3", "--out", shown / "search.html"]),
        ("search a file", "verb", ["search", run, stranger, "--out", shown / "search.png"]),
        ("embed", "verb", ["embed", run, "--data", photos, "--out", features]),
        ("embed npy", "verb",
         ["embed", run, "--data", photos, "--out", root / "npy", "--format", "npy"]),
        ("compare", "verb", ["compare", run, again, features, "--out", shown]),
        ("compare a file", "verb", ["compare", run, codes]),
        ("explore features", "verb",
         ["explore", features, "--images", photos, "--out", shown / "features.html"]),
        ("list", "verb", ["list", "heads"]),
        ("lost image", "verb", ["why", run, lost, "0"]),
        ("lost run", "verb", ["evaluate", root / lost]),
        ("lost labels", "verb", ["explore", features, "--labels", root / lost]),
        ("lost data", "verb", ["embed", run, "--data", lost, "--out", root / "x"]),
        ("lost method", "verb", ["pretrain", lost, photos]),
        ("other recipe", "verb", ["pretrain", *recipe, "train.seed=5", "--out", run]),
        *((name, "encoder", [name]) for name in (*ENCODERS, "resnet18.a1_in1k")),
    ]  # fmt: skip
    return shown, run, [(name, kind, list(map(str, arguments))) for name, kind, arguments in jobs]


class Told:
    """What the verbs said, wrote and did."""

    def __init__(self, root):
        self.shown, self.run, jobs = jobs_of(root)
        self.canary = root / "canary"
        (root / "jobs.json").write_text(json.dumps(jobs))
        places = {"XDG_CACHE_HOME": root / "cache", "TMPDIR": root, "COLUMNS": "10000"}
        quiet = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run(
            [sys.executable, __file__, str(root)],
            env={**os.environ, **quiet} | {name: str(value) for name, value in places.items()},
            check=True,
        )
        found = json.loads((root / "said.json").read_text())
        self.said, self.events = found["said"], found["events"]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    return Told(tmp_path_factory.mktemp("strangers"))


def test_every_verb_does_what_it_is_for(told, figure):
    ended = {name: one["status"] for name, one in told.said.items() if one["status"] is not None}
    right = [name for name in ended if not name.startswith(("lost", "other"))]
    assert [told.said[name] for name in right if ended[name] != 0] == []
    assert {"pretrain", "compare", "explore features", "resnet18.a1_in1k"} <= set(right)
    figure("verbs run on a stranger's files", verbs=len(ended), names=len(WORDS))


def test_nothing_is_fetched_started_unpickled_or_written_elsewhere(told):
    assert told.events == []


def test_a_link_under_a_temporary_name_is_not_written_through(told):
    assert told.canary.read_text() == "alive"
    for name in ("why.png", "search.png", "compare.png", "dimensions.png"):
        assert (told.shown / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_from_elsewhere_is_refused(told, name):
    assert told.said[name]["status"] is None
    assert f"unknown encoder {name!r}" in told.said[name]["err"]


def test_no_escape_sequence_reaches_a_terminal(told):
    for name, one in told.said.items():
        for text in (one["out"], one["err"]):
            unsafe = [letter for letter in text if not letter.isprintable() and letter != "\n"]
            assert unsafe == [], (name, text)


def test_names_are_shown_as_they_are(told):
    assert r"=run[red]\x1b]8;;http:evil.example" in told.said["evaluate"]["out"]
    assert rf"[link=http:{EVIL}]photos\x1b[2J\u202e" in re.sub(
        r"\s", "", told.said["preview"]["out"]
    )
    assert f"[link=http:{EVIL}]a 0.png" in told.said["search"]["out"]
    assert r"[red]\x1b]8;;" in told.said["search"]["out"]
    assert r"@again\r\x9b31m" in told.said["compare"]["out"]
    assert r"z is features of [red]\x1b]8;;" in told.said["compare a file"]["out"]


@pytest.mark.parametrize(
    "name", ["lost image", "lost run", "lost labels", "lost data", "lost method", "other recipe"]
)
def test_an_error_shows_a_name_as_it_is(told, name):
    one = told.said[name]
    assert one["status"] == 1
    assert re.search("^error: ", one["err"], re.MULTILINE)
    assert "Traceback" not in one["err"]
    assert re.search(r"\[red\]\\+x1b\]8;;", one["err"])


class Page(html.parser.HTMLParser):
    """Elements of a page that load or run something."""

    def __init__(self, text):
        super().__init__()
        self.loading, self.tags = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            inert = name not in ("href", "src", "action", "srcdoc", "data", "style", "formaction")
            if name.startswith("on") or not (inert or value.startswith(("#", "data:image/"))):
                self.loading.append((tag, name, value))


@pytest.mark.parametrize("page", ["explore", "features", "why", "search"])
def test_a_page_runs_and_loads_nothing_that_a_name_says(told, page):
    text = (told.shown / f"{page}.html").read_text("utf-8")
    read = Page(text)
    assert read.loading == []
    assert {"html", "main", "bdi"} <= read.tags
    scripts = re.findall("<script[^>]*>", text)
    inert = [tag for tag in scripts if 'type="text/plain"' in tag]
    assert len(scripts) - len(inert) == (1 if page in ("explore", "features") else 0)
    assert "default-src 'none'" in text
    assert "&lt;" in text  # names of the attack are there


@pytest.mark.parametrize("file", ["compare.csv", "dimensions.csv", "skipped.tsv"])
def test_no_cell_is_a_formula(told, file):
    path = told.run / file if file == "skipped.tsv" else told.shown / file
    text = path.read_text("utf-8")
    assert all(letter.isprintable() or letter in "\n\t" for letter in text)
    separator = "\t" if file == "skipped.tsv" else ","
    quoted = list(csv.reader(io.StringIO(text), delimiter=separator))
    plain = list(csv.reader(io.StringIO(text), delimiter=separator, quoting=csv.QUOTE_NONE))
    cells = [cell for row in [*quoted, *plain] for cell in row]
    assert any(EVIL in cell or "=" in cell for cell in cells)
    for cell in cells:
        start = cell.lstrip('"')  # which stand around a cell, or in its place
        start = "" if start[:1] == "'" else start.lstrip(" \t\r\n\"'\xa0")
        with contextlib.suppress(ValueError):
            float(cell)
            start = ""  # a number below zero
        assert not start.startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠")), cell


def test_no_name_is_markup_in_markdown(told):
    text = (told.shown / "compare.md").read_text("utf-8")
    assert r"\<b\>" in text
    assert not re.search(r"(?<!\\)<", text)
    assert all(letter.isprintable() or letter == "\n" for letter in text)


if __name__ == "__main__":
    run_jobs(sys.argv[1])
