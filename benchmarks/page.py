"""What the page of `pellucid explore` costs, beside the page that one would write first.

    python benchmarks/page.py --out page.json
    python benchmarks/page.py --quick                      a minute, to see that it works
    python benchmarks/page.py --images runs/bayesncl       its thumbnails in place of patches

Each case is a representation with labels, names and pictures, of which two pages are written: ours,
and a naive one with an <img> an image and all activations as JSON. Both are opened in Chromium
without a network. Printed as a table in Markdown:

    MB             of the file, 10^6 bytes, then by part
    write, peak    seconds of processor time to write it (in brackets by the clock), and memory
                   beyond that of the representation itself
    paint, ready   seconds until something is seen, and until every control works: median of the
                   rounds (the fastest), each in a browser context of its own
    busy           seconds of processor time that the page's main thread had spent by then, likewise
    neighbours     ms of the exact query for one image's 12 nearest, in the page: median of 20
                   images (the fastest)
    open           ms from a click on an image to its card on the screen, likewise
    heap           MB of JavaScript's heap and array buffers after a collection

Then `pellucid search`: ms of its exact query over 50,000 images. Times are of the machine as it is:
where others use it too, the fastest says more than the median.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch
from page_made import made
from page_naive import write_naive
from playwright.sync_api import Browser, sync_playwright

from pellucid.answer.neighbours import Neighbours
from pellucid.explore.page import explore, read
from pellucid.train.device import hardware

CHROMIUM = os.environ.get("PELLUCID_CHROMIUM", "/usr/bin/chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
PATIENCE = 300_000
"""Milliseconds that a page may take."""
QUERIES = 20
NEAREST = 12
TIMED = """
  const timed = (rows, ask) => rows.map((row) => {
    const began = performance.now();
    ask(row);
    return performance.now() - began;
  });
  const chosen = (count) => Array.from({ length: QUERIES }, (_, i) => Math.floor(i * count / QUERIES));
