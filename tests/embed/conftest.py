from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pellucid.build import build_learner, build_optimiser
from pellucid.recipe import resolve
from pellucid.run import Run, start_run
from pellucid.train import checkpoint

SIDE = 8


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Run]:
    """Makes a run directory with a checkpoint of a small, shaken branch."""

    def make(name: str = "a", head: str = "bayes-gate", seed: int = 0, **data: object) -> Run:
        heads = {
            "signed": {"name": "signed"},
            "bayes-gate": {"name": "bayes-gate", "activation": "rep-relu", "prior": 0.3},
        }
        recipe = resolve(
            {
                "method": "bayesncl" if head == "bayes-gate" else "simclr",
                "data": {"source": "scenes", **data},
                "encoder": {"name": "resnet18-thin"},
                "projector": {"hidden": 16, "dimensions": 24},
                "views": {"size": SIDE},
                "head": heads[head],
                "weights": {"contrast": 1.0} | ({"gate_kl": 1e-3} if head == "bayes-gate" else {}),
                "train": {"batch": 8, "epochs": 1, "warmup_epochs": 0, "precision": "fp32"},
            }
        )
        run = start_run(tmp_path / "runs" / name, recipe)
        learner = build_learner(recipe)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in learner.parameters():
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
        checkpoint.save(run.folder, 8, learner, build_optimiser(recipe, learner), {})
        return run

    return make


@pytest.fixture
def put_images() -> Callable[..., list[Path]]:
    """Writes images of noise under names below a folder."""

    def put(root: Path, *names: str | bytes, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        for name in names:
            text = name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")
            path = root / text
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = generator.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path, "PNG")

    return put


@pytest.fixture
def folder(tmp_path: Path, put_images: Callable[..., None]) -> Path:
    """21 images in two classes, in one split."""
    root = tmp_path / "photos"
    put_images(root, *[f"{'cat' if i % 3 else 'dog'}/{i:02d}.png" for i in range(21)])
    return root
