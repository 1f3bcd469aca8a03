"""From the command to the first step, and the most memory of a training, each in a new process.

    python benchmarks/startup.py [--root FOLDER_OF_CIFAR10]

`first` decodes the 50,000 images into an empty cache; `second` is another run on the same images;
`resumed` takes up the second one, which was ended after a few steps. Without --root, parquet files
of as many small JPEGs are made, in the hub's layout. Memory is the peak of the process over a few
steps: of `small` (a thin encoder) and of the published settings (ResNet-18) at three batch sizes,
each beside the bare step of benchmarks/training.py at the same, which holds no image.
"""

import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

IMAGES, TEST, STEPS = 50_000, 1_000, 4


class EnoughError(Exception):
    """Ends the training that is measured."""


def child(began: float, folder: Path, arguments: list[str]) -> None:
    """Train a few steps and print what it took since `began`."""
    from pellucid.pretraining import pretrain
    from pellucid.recipe import compose
    from pellucid.train.batches import TwoViews

    imported = time.time()
    steps: list[float] = []
    make = TwoViews.__call__

    def counted(self: TwoViews, *given: Any) -> Any:
        steps.append(time.time())
        if len(steps) > STEPS:
            raise EnoughError
        return make(self, *given)

    TwoViews.__call__ = counted  # type: ignore[method-assign]
    method, size, *keys = arguments
    with contextlib.suppress(EnoughError):
        pretrain(compose(method, "cifar10", size, keys), folder, say=lambda _: None)
    found = {
        "imports": imported - began,
        "to_first_step": steps[0] - imported,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(found))


def bare_child(arguments: list[str]) -> None:
    """Take a few bare steps, and print the peak."""
    import torch
    from training import bare

    from pellucid.recipe import compose
    from pellucid.train.device import resolve_precision

    device = torch.device("cpu")
    method, size, *keys = arguments
    turn = bare(compose(method, "cifar10", size, keys), device, resolve_precision("auto", device))
    turn(STEPS)
    print(json.dumps({"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def measured(cache: Path, folder: Path, *arguments: str) -> dict[str, float]:
    return _run(["--child", str(time.time()), str(folder), *arguments], cache)


def _run(arguments: list[str], cache: Path) -> dict[str, float]:
    command = [sys.executable, __file__, *arguments]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def make_set(root: Path) -> None:
    """CIFAR-10 in everything but its pictures."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    rng = np.random.default_rng(0)
    folder = root / "cifar10" / "plain_text"
    folder.mkdir(parents=True)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    for split, count in (("train", IMAGES), ("test", TEST)):
        rows = []
        for _ in range(count):
            small = Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8))
            data = io.BytesIO()
            small.resize((32, 32)).save(data, "JPEG", quality=95)
            rows.append({"bytes": data.getvalue(), "path": None})
        table = pa.table({"img": pa.array(rows, kind), "label": pa.array(np.arange(count) % 10)})
        pq.write_table(table, folder / f"{split}-00000-of-00001.parquet", row_group_size=1000)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:  # before imports that are not the training's
        child(float(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
        return
    if sys.argv[1:2] == ["--bare-child"]:
        bare_child(sys.argv[2:])
        return
    from timing import parser, report, spread

    options = parser(__doc__)
    options.add_argument("--root", type=Path, help="folder of CIFAR-10's files")
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    found: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        root = asked.root or scratch / "set"
        if asked.root is None:
            make_set(root)
        keys = [f"data.root={root.resolve()}", "data.limit=none", "train.checkpoint_minutes=0"]
        for number in range(asked.rounds):
            cache, one, two = (scratch / f"{kind}{number}" for kind in ("cache", "one", "two"))
            for start, run in (("first", one), ("second", two), ("resumed", two)):
                found.setdefault(start, []).append(measured(cache, run, "bayesncl", "small", *keys))
        peak = {}
        for size, batch in (("small", 256), ("paper", 64), ("paper", 128), ("paper", 256)):
            given = ["simclr", size, f"train.batch={batch}", *keys]
            what, run = f"{size}, batch {batch}", scratch / f"{size}{batch}"
            peak[what] = measured(cache, run, *given)["peak_mb"]
            peak[f"{what}, bare step"] = _run(["--bare-child", *given], cache)["peak_mb"]
    starts = {
        start: {
            part: spread([one[part] for one in several]) for part in ("imports", "to_first_step")
        }
        for start, several in found.items()
    }
    report({"images": IMAGES, "seconds": starts, "peak_mb": peak}, asked.out)


if __name__ == "__main__":
    main()
