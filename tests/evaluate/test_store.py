import json
from pathlib import Path

import pytest
import torch

from pellucid.data.image_set import ImageSet
from pellucid.evaluate.extract import Features
from pellucid.evaluate.store import read_features, read_thumbnails, thumbnails, write_features
from pellucid.recipe import resolve
from pellucid.run import Run, RunError


def run_in(folder: Path) -> Run:
    return Run(folder, resolve({"head": {"name": "signed"}}))


def pixels(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, shape, generator=generator, dtype=torch.uint8)


def image_set(count: int = 6, size: int = 8) -> ImageSet:
    names = [
        "a/ü 猫.png",
        "a/\udcff.png",
        "</script>.png",
        *(f"b/{i}.png" for i in range(count - 3)),
    ]
    return ImageSet.from_pixels(
        pixels(count, 3, size, size), torch.arange(count) % 3 - 1, ("a", "b"), names
    )


def features(count: int = 6, *, gated: bool = True) -> Features:
    generator = torch.Generator().manual_seed(2)
    h, u = torch.randn(count, 5, generator=generator), torch.randn(count, 4, generator=generator)
    gate = torch.rand(count, 4, generator=generator) if gated else None
    return Features(h, u, u.relu(), gate, u.relu(), torch.arange(count) % 3 - 1)


@pytest.mark.parametrize("gated", [True, False])
def test_what_is_written_is_read(tmp_path: Path, gated: bool) -> None:
    run, data, found = run_in(tmp_path), image_set(), features(gated=gated)
    write_features(run, found, data, step=7, threshold=0.5 if gated else None)
    stored = read_features(run)
    for name, values in found._asdict().items():
        back = getattr(stored.features, name)
        assert (back is None) if values is None else torch.equal(back, values), name
    assert stored.names == data.names
    assert stored.classes == ("a", "b")
    assert stored.hashes == data.hashes()
    assert (stored.step, stored.split, stored.threshold) == (7, "test", 0.5 if gated else None)
    assert torch.equal(read_thumbnails(run), data.pixels)
    assert json.loads((tmp_path / "features" / "test.json").read_text())["unlabelled"] == 2
    assert not list((tmp_path / "features").glob(".*"))


def test_a_set_without_labels(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    found = features()._replace(labels=None)
    write_features(run, found, ImageSet.from_pixels(pixels(6, 3, 8, 8)), step=0, split="train")
    stored = read_features(run)
    assert stored.features.labels is None
    assert stored.classes is None
    assert stored.split == "train"


@pytest.mark.parametrize(
    ("stored", "expected"),
    [((32, 32), (32, 32)), ((96, 96), (96, 96)), ((97, 97), (96, 96)), ((200, 100), (96, 48)),
     ((10, 300), (3, 96)), ((1, 1000), (1, 96))],
)  # fmt: skip
def test_thumbnails_are_native_or_96_at_the_longer_side(
    stored: tuple[int, int], expected: tuple[int, int]
) -> None:
    small = thumbnails(ImageSet.from_pixels(pixels(2, 3, *stored)))
    assert small.shape == (2, 3, *expected)
    assert small.dtype == torch.uint8


def test_thumbnails_keep_colours_and_places() -> None:
    flat = torch.zeros(3, 3, 192, 192, dtype=torch.uint8)
    flat[0, 0], flat[1, 1, :96], flat[2] = 255, 200, 77
    small = thumbnails(ImageSet.from_pixels(flat))
    assert small[0].float().mean(dim=(1, 2)).tolist() == [255, 0, 0]
    assert small[1, 1, :47].eq(200).all()
    assert small[1, 1, 49:].eq(0).all()
    assert small[2].eq(77).all()


def test_an_unevaluated_run_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"test\.json is missing: run `pellucid evaluate .*` first"):
        read_features(run_in(tmp_path))
    with pytest.raises(RunError, match=r"thumbnails\.safetensors is missing"):
        read_thumbnails(run_in(tmp_path))


def test_a_broken_off_evaluation_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_in(tmp_path)
    write_features(run, features(), image_set(), step=7)

    def stop(images: ImageSet) -> torch.Tensor:
        raise KeyboardInterrupt

    monkeypatch.setattr("pellucid.evaluate.store.thumbnails", stop)
    with pytest.raises(KeyboardInterrupt):
        write_features(run, features(), image_set(), step=8)
    with pytest.raises(RunError, match="is missing"):  # not step 7's facts with step 8's tensors
        read_features(run)


def test_damaged_and_foreign_files_are_named(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    write_features(run, features(), image_set(), step=7)
    facts, tensors = tmp_path / "features" / "test.json", tmp_path / "features" / "test.safetensors"
    content = json.loads(facts.read_text())
    facts.write_text(json.dumps(content | {"format": 99}))
    with pytest.raises(RunError, match="format 99, this version reads 1"):
        read_features(run)
    facts.write_text(json.dumps(content | {"images": 5}))
    with pytest.raises(RunError, match="images is 5 and not 6, which does not fit"):
        read_features(run)
    facts.write_text("{")
    with pytest.raises(RunError, match=r"test\.json cannot be read"):
        read_features(run)
    facts.write_text(json.dumps(content))
    tensors.write_bytes(tensors.read_bytes()[:100])
    with pytest.raises(RunError, match=r"test\.safetensors cannot be read"):
        read_features(run)
