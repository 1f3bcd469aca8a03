"""Tiny runs whose z is known, their pages, and a browser to read them in."""

import contextlib
import io
import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import sync_playwright

from pellucid.cli import main
from pellucid.data import ImageSet
from pellucid.evaluate.extract import Features
from pellucid.evaluate.store import write_features
from pellucid.evaluate.table import MEANINGS
from pellucid.recipe import resolve
from pellucid.run import start_run

CHROMIUM = os.environ.get("PELLUCID_CHROMIUM", "/usr/bin/chromium")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
LEVELS = (10, 65, 120, 175, 230)
COLOURS = np.array([(r, g, b) for r in LEVELS for g in LEVELS for b in LEVELS], dtype=np.uint8)
"""One flat colour an image, far enough apart to be told from each other after encoding."""
CLASSES = ("tiger", "zebra", "heron")
PLACES = (
    *("overview", "dimensions", "dim=5", "dim=3", "images", "img=20", "img=7"),
    *("pair=7,8", "pair=20,21", "gate=5", "classes", "versus"),
)
MOVE = """place => new Promise((done) => {
    if (location.hash === `#${place}`) return done();
    addEventListener("hashchange", () => setTimeout(done), { once: true });
    location.hash = place;
})"""
NO_LABELS = "the images have no labels"
LABEL_FREE = {
    *("activation_rate", "density", "effective_rank", "orthogonality", "monosemanticity"),
}


@dataclass(frozen=True)
class Made:
    """A run directory, and what is in it as numpy fp64."""

    folder: Path
    z: np.ndarray
    before: np.ndarray
    """z with every gate open."""
    gate: np.ndarray | None
    threshold: float | None
    labels: np.ndarray | None
    classes: tuple[str, ...] | None
    names: list[str]
    scores: dict[str, Any]

    @property
    def active(self) -> np.ndarray:
        return np.abs(self.unit) > 1e-5

    @property
    def unit(self) -> np.ndarray:
        """Rows of length 1; a zero row stays zero."""
        length = np.linalg.norm(self.z, axis=1, keepdims=True)
        return self.z / np.where(length > 0, length, 1)


@dataclass(frozen=True)
class Page:
    """A page on disk, and the run that it is of."""

    made: Made
    path: Path
    said: str
    """What the command printed beside its result."""
    other: Made | None = None
    """The run that it is compared with."""


def known_z(n: int, k: int, seed: int) -> np.ndarray:
    """Random non-negative rows; with 60 x 12 and more, each special case has its own column."""
    random = np.random.default_rng(seed)
    z = random.gamma(2.0, size=(n, k)) * (random.random((n, k)) < 0.35)
    if n >= 60 and k >= 12:
        z[20:24] = random.gamma(2.0, size=(4, k))  # so many that a pair shares more than 8
        z[:, 0] = 0
        z[:10, 0] = 1 + random.random(10)  # stripes, on images 0 to 9
        z[:, 1] = 0
        z[[12, 33, 51], 1] = 2.0  # a rare one
        z[:, 3] = 0  # dead
        z[:, 4] = 0.5 + random.random(n)  # always on
        z[:, 6] = z[:, 5]  # the same twice
        z[8] = z[9]
        z[11] = 2 * z[10]
    return z.astype(np.float32)


def known_gate(before: np.ndarray, seed: int) -> np.ndarray:
    """Gate probabilities: some of exactly one half, and image 7 closed altogether."""
    random = np.random.default_rng(seed + 1)
    gate = 0.55 + 0.4 * random.random(before.shape)
    closed = random.random(before.shape) < 0.15
    gate[closed] = 0.05 + 0.4 * random.random(int(closed.sum()))
    gate[random.random(before.shape) < 0.03] = 0.5
    gate[:, 4] = 0.7  # always on stays so
    gate[:, 6] = gate[:, 5]
    gate[11], gate[8] = gate[10], gate[9]
    gate[20:24] = 0.8
    gate[7] = 0.2
    return gate.astype(np.float32)


