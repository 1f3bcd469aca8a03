import io
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from pellucid.answer import subject as subject_module
from pellucid.answer.subject import embed, find, stored_pixels
from pellucid.answer.why import why
from pellucid.build import build_learner, build_optimiser
from pellucid.cli import main
from pellucid.data.image_set import ImageSet, open_images
from pellucid.evaluate.extract import extract
from pellucid.evaluate.store import write_features
from pellucid.recipe import compose
from pellucid.representation.representation import Representation, open_representation
from pellucid.run import RunError, start_run
from pellucid.train import checkpoint


def given(z, folder, **more):
    names = more.pop("names", [f"{i}.png" for i in range(len(z))])
    return Representation("features.npy", folder / "features.npy", z, names, **more)


def flat_colours(n):
    """One colour an image, so that a test can tell which is shown."""
    colour = torch.arange(n)[:, None] * torch.tensor([7, 11, 13]) % 256
    return colour.to(torch.uint8)[:, :, None, None].expand(n, 3, 4, 4)


def sparse(n=60, k=12, seed=0):
    z = (torch.randn(n, k, generator=torch.Generator().manual_seed(seed)) - 0.3).relu()
    z[7] = 0
    return z


def said(representation, *pair, width=110, **options):
    console = Console(width=width, record=True, file=io.StringIO())
    answer = why(representation, *pair, console, say=lambda _: None, **options)
    return answer, console.export_text()


SIZES = {"native": None, "scaled": 100}  # beyond what thumbnails keep


@pytest.fixture(scope="module", params=list(SIZES))
def evaluated(request, tmp_path_factory):
    """A gated run on a folder of images, with what evaluation leaves of it; nothing is trained."""
    folder = tmp_path_factory.mktemp(request.param)
    images = folder / "images"
    generator = np.random.default_rng(0)
    for split, count in (("train", 12), ("test", 6)):
        for i in range(count):
            path = images / split / "ab"[i % 2] / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            size = (16, 16, 3) if request.param == "native" else (14 + i, 30, 3)
            Image.fromarray(generator.integers(0, 256, size, np.uint8)).save(path)
    size = SIZES[request.param]
    settings = [
        *("views.size=8", "projector.hidden=16", "projector.dimensions=8", "train.epochs=1"),
        *("train.batch=4", "train.precision=fp32", "head.hidden=16"),
        *([] if size is None else [f"data.stored_size={size}"]),
    ]
    recipe = compose("bayesncl", str(images), "small", settings)
    run = start_run(folder / "run", recipe)
    learner = build_learner(recipe)
    checkpoint.save(run.folder, 3, learner, build_optimiser(recipe, learner), {})
    test = open_images(str(images), "test", stored_size=size, cache_dir=folder / "cache")
    branch, step = run.trained_branch()
    where = torch.device("cpu")
    features = extract(branch, run.preprocess, test, device=where, precision="fp32")
    write_features(run, features, test, step=step, threshold=0.5)
    return open_representation(run.folder), images


def test_a_file_of_an_evaluated_image_has_its_row(evaluated):
    representation, images = evaluated
    for index, name in enumerate(representation.names):
        path = next(images.rglob(f"test/**/{Path(name).name}"))
        found = find(representation, str(path), "cpu")
        assert found.index == index
        assert found.given == path.name
        assert torch.equal(found.z, representation.z[index])
        # And by the way of a file that is not recognised.
        pixels = stored_pixels(representation, path.read_bytes(), str(path))
        again = embed(representation, pixels, str(path), "cpu")
        assert again.index is None
        torch.testing.assert_close(again.z, representation.z[index], rtol=1e-4, atol=1e-6)


