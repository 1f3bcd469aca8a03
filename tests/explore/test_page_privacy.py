"""What is in the file beside what is shown, and what its header says of itself."""

import base64
import gzip
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from PIL.ExifTags import GPS, IFD, Base

from pellucid.data import open_images

SECRETS = ("SecretCamera 9000", "Jane Roe", "Exif")
DATA = re.compile(r'<script type="text/plain" id="data-(\w+)">([^<]*)</script>')


def parts(path):
    """The embedded data by name as bytes, and `page`, all the rest."""
    text = path.read_text("utf-8")
    found = {name: base64.b64decode(data) for name, data in DATA.findall(text)}
    found["page"] = DATA.sub("", text).encode()
    return {
        name: gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        for name, data in found.items()
    }


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Pictures as a camera writes them, below someone's home directory."""
    root = tmp_path_factory.mktemp("disk") / "home" / "jroe" / "photos"
    exif = Image.Exif()
    exif[Base.Make] = SECRETS[0]
    exif[Base.Artist] = SECRETS[1]
    exif.get_ifd(IFD.GPSInfo).update({GPS.GPSLatitudeRef: "N", GPS.GPSLatitude: (48.0, 51.0, 29.6)})
    random = np.random.default_rng(0)
    for i in range(60):
        path = root / ("cat", "dog", "owl")[i // 20] / f"{i:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (24, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path, exif=exif, comment=b"taken by Jane Roe")
    return root


@pytest.fixture(scope="module")
def photographed(make_run, explore, photographs, tmp_path_factory):
    images = open_images(
        str(photographs), "train", holdout=0.0, cache_dir=tmp_path_factory.mktemp("cache")
    )
    assert len(images) == 60
    made = make_run(
        pixels=images.pixels.numpy(), names=images.names, labels=images.labels.numpy(),
        classes=images.classes, name="photographed",
    )  # fmt: skip
    return explore(made)


def test_no_trace_of_the_camera_or_the_disk(photographs, photographed):
    original = next(photographs.rglob("*.jpg")).read_bytes()
    assert all(secret.encode() in original for secret in SECRETS)  # or nothing would be shown
    held = parts(photographed.path)
    assert held.keys() == {"shape", "content", "entries", "thumbnails", "page"}
    assert held["thumbnails"].count(b"WEBP") == 60
    folders = {str(photographs.parents[2]), str(photographed.made.folder.parent), "jroe", "/home"}
    for secret in (*SECRETS, *folders, "GPS", "EXIF"):
        assert not any(secret.encode() in data for data in held.values()), secret
    assert b"cat/000.jpg" in held["content"]


@pytest.mark.parametrize(
    ("options", "words", "absent"),
    [
        ([], ["All 60 images are embedded", "60 thumbnails of 24 px", "with file names"], []),
        (
            ["--max-images", "20"],
            ["20 of 60 images embedded", "statistics on 60", "20 thumbnails of 24 px"],
            [],
        ),
        (["--no-images"], ["no thumbnails"], ["thumbnails of"]),
        (["--no-names"], ["without file names"], []),
    ],
)
def test_the_header_says_what_is_embedded(plain, explore, visit, options, words, absent):
    site = explore(plain.made, *options) if options else plain
    notice = visit(site).locator("#overview .notice").inner_text()
    assert all(word in notice for word in words)
    assert not any(word in notice for word in absent)
    assert "loads nothing from the network" in notice


def test_a_sample_keeps_statistics_of_all(plain, explore, visit):
    made = plain.made
    site = explore(made, "--max-images", "20")
    page = visit(site, "images")
    shown = page.locator("#grid a").evaluate_all("a => a.map((x) => Number(x.hash.slice(5)))")
    assert len(shown) == 20
    assert shown == sorted(shown)
    counts = np.bincount(made.labels[shown], minlength=3)
    assert counts.min() >= 6  # each class with its share
    visit(site, "dim=5")
    words = page.locator("#dim .summary").inner_text()
    assert words.startswith(f"Active on {made.active[:, 5].sum()} of 60 images")
    random = page.locator('#dim [data-kind="random"] a').evaluate_all(
        "a => a.map((x) => Number(x.hash.slice(5)))"
    )
    assert set(random) <= set(shown) & set(np.flatnonzero(made.active[:, 5]))
    absent = next(i for i in range(60) if i not in shown)
    visit(site, f"img={absent}")
    sentence = f"Image {absent} is not in this file: it holds 20 of 60 images."
    assert sentence in page.locator("#img").inner_text()
    visit(site, f"pair={shown[0]},{absent}")
    assert sentence in page.locator("#pair").inner_text()
    a, b = shown[0], shown[5]
    visit(site, f"pair={a},{b}")
    true = float(made.unit[a] @ made.unit[b])
    assert float(page.locator("#cosine-value").inner_text()) == pytest.approx(true, abs=5.2e-4)
    assert page.locator(".side").first.inner_text().startswith(f"A {a:03d}.png")


def test_no_images(plain, explore, visit, places):
    site = explore(plain.made, "--no-images")
    held = parts(site.path)
    assert held["thumbnails"] == b""
    assert not any(b"WEBP" in data for data in held.values())
    for place in places:
        page = visit(site, place)
        assert page.locator("img").count() == 0
    assert b"shots/000.png" in held["content"]
    visit(site, "images")
    assert page.locator("#grid a").first.inner_text().startswith("000.png")


def test_no_file_names(plain, explore, visit, places):
    site = explore(plain.made, "--no-names")
    for name in (b"shots/", b".png"):
        assert not any(name in data for data in parts(site.path).values())
    for place in places:
        page = visit(site, place)
        assert "shots/" not in page.locator("body").inner_text()
    visit(site, "img=20")
    assert page.locator("#img h2").inner_text() == "image 20"
    assert (
        "tiger" in page.locator("#img").inner_text() or "zebra" in page.locator("#img").inner_text()
    )


def test_the_same_input_gives_the_same_bytes(compared, plain, explore):
    again = explore(plain.made)
    assert again.path.read_bytes() == plain.path.read_bytes()
    script = "from pellucid.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
    out = again.path.with_name("other-process.html")
    command = [
        *(sys.executable, "-c", script, "explore", str(compared.made.folder)),
        *("--out", str(out), "--with", str(compared.other.folder)),
    ]
    seeds = {"PYTHONHASHSEED": "4711"}
    subprocess.run(command, check=True, capture_output=True, env=os.environ | seeds)
    assert out.read_bytes() == compared.path.read_bytes()
