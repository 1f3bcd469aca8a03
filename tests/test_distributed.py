"""Two processes with half the images each give what one process with all of them gives."""

import pytest
import torch
from torch import distributed as dist
from torch import multiprocessing, nn

from pellucid.distributed import (
    LostProcessError,
    collect,
    gather,
    gather_first,
    largest,
    rank,
    together,
    wait,
    world_size,
)
from pellucid.heads import HEADS
from pellucid.losses import info_nce, nt_xent
from pellucid.types import Embedding

IMAGES, PIXELS, FEATURES, DIMENSIONS, WORLD = 8, 12, 6, 10, 2

CASES = {
    "signed": ("signed", {}),
    "rep-relu": ("non-negative", {}),
    "relu": ("non-negative", {"activation": "relu", "layer_norm": True}),
    "top-k": ("top-k", {"k": 3}),
    "inverse-frequency": ("inverse-frequency", {}),
    **{
        f"{variant}, {isolation}": (
            "bayes-gate",
            {"hidden": 8, "variant": variant, "isolation": isolation},
        )
        for variant in ("ste", "gumbel", "soft")
        for isolation in ("all", "sparsity", "none")
    },
}


def embed(model, images):
    h = model["encoder"](images)
    u = model["projector"](h)
    z, terms, gate = model["head"](u, h)
    return Embedding(h=h, u=u, z=z, gate=gate, terms=terms)


def one_step(case, loss_name):
    """Loss, gradients and buffers after two forward passes on this process' share of the images."""
    name, settings = CASES[case]
    torch.manual_seed(0)
    model = nn.ModuleDict(
        {
            "encoder": nn.Linear(PIXELS, FEATURES),
            "projector": nn.Linear(FEATURES, DIMENSIONS),
            "head": HEADS[name](FEATURES, DIMENSIONS, **settings),
        }
    ).double()
    share = IMAGES // world_size()
    own = slice(rank() * share, (rank() + 1) * share)
    views = torch.randn(2, IMAGES, PIXELS, dtype=torch.float64)[:, own]
    torch.manual_seed(1)
    first = [embed(model, view) for view in views]
    model["head"].after_step(first, 0.0)
    query, key = (embed(model, view) for view in views)
    q, k = gather(query.z), gather(key.z)
    if loss_name == "nt_xent":
        loss = nt_xent(q, k, 0.2)
    else:
        loss = info_nce(q, k, torch.ones(3, DIMENSIONS, dtype=torch.float64), 0.2)
    for side in (query, key):
        loss = loss + 0.1 * sum(side.terms.values())
    loss.backward()
    found = {f"gradient of {name}": p.grad for name, p in model.named_parameters()}
    found["loss"] = loss.detach()
    if dist.is_initialized():
        for value in found.values():
            dist.all_reduce(value)  # as DistributedDataParallel averages gradients
            value /= WORLD
    return found | {f"buffer {name}": buffer for name, buffer in model.named_buffers()}


def every_step():
    return {
        f"{case}, {loss}": one_step(case, loss)
        for case in CASES
        for loss in ("nt_xent", "info_nce")
    }


def one_of_two(own_rank, folder):
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=own_rank, world_size=WORLD)
    shared = {
        "largest": largest(own_rank, 7 - own_rank),
        "collected": collect([own_rank, "x"] if own_rank else []),
        "gathered": gather_first(own_rank * 10),
    }
    wait()
    torch.save((every_step(), shared), f"{folder}/{own_rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def spawned(tmp_path_factory):
    """What each of two processes found."""
    folder = tmp_path_factory.mktemp("two")
    multiprocessing.spawn(one_of_two, args=(str(folder),), nprocs=WORLD)
    return [torch.load(folder / f"{own_rank}.pt") for own_rank in range(WORLD)]


@pytest.fixture(scope="module")
def both(spawned):
    """The steps of each of two processes."""
    return [steps for steps, _ in spawned]


@pytest.mark.parametrize("loss", ["nt_xent", "info_nce"])
@pytest.mark.parametrize("case", CASES)
def test_two_processes_equal_one(both, case, loss):
    alone = one_step(case, loss)
    assert alone["gradient of encoder.weight"].any()
    for found in both:
        assert found[f"{case}, {loss}"].keys() == alone.keys()
        for name, value in alone.items():
            gap = (found[f"{case}, {loss}"][name] - value).abs().max().item()
            assert gap < 1e-9, name


def test_without_a_process_group_a_gather_is_the_rows_themselves():
    rows = torch.ones(2, 3)
    assert gather(rows) is rows
    assert (rank(), world_size()) == (0, 1)


def test_what_processes_tell_each_other(spawned):
    (_, first), (_, second) = spawned
    assert first["largest"] == second["largest"] == (1, 7)
    assert first["collected"] == second["collected"] == [1, "x"]
    assert (first["gathered"], second["gathered"]) == ([0, 10], [])


def test_alone_there_is_nobody_to_ask():
    wait()
    assert (largest(3, -1), collect(["a"]), gather_first("a")) == ((3, -1), ["a"], ["a"])


def test_an_error_of_one_process_alone_stays_what_it_is():
    with pytest.raises(RuntimeError, match="/gloo/"), together():
        raise RuntimeError("[/third_party/gloo/transport] closed")


@pytest.mark.parametrize("error", [dist.DistBackendError("NCCL"), RuntimeError("a /gloo/ b")])
def test_the_end_of_another_process_is_told_in_words(monkeypatch, error):
    monkeypatch.setattr("pellucid.distributed.world_size", lambda: 2)
    monkeypatch.setattr("pellucid.distributed.time.sleep", lambda _: None)
    monkeypatch.setattr("pellucid.distributed.signal.signal", lambda *_: None)
    with pytest.raises(LostProcessError, match="another process ended"), together():
        raise error
    with pytest.raises(RuntimeError, match=r"^no such thing$"), together():
        raise RuntimeError("no such thing")
