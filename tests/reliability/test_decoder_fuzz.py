"""Damaged images of every format: an image or a reason, never a crash, a hang or much memory.

Seeds are images made here, and the files of the folder PELLUCID_SEEDS when that is set.
"""

import io
import json
import os
import random
import select
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

SECONDS, BYTES = 2.0, 500e6
"""The most processor time and memory that a file may take."""
PATIENCE = 30
"""Seconds to wait for an answer, on a machine with other work, before it is a hang."""
SHARDS = 4 if os.environ.get("PELLUCID_SOAK") else 1
"""Each starts a child, which takes longer than some hundred files do."""


def seeds():
    """Encoded images of every format and kind that Pillow writes, by name."""
    generator = np.random.default_rng(0)
    small = generator.integers(0, 256, (12, 16, 3), dtype=np.uint8)
    rgb = Image.fromarray(small).resize((64, 48), Image.Resampling.BICUBIC)
    alpha = rgb.convert("RGBA")
    alpha.putalpha(rgb.convert("L"))
    deep = Image.fromarray(np.asarray(rgb.convert("L")).astype(np.uint16) * 257)
    frames = {"save_all": True, "append_images": [rgb.rotate(90 * n) for n in (1, 2, 3)]}
    palette, grey, cmyk = rgb.convert("P"), rgb.convert("L"), rgb.convert("CMYK")
    exif = Image.Exif()
    exif[0x0112] = 6
    kinds = [
        *[
            (rgb, "JPEG", {"quality": 90, **more})
            for more in ({}, {"progressive": True}, {"exif": exif})
        ],
        *[(image, "JPEG", {}) for image in (grey, cmyk)],
        *[(image, "PNG", {}) for image in (rgb, alpha, palette, grey, deep, rgb.convert("1"))],
        (palette, "PNG", {"transparency": 3}),
        (rgb, "PNG", {"default_image": False, **frames}),
        *[(palette, "GIF", more) for more in ({}, {"transparency": 3}, frames)],
        *[(alpha, "WEBP", more) for more in ({}, {"lossless": True}, {"exif": exif})],
        (rgb, "WEBP", frames),
        *[
            (rgb, "TIFF", {"compression": name})
            for name in ("raw", "tiff_lzw", "tiff_adobe_deflate", "jpeg", "packbits")
        ],
        (rgb.convert("1"), "TIFF", {"compression": "group4"}),
        *[(image, "TIFF", {}) for image in (alpha, deep, cmyk, palette)],
        *[(rgb, kind, {}) for kind in ("AVIF", "JPEG2000", "BMP", "PPM", "TGA", "MPO")],
        *[(image, "BMP", {}) for image in (palette, grey)],
        (rgb, "TGA", {"compression": "tga_rle"}),
    ]
    found = {}
    for number, (image, kind, options) in enumerate(kinds):
        out = io.BytesIO()
        try:
            image.save(out, kind, **options)
        except (KeyError, OSError):  # a format that this Pillow was built without
            continue
        found[f"{kind}-{number}"] = out.getvalue()
    more = os.environ.get("PELLUCID_SEEDS")
    for path in sorted(Path(more).iterdir()) if more else []:
        found[path.name] = path.read_bytes()[:200_000]
    return found


NUMBERS = [0, 1, 2, 255, 256, 32767, 32768, 65500, 65535, 2**24, 2**31 - 1, 2**31, 2**32 - 1]


def damaged(dice, data, other):
    """A mutation of encoded bytes, of one or two kinds."""
    found = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 3))):
        kind, length = dice.randrange(8), max(len(found), 1)
        at = dice.randrange(min(length, 64)) if dice.random() < 0.4 else dice.randrange(length)
        end = min(length, at + dice.choice((1, 2, 4, 16, 200)))
        if kind == 0:
            for _ in range(dice.choice((1, 3, 20))):
                if found:
                    found[dice.randrange(len(found))] ^= 1 << dice.randrange(8)
        elif kind == 1:
            del found[at:]
        elif kind == 2:
            found[at:at] = dice.randbytes(end - at)
        elif kind == 3:
            found[at:end] = bytes(end - at)
        elif kind == 4:
            del found[at:end]
        elif kind == 5:  # a size, an offset or a count
            form = dice.choice((">I", "<I", ">H", "<H"))
            number = dice.choice(NUMBERS) % 256 ** struct.calcsize(form)
            found[at : at + struct.calcsize(form)] = struct.pack(form, number)
        elif kind == 6:
            found[at:] = other[dice.randrange(max(len(other), 1)) :]
        else:
            found[at:at] = bytes(found[at:end]) * dice.choice((2, 50))
    return bytes(found)


class Decoder:
    """A child that decodes, started again when it was lost."""

    def __init__(self):
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(Path(__file__).with_name("decoder.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def __call__(self, data):
        if self.process is None:
            self.start()
        self.process.stdin.write(struct.pack("<q", len(data)) + data)
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        self.process.kill()
        status = self.process.wait()
        self.close()
        return {"outcome": "hang" if not ready else "crash", "reason": f"status {status}"}

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
            self.process = None


@pytest.fixture
def decoder():
    made = Decoder()
    yield made
    made.close()


def test_the_seeds_themselves_are_images(decoder):
    if os.environ.get("PELLUCID_SEEDS"):
        pytest.skip("what is in that folder need not be")
    for name, data in seeds().items():
        assert decoder(data)["outcome"] == "image", name


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_damaged_file_is_an_image_or_is_refused_by_name(decoder, tries, figure, shard):
    found = seeds()
    names, dice = sorted(found), random.Random(shard)
    count = {"image": 0, "refused": 0}
    slowest, largest = 0.0, 0
    for number in range(tries(300, 40_000) // SHARDS):
        name = names[number % len(names)]
        data = damaged(dice, found[name], found[dice.choice(names)])
        seen = decoder(data)
        case = f"{name}, shard {shard}, file {number}: {seen}"
        if seen["outcome"] not in count or seen["seconds"] > SECONDS or seen["bytes"] > BYTES:
            keep = Path(os.environ.get("PELLUCID_SOAK", "/nowhere")).with_name("damaged")
            if keep.parent.is_dir():
                keep.mkdir(exist_ok=True)
                (keep / f"{shard}-{number}-{name}").write_bytes(data)
        assert seen["outcome"] in count, case
        assert seen["seconds"] <= SECONDS, case
        assert seen["bytes"] <= BYTES, case
        count[seen["outcome"]] += 1
        slowest, largest = max(slowest, seen["seconds"]), max(largest, seen["bytes"])
    assert min(count.values()) > 0, "some must survive, some must not, or nothing was tried"
    figure(
        "damaged images",
        files=sum(count.values()),
        images=count["image"],
        refused=count["refused"],
        slowest_ms=round(1000 * slowest),
        largest_mb=round(largest / 1e6),
    )