def known_scores(labelled: bool, n: int, k: int, run: str) -> dict[str, Any]:
    """Every score with numbers of its own, so that no cell can be taken for another."""

    def score(i: int, offset: float) -> dict[str, Any]:
        if not labelled and list(MEANINGS)[i] not in LABEL_FREE:
            empty = dict.fromkeys(("value", "chance", "low", "high", "dimensions", "support"))
            return empty | {"reason": NO_LABELS}
        value = 0.30 + 0.0213 * i + offset
        return {
            "value": 10 * value + 8 if list(MEANINGS)[i] == "effective_rank" else value,
            "chance": value / 3,
            "low": value - 0.0171,
            "high": value + 0.0149,
            "dimensions": 2 + i % (k + 1),
            "support": 1000 + 37 * i,
            "reason": None,
        }

    numbers = range(len(MEANINGS))
    return {
        "run": run,
        "method": "ncl",
        "step": 1234,
        "settings": {"scored_split": "test", "scored_images": n, "min_support": 10},
        "trained": {name: score(i, 0.0) for i, name in zip(numbers, MEANINGS, strict=True)},
        "untrained": {name: score(i, -0.1234) for i, name in zip(numbers, MEANINGS, strict=True)},
        "notes": [],
    }


@pytest.fixture(scope="session")
def make_run(tmp_path_factory):
    """Writes a run directory as `pellucid evaluate` leaves it, with what a test wants in it."""

    def make(
        n: int = 60,
        k: int = 12,
        *,
        labels: Any = "thirds",
        gate: str | None = None,
        seed: int = 15,
        name: str = "stripes-run",
        z: np.ndarray | None = None,
        names: list[str] | None = None,
        classes: tuple[str, ...] = CLASSES,
        pixels: np.ndarray | None = None,
        scores: dict[str, Any] | None = None,
    ) -> Made:
        before = known_z(n, k, seed) if z is None else z.astype(np.float32)
        before = before.copy()
        gates = None if gate is None else known_gate(before, seed)
        after = before.copy()
        if gates is not None:
            after = before * (gates if gate == "soft" else (gates > 0.5))
            if gate == "soft":
                before[7] = after[7] = 0
        elif z is None and n > 8:
            before[7] = after[7] = 0
        folder = tmp_path_factory.mktemp("made") / name
        recipe = {"name": "non-negative"}
        if gates is not None:
            recipe = {"name": "bayes-gate", "variant": "soft" if gate == "soft" else "ste"}
        run = start_run(folder, resolve({"head": recipe}))
        if labels is not None and isinstance(labels, str):
            labels = np.arange(n) * len(classes) // n
        if pixels is None:
            pixels = np.broadcast_to(
                COLOURS[np.arange(n) % len(COLOURS), :, None, None], (n, 3, 24, 24)
            )
        names = names or [f"shots/{i:03d}.png" for i in range(n)]
        some = None if labels is None else torch.from_numpy(np.asarray(labels))
        images = ImageSet.from_pixels(
            torch.from_numpy(pixels.copy()), some, None if labels is None else classes, names
        )
        h = np.random.default_rng(seed + 2).standard_normal((n, 6)).astype(np.float32)
        u = np.where(before > 0, before, -0.3).astype(np.float32)
        threshold = 0.5 if gate == "hard" else None
        tensors = [torch.from_numpy(part.copy()) for part in (h, u, after)]
        probabilities = None if gates is None else torch.from_numpy(gates)
        ungated = torch.from_numpy(before.copy())
        features = Features(*tensors, probabilities, ungated, some)
        write_features(run, features, images, step=1234, threshold=threshold)
        tree = known_scores(labels is not None, n, k, run.name) if scores is None else scores
        (folder / "scores.json").write_text(json.dumps(tree))
        return Made(
            folder=folder,
            z=after.astype(np.float64),
            before=before.astype(np.float64),
            gate=None if gates is None else gates.astype(np.float64),
            threshold=threshold,
            labels=None if labels is None else np.asarray(labels),
            classes=None if labels is None else classes,
            names=names,
            scores=tree,
        )

    return make


@pytest.fixture(scope="session")
def explore(tmp_path_factory):
    """Runs `pellucid explore` on a run, and gives the page that it wrote."""

    def run(made: Made, *options: str | Path) -> Page:
        out = tmp_path_factory.mktemp("page") / "explore.html"
        with contextlib.redirect_stderr(io.StringIO()) as said:
            status = main(["explore", str(made.folder), "--out", str(out), *map(str, options)])
        assert status == 0, said.getvalue()
        return Page(made, out, said.getvalue())

    return run


