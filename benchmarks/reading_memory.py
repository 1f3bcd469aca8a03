"""Peak memory of listing a folder of images and of reading it as a stream, by number of files.

    python benchmarks/reading_memory.py --files 5000 50000

Files are hard links to a few small JPEGs. Each number of files is measured in a process of its
own; the memory of its readers is counted with it.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from pellucid.data.folder import open_folder
from pellucid.data.image_set import open_images
from pellucid.data.source import Source
from pellucid.data.view_parameters import ViewSettings
from pellucid.train.batches import TwoViews, epoch_batches

BATCH, READ = 256, 20


def resident() -> int:
    """Bytes in use now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmRSS in /proc/self/status")


def fill(root: Path, files: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)
    (root / "originals").mkdir()
    Image.fromarray(pixels).save(root / "originals" / "image.jpg")
    for number in range(files):
        folder = root / "images" / f"class {number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        # A file system takes some ten thousand names of one file.
        if number % 20_000 == 0:
            source = root / "originals" / f"{number}.jpg"
            source.write_bytes((root / "originals" / "image.jpg").read_bytes())
        os.link(source, folder / f"photograph {number:08}.jpg")


def measure(root: Path, workers: int) -> dict[str, float]:
    before = resident()
    source: Source = open_folder(root / "images", "train", holdout=0.0)
    listed = resident()
    count = len(source)
    del source
    images = open_images(
        str(root / "images"),
        "train",
        memory_limit_gb=0,
        holdout=0.0,
        workers=workers,
        stored_size=64,
    )
    views = TwoViews(ViewSettings(), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 0, BATCH)
    order = [
        batch for epoch in range(READ) for batch in epoch_batches(count, BATCH, 1, 0, epoch, 0)
    ]
    for _ in views.read(images, order[:READ]):
        pass
    usage = resource.getrusage
    return {
        "files": count,
        "bytes_a_listed_file": round((listed - before) / count),
        "peak_mb": round(usage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "largest_reader_mb": round(usage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--files", type=int, nargs="+", default=[5_000, 50_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="measure this one, in this process")
    options = parser.parse_args()
    if options.folder:
        print(json.dumps(measure(options.folder, options.workers)))
        return
    for files in options.files:
        with tempfile.TemporaryDirectory() as root:
            fill(Path(root), files)
            command = [
                sys.executable,
                __file__,
                "--folder",
                root,
                "--workers",
                str(options.workers),
            ]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
