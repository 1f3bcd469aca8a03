"""The verb `embed`: options to arguments, and errors in words."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pellucid.cli import main
from pellucid.representation.representation import open_representation
from pellucid.run import Run


def test_a_folder_becomes_features(
    make_run: Callable[..., Run], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = make_run(), tmp_path / "out"
    words = ["embed", str(run.folder), "--data", str(folder), "--device", "cpu"]
    assert main([*words, "--out", str(out)]) == 0
    said = capsys.readouterr().err
    assert f"a after step 8: 21 images of photos (all) into {out}" in said
    assert "21 images in 24 dimensions" in said
    whole = open_representation(out)
    assert whole.h is not None
    assert whole.gate is not None

    some = tmp_path / "some"
    assert main([*words, "--out", str(some), "--only", "z, h", "--format", "npy"]) == 0
    assert {path.name for path in some.glob("*.npy")} == {"z.npy", "h.npy", "labels.npy"}
    assert torch.equal(open_representation(some).z, whole.z)
    sparse = [*words, "--out", str(tmp_path / "sparse"), "--sparse", "--batch", "5"]
    assert main(sparse) == 0
    found = open_representation(tmp_path / "sparse")
    torch.testing.assert_close(found.h, whole.h, atol=1e-4, rtol=1e-4)  # other batches round else
    assert found.z.shape == whole.z.shape
    capsys.readouterr()
    assert main(sparse) == 0
    assert "is finished: nothing to do" in capsys.readouterr().err
    assert main([*sparse[:-1], "6"]) == 1
    assert "batch: 5 there, 6 asked" in capsys.readouterr().err


def test_a_known_set_and_an_error(
    make_run: Callable[..., Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["embed", str(make_run().folder), "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert main([*words, "--data", "nowhere"]) == 1
    assert "nowhere is no known data set" in capsys.readouterr().err
    assert main([*words, "--data", "cifar10"]) == 1
    assert "cifar10 is not in" in capsys.readouterr().err
    assert main([*words, "--data", "scenes"]) == 0
    assert "2,048 images of scenes (test)" in capsys.readouterr().err
    assert main(["embed", str(tmp_path), "--data", "scenes", "--out", str(tmp_path / "x")]) == 1
    assert "is no run directory" in capsys.readouterr().err