def test_a_file_from_elsewhere_is_embedded(evaluated, tmp_path):
    representation, _ = evaluated
    pixels = np.random.default_rng(5).integers(0, 256, (40, 64, 3), np.uint8)
    path = tmp_path / "new.png"
    Image.fromarray(pixels).save(path)
    found = find(representation, str(path), "cpu")
    assert found.index is None
    side = 16 if representation.run.recipe.data.stored_size is None else 100
    assert found.pixels.shape == (3, side, side)
    square = Image.fromarray(pixels).resize(
        (side, side), Image.Resampling.BICUBIC, box=(12, 0, 52, 40)
    )
    expected = torch.from_numpy(np.asarray(square).copy()).permute(2, 0, 1)
    assert torch.equal(found.pixels, expected)
    branch = representation.run.trained_branch()[0]
    with torch.no_grad():
        z = branch(representation.run.preprocess(expected[None])).z[0]
    torch.testing.assert_close(found.z, z)
    answer, text = said(representation, str(path), "1", device="cpu", out=tmp_path / "why.png")
    assert f"of {int(representation.z.any(dim=1).sum())}" in text
    assert answer.standing.of == int(representation.z.any(dim=1).sum())


def test_a_run_that_was_trained_on_is_not_compared_with_its_old_features(evaluated, tmp_path):
    representation, _ = evaluated
    stale = Representation(**{**vars(representation), "scores": {"step": 2}})
    image = torch.zeros(3, 8, 8, dtype=torch.uint8)
    with pytest.raises(RunError, match=r"evaluated at step 2 and now stands at step 3.*evaluate"):
        embed(stale, image, "new.png", "cpu")


def test_a_name_comes_before_a_file(evaluated, tmp_path, monkeypatch):
    representation, _ = evaluated
    monkeypatch.chdir(tmp_path)
    Path("1").write_bytes(b"no image")
    assert find(representation, "1").index == 1
    with pytest.raises(RunError, match=r"\./1: no image of a format"):
        find(representation, "./1")


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("60", "number from 0 to 59, a name such as '0.png', or the path of a file"),
        ("-1", "has no image '-1'"),
        ("missing.jpg", "has no image 'missing.jpg'"),
    ],
)
def test_what_is_no_image_is_named(tmp_path, image, words):
    with pytest.raises(RunError, match=re.escape(words)):
        find(given(sparse(), tmp_path), image)


def test_features_without_a_model_take_no_file(tmp_path):
    path = tmp_path / "new.png"
    Image.new("RGB", (8, 8)).save(path)
    with pytest.raises(RunError, match="without the model that made them"):
        find(given(sparse(), tmp_path), str(path))


def test_a_bare_file_knows_its_own_images_again(tmp_path):
    pixels = flat_colours(60)
    path = tmp_path / "given.png"
    Image.fromarray(pixels[11].permute(1, 2, 0).numpy()).save(path)
    hashes = ImageSet.from_pixels(pixels).hashes()
    found = find(given(sparse(), tmp_path, hashes=hashes), str(path))
    assert (found.index, found.given) == (11, path.name)  # not where it lies


def test_closed_gates_of_a_file_are_told_from_an_empty_projection(evaluated, monkeypatch):
    representation, _ = evaluated
    image = torch.zeros(3, 8, 8, dtype=torch.uint8)
    real = subject_module.extract
    for ungated, closed in ((1.0, True), (0.0, False)):

        def shut(*arguments, ungated=ungated, **options):
            found = real(*arguments, **options)
            return found._replace(
                z=torch.zeros_like(found.z), ungated=torch.full_like(found.z, ungated)
            )

        monkeypatch.setattr(subject_module, "extract", shut)
        assert embed(representation, image, "new.png", "cpu").closed is closed


def test_on_the_command_line(evaluated, tmp_path, capsys):
    representation, images = evaluated
    file = next(images.rglob("test/**/3.png"))
    out = tmp_path / "why.html"
    arguments = [str(representation.run.folder), "0", str(file), "--device", "cpu", "--top", "3"]
    assert main(["why", *arguments, "--rarity", "--out", str(out)]) == 0
    heard = capsys.readouterr()
    assert "A  " in heard.out
    assert str(out) in heard.err.replace("\n", "")
    assert out.is_file()
    assert main(["why", str(representation.run.folder), "0", "nothing.png"]) == 1
    assert "has no image 'nothing.png'" in capsys.readouterr().err