""".replace("QUERIES", str(QUERIES))  # noqa: E501
OURS = f"""async () => {{
  {read("store.js")}
  {TIMED}
  const [store] = await Store.open();
  const rows = chosen(store.rows);
  return {{ ms: timed(rows, (row) => store.neighbours(row, {NEAREST})), ids: rows.map((r) => store.image(r)) }};
}}"""  # noqa: E501
THEIRS = f"() => {{ {TIMED} return {{ ms: timed(chosen(z.length), (row) => neighbours(row, {NEAREST})) }}; }}"  # noqa: E501
PAINT = """() => new Promise((done) => {
  const found = () => performance.getEntriesByName("first-contentful-paint")[0];
  const wait = () => (found() ? done(found().startTime) : requestAnimationFrame(wait));
  wait();
})"""
OPEN = """(id) => new Promise((done) => {
  const began = performance.now();
  addEventListener("hashchange", () => requestAnimationFrame(() => setTimeout(() => done(performance.now() - began))), { once: true });
  location.hash = `img=${id}`;
})"""  # noqa: E501
Figures = dict[str, Any]


class Case(NamedTuple):
    """A representation."""

    images: int
    dimensions: int
    active: float
    side: int
    """Of its stored pictures, in pixels."""


CASES = (Case(10_000, 256, 0.21, 96), Case(50_000, 256, 0.21, 64), Case(10_000, 2_048, 0.10, 96))
QUICK = (Case(1_000, 64, 0.21, 64),)


def write(case: Case, form: str, out: Path, run: Path | None, side: int) -> Figures:
    """Write a page and say what it took; in a process of its own, whose memory is its own."""
    torch.set_num_threads(1)
    representation = made(*case, run)
    before = _memory("VmRSS")
    _forget_peak()
    began, busy = time.perf_counter(), time.process_time()
    if form == "naive":
        parts, held = write_naive(representation, out, side), case.images
    else:
        written = explore(representation, out, say=lambda line: None)
        parts = {part.name: part.size for part in written.parts}
        held, side = written.images, written.side or 0
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    peak = _memory("VmHWM")
    return {
        "form": form,
        "held": held,
        "side": side,
        "bytes": out.stat().st_size,
        "parts": parts,
        "write_seconds": seconds,
        "write_processor_seconds": busy,
        "peak_mb": None if peak is None or before is None else (peak - before) / 1e6,
    }


def opened(browser: Browser, path: Path, rounds: int) -> Figures:
    """Open a page and ask it for neighbours."""
    found: dict[str, list[float]] = {"paint_seconds": [], "ready_seconds": [], "busy_seconds": []}
    for number in range(rounds):
        context = browser.new_context(offline=True, viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        tools = context.new_cdp_session(page)
        tools.send("Performance.enable", {"timeDomain": "threadTicks"})
        began = time.perf_counter()
        page.goto(path.as_uri(), wait_until="commit")
        page.locator("body[data-ready]").wait_for(state="attached")
        found["ready_seconds"].append(time.perf_counter() - began)
        spent = {
            one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]
        }
        found["busy_seconds"].append(spent["TaskDuration"])
        found["paint_seconds"].append(page.evaluate(PAINT) / 1e3)
        if number == rounds - 1:
            tools.send("HeapProfiler.collectGarbage")
            use = tools.send("Runtime.getHeapUsage")
            heap = (use["usedSize"] + use.get("backingStorageSize", 0)) / 1e6
            naive = page.evaluate("() => typeof neighbours === 'function'")
            asked = page.evaluate(THEIRS if naive else OURS)
            cards = [page.evaluate(OPEN, image) for image in asked.get("ids", [])]
        context.close()
    return {**found, "heap_mb": heap, "neighbours_ms": asked["ms"], "open_ms": cards}


def searched(images: int, dimensions: int) -> Figures:
    """The exact query of `pellucid search`, images loaded."""
    z = made(images, dimensions, 0.21, 8, None).z
    began = time.perf_counter()
    index = Neighbours(z)
    built, took = time.perf_counter() - began, []
    for row in range(0, images, images // 50):
        began = time.perf_counter()
        index.nearest(z[row], NEAREST, itself=row)
        took.append(1e3 * (time.perf_counter() - began))
    return {"images": images, "dimensions": dimensions, "build_seconds": built, "query_ms": took}


def both(values: list[float], digits: int) -> str:
    """Median and fastest."""
    if not values:
        return "–"
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f})"


def line(case: Case, found: Figures) -> str:
    """A row of the table."""
    size = {name: f"{size / 1e6:.2f}" for name, size in found["parts"].items()}
    short = ("thumbnails", "activations", "statistics and names")
    rest = sum(value for name, value in found["parts"].items() if name not in short)
    some = f"{found['held']:,}" + ("" if found["held"] == case.images else " (sampled)")
    peak = "–" if found["peak_mb"] is None else f"{found['peak_mb']:,.0f}"
    cells = [
        f"{case.images:,} x {case.dimensions:,}, {case.active:.0%} active",
        found["form"],
        some,
        f"{found['side']} px",
        f"{found['bytes'] / 1e6:.2f}",
        *(size.get(name, "–") for name in short),
        f"{rest / 1e6:.2f}",
        f"{found['write_processor_seconds']:.1f} ({found['write_seconds']:.1f})",
        peak,
        both(found["paint_seconds"], 2),
        both(found["ready_seconds"], 2),
        both(found["busy_seconds"], 2),
        both(found["neighbours_ms"], 1),
        both(found["open_ms"], 0),
        f"{found['heap_mb']:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Write, open, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one small case, opened once")
    parser.add_argument("--rounds", type=int, default=3, help="times that a page is opened")
    parser.add_argument(
        "--images", type=Path, metavar="RUN", help="an evaluated run whose thumbnails are taken"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the pages here, to look at them"
    )
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    if not Path(CHROMIUM).is_file():
        sys.exit(f"{CHROMIUM} is missing: install Chromium, or say where in PELLUCID_CHROMIUM")
    cases, rounds = (QUICK, 1) if options.quick else (CASES, options.rounds)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        figures = measure(cases, rounds, folder.resolve(), options.images)
    with _alone() as worker:
        search = worker.submit(searched, 5_000 if options.quick else 50_000, 256).result()
    print(
        f"\nsearch: {both(search['query_ms'], 1)} ms a query over {search['images']:,} x "
        f"{search['dimensions']}, median (fastest) of {len(search['query_ms'])}, after "
        f"{search['build_seconds']:.1f} s of loading"
    )
    if options.out:
        options.out.write_text(json.dumps({**figures, "search": search}, indent=2) + "\n")


def measure(cases: tuple[Case, ...], rounds: int, folder: Path, run: Path | None) -> Figures:
    """Every case in both forms."""
    heads = (
        *("representation", "page", "images", "thumbnails", "MB", "thumbnails", "activations"),
        *("statistics", "rest", "write s", "peak MB", "paint s", "ready s", "busy s"),
        *("neighbours ms", "open ms", "heap MB"),
    )
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        about = {
            **hardware(torch.device("cpu")),
            "processors": os.cpu_count(),
            "system": platform.platform(),
            "chromium": browser.version,
            "playwright": version("playwright"),
            "pictures": "patches of photographs" if run is None else run.name,
            "rounds": rounds,
        }
        print(", ".join(f"{key} {value}" for key, value in about.items()))
        print(f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
        rows = []
        for case in cases:
            side = 0
            for form in ("ours", "naive"):
                out = folder / f"{form}-{case.images}-{case.dimensions}.html"
                with _alone() as worker:
                    found = worker.submit(write, case, form, out, run, side).result()
                side = found["side"]  # the naive page has the same thumbnails
                found |= opened(browser, out, rounds)
                found["load_average"] = os.getloadavg()[0]
                rows.append(case._asdict() | found)
                print(line(case, found), flush=True)
        browser.close()
    return {**about, "pages": rows}


def _alone() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def _memory(key: str) -> int | None:
    """Bytes of this process by a line of /proc; None elsewhere."""
    try:
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
    except OSError:
        return None
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def _forget_peak() -> None:
    if Path("/proc/self/clear_refs").exists():
        Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main()
