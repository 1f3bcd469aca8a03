"""Two processes write the bytes of one, each image once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist
from torch import multiprocessing

from pellucid.embed import Wanted, embed, extraction
from pellucid.evaluate.extract import extract
from pellucid.run import Run, open_run

WORLD = 2
LAYOUTS: dict[str, dict[str, Any]] = {"parquet": {}, "npy": {"files": "npy"}, "begun": {}}


def written(run: Path, data: Path, out: Path, **layout: Any) -> list[int]:
    """Embed, and tell the images that this process extracted."""
    seen: list[int] = []

    def counted(*given: Any, indices: torch.Tensor, **named: Any) -> Any:
        seen.extend(indices.tolist())
        return extract(*given, indices=indices, **named)

    extraction.extract = counted
    try:
        embed(
            open_run(run), Wanted(str(data)), out, batch=2, shard_rows=4, device="cpu",
            say=lambda _: None, **layout,
        )  # fmt: skip
    finally:
        extraction.extract = extract
    return seen


def one_of_two(own_rank: int, run: Path, data: Path, folder: Path) -> None:
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=own_rank, world_size=WORLD)
    seen = {name: written(run, data, folder / name, **layout) for name, layout in LAYOUTS.items()}
    (folder / f"{own_rank}.json").write_text(json.dumps(seen))
    dist.destroy_process_group()


def test_two_processes_write_the_bytes_of_one(
    make_run: Callable[..., Run], folder: Path, tmp_path: Path
) -> None:
    run, two = make_run().folder, tmp_path / "two"
    two.mkdir()
    alone = {name: written(run, folder, tmp_path / name, **LAYOUTS[name]) for name in LAYOUTS}
    written(run, folder, two / "begun")  # by one process, which lost the last but one of six shards
    (two / "begun" / "features-00004-of-00006.parquet").unlink()
    multiprocessing.spawn(one_of_two, args=(run, folder, two), nprocs=WORLD)
    seen = [json.loads((two / f"{own_rank}.json").read_text()) for own_rank in range(WORLD)]
    shares = [[i for i in range(21) if i // 4 % WORLD == own] for own in range(WORLD)]
    for name in LAYOUTS:
        assert alone[name] == list(range(21))
        assert {p.name: p.read_bytes() for p in (two / name).iterdir()} == {
            p.name: p.read_bytes() for p in (tmp_path / name).iterdir()
        }
        expected = [list(range(16, 20)), []] if name == "begun" else shares
        assert [of[name] for of in seen] == expected
