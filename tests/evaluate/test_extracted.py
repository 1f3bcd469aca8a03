"""Features by several processes are those of one, each image once."""

from functools import partial

import pytest
import torch
from torch import distributed as dist
from torch import multiprocessing, nn

from pellucid.branch import Branch
from pellucid.data.image_set import ImageSet
from pellucid.evaluate import extracted
from pellucid.evaluate.extract import extract
from pellucid.heads import HEADS

COUNT, BATCH, WORLD = 21, 4, 2
CPU = {"device": torch.device("cpu"), "precision": "fp32"}
CHOICES = {
    "all": None,
    "some, in an order of their own": torch.tensor([20, 3, 5, 0, 7, 11, 2, 19, 1]),
    "fewer batches than processes": torch.tensor([9, 4]),
}


def branch():
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 6))
    return Branch(encoder, nn.Linear(6, 5), HEADS["bayes-gate"](6, 5, hidden=8))


def images(labelled):
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (COUNT, 3, 8, 8), dtype=torch.uint8, generator=generator)
    labels = torch.arange(COUNT) % 3 if labelled else None
    return ImageSet.from_pixels(pixels, labels, ("a", "b", "c") if labelled else None)


def preprocess(pixels):
    return pixels / 255.0


def shared(labelled, choice):
    """What this process gets, and the batches of images that it extracted."""
    seen = []

    def counted(*given, indices, **named):
        seen.extend(indices.tolist())
        return extract(*given, indices=indices, **named)

    extracted.extract = counted
    try:
        found = extracted.extract_shared(
            branch(), preprocess, images(labelled), CHOICES[choice], batch=BATCH, **CPU
        )
    finally:
        extracted.extract = extract
    return found and found._asdict(), seen


CASES = [(labelled, choice) for labelled in (True, False) for choice in CHOICES]


def one_of_two(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD
    )
    torch.save({case: shared(*case) for case in CASES}, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    multiprocessing.spawn(one_of_two, args=(str(folder),), nprocs=WORLD)
    return [torch.load(folder / f"{rank}.pt") for rank in range(WORLD)]


@pytest.mark.parametrize("case", CASES)
def test_two_processes_give_the_features_of_one_bit_by_bit(both, case):
    labelled, choice = case
    alone = extract(
        branch(), preprocess, images(labelled), indices=CHOICES[choice], batch=BATCH, **CPU
    )
    (first, seen_first), (second, seen_second) = (found[case] for found in both)
    assert second is None
    for name, value in alone._asdict().items():
        assert (value is None) == (first[name] is None), name
        assert value is None or torch.equal(first[name], value), name
    asked = list(range(COUNT)) if CHOICES[choice] is None else CHOICES[choice].tolist()
    assert sorted(seen_first + seen_second) == sorted(asked)
    assert bool(seen_second) == (len(asked) > BATCH)


def test_one_process_extracts_as_always():
    alone = extract(branch(), preprocess, images(True), batch=BATCH, **CPU)
    found, seen = shared(True, "all")
    assert seen == list(range(COUNT))
    assert torch.equal(found["z"], alone.z)


def test_no_image_is_an_error_on_every_process():
    run = partial(extracted.extract_shared, branch(), preprocess, images(True), batch=BATCH, **CPU)
    with pytest.raises(ValueError, match="no image to extract"):
        run(torch.tensor([], dtype=torch.int64))