@pytest.fixture(scope="session")
def plain(make_run, explore):
    """A run with labels and without a gate."""
    return explore(make_run())


@pytest.fixture(scope="session")
def gated(make_run, explore):
    """The same before a hard gate."""
    return explore(make_run(gate="hard", name="gated-run"))


@pytest.fixture(scope="session")
def unlabelled(make_run, explore):
    """The same without labels."""
    return explore(make_run(labels=None, name="bare-run"))


@pytest.fixture(scope="session")
def signed(make_run, explore):
    """A run whose dimensions have either sign."""
    z = np.random.default_rng(5).standard_normal((60, 12))
    return explore(make_run(z=z, name="signed-run"))


@pytest.fixture(scope="session")
def compared(make_run, explore):
    """A gated run beside another of the same images: two columns new, the others turned round."""
    made = make_run(gate="hard", name="first-run")
    z = made.before.copy()
    for k in (2, 9):
        z[:, k] = np.random.default_rng(k).permutation(z[:, k])
    second = make_run(z=z[:, ::-1], name="second-run")
    return replace(explore(made, "--with", second.folder), other=second)


@pytest.fixture(scope="session")
def browser():
    """Chromium, one a session. Where it must be there, its absence is a failure."""
    if shutil.which(CHROMIUM) is None:
        words = f"{CHROMIUM} is not there; PELLUCID_CHROMIUM names another Chromium"
        if os.environ.get("PELLUCID_BROWSER") == "required":
            pytest.fail(words)
        pytest.skip(words)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def window(browser):
    """One window without a network for all tests: pages keep nothing, so it is as new in each."""
    context = browser.new_context(offline=True)
    window = context.new_page()
    window.set_default_timeout(8_000)
    yield window
    context.close()


@pytest.fixture
def page(window):
    """An empty page; any error in it, or request beyond the file, fails the test."""
    requested, errors = [], []
    listeners = {
        "request": lambda request: requested.append(request.url),
        "pageerror": lambda error: errors.append(str(error)),
        "console": lambda said: said.type == "error" and errors.append(said.text),
    }
    for event, listener in listeners.items():
        window.on(event, listener)
    window.set_viewport_size({"width": 1280, "height": 800})
    window.emulate_media(color_scheme="light")
    yield window
    window.goto("about:blank")
    for event, listener in listeners.items():
        window.remove_listener(event, listener)
    assert errors == []
    inside = ("file:", "data:", "blob:", "about:")
    assert [url for url in requested if not url.startswith(inside)] == []


@pytest.fixture(scope="session")
def places():
    """An address of each kind that the page knows; those that a run lacks lead to the overview."""
    return PLACES


@pytest.fixture
def visit(page):
    """Opens a page at a place: a first time from the file, afterwards as a link would."""

    def go(site: Page | Path, place: str = "overview"):
        path = site if isinstance(site, Path) else site.path
        address = path.as_uri()
        if page.url.partition("#")[0] == address:
            page.evaluate(MOVE, place)
        else:
            page.goto(f"{address}#{place}")
            page.locator("body[data-ready]").wait_for()
        return page

    return go


@pytest.fixture
def colours(page):
    """Which image each shown thumbnail is, by its colour; None for one that is not loaded."""
    read = """async (images) => Promise.all(images.map(async (image) => {
        await image.decode();
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        return [...context.getImageData(canvas.width >> 1, canvas.height >> 1, 1, 1).data];
    }))"""

    def seen(images) -> list[int]:
        """Images by number; images of the fixture have one colour each."""
        page.set_viewport_size({"width": 1280, "height": 6_000})
        images.and_(page.locator("img:not([src])")).first.wait_for(state="detached")
        found = np.array(images.evaluate_all(read))[:, :3].astype(int)
        away = np.abs(found[:, None] - COLOURS[None].astype(int)).max(axis=2)
        assert away.min(axis=1).max() <= 12, "a thumbnail of no known colour"
        return away.argmin(axis=1).tolist()

    return seen
