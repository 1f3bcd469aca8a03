"""Seconds to list a folder of a million images, the first time and when nothing has changed.

    python benchmarks/listing.py --files 1000000

Files are hard links in 1,000 class folders, made anew. `first` walks; `again` takes the listing
that the first left in the cache. Both end with names, labels and the fingerprint of the set. The
system has just made the files, so it knows their entries: a cold disk adds its own time to `first`.
"""

import os
import tempfile
import time
from pathlib import Path

from timing import parser, report, spread

from pellucid.data.known import open_source

FOLDERS, LINKS = 1_000, 20_000
SETTLED = 3.0
"""Seconds after which a listing of a changed folder is kept."""


def fill(root: Path, files: int) -> None:
    """Hard links to an empty file; a file system takes some ten thousand names of one."""
    originals = root / "originals"
    originals.mkdir()
    for number in range(files):
        original = originals / str(number // LINKS)
        if number % LINKS == 0:
            original.touch()
        folder = root / "images" / "train" / f"n{number * FOLDERS // files:08}"
        if number % max(1, files // FOLDERS) == 0:
            folder.mkdir(parents=True, exist_ok=True)
        os.link(original, folder / f"{folder.name}_{number}.JPEG")
    for name in ("n00000000", "n00000001"):
        (root / "images" / "val" / name).mkdir(parents=True)
        (root / "images" / "val" / name / "1.JPEG").touch()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--files", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=5)
    asked = options.parse_args()
    seconds: dict[str, list[float]] = {"first": [], "again": []}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        fill(root, asked.files)
        time.sleep(SETTLED)
        for number in range(asked.rounds):
            cache = root / f"cache{number}"
            for kind, taken in seconds.items():
                began = time.perf_counter()
                source = open_source(str(root / "images"), "train", cache_dir=cache)
                taken.append(time.perf_counter() - began)
                if len(source) != asked.files:
                    raise AssertionError(f"{kind}: {len(source)} of {asked.files} images listed")
                if not list(cache.glob("*.listing")):
                    raise AssertionError(f"{kind}: no listing was kept")
    figures = {kind: spread(taken) for kind, taken in seconds.items()}
    report({"files": asked.files, "rounds": asked.rounds, "seconds": figures}, asked.out)


if __name__ == "__main__":
    main()
