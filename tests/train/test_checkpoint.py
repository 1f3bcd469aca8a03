"""Checkpoints: whole or not at all, and nothing of another model."""

import json
import shutil

import pytest
import torch
from torch import nn

from pellucid.train import checkpoint
from pellucid.train.checkpoint import CheckpointError
from pellucid.train.optimisers import OPTIMISERS, parameter_groups, set_rates


def model(seed=0, width=4, optimiser="adamw"):
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.Flatten(), nn.Linear(width * 4, 2)
    )
    net.to(memory_format=torch.channels_last)
    built = OPTIMISERS[optimiser](parameter_groups(net, 0.05, 1e-3, {}))
    set_rates(built, 1.0)
    return net, built


def learn(net, optimiser, steps=2, seed=0):
    torch.manual_seed(seed)
    for _ in range(steps):
        net(torch.randn(5, 3, 4, 4)).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()


def save(run, step, net, optimiser, **beside):
    return checkpoint.save(run, step, net, optimiser, beside)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_a_saved_model_goes_on_as_if_never_stopped(tmp_path, name):
    net, optimiser = model(optimiser=name)
    learn(net, optimiser)
    save(tmp_path, 2, net, optimiser, **{"log/0/loss": torch.tensor(1.5)})
    learn(net, optimiser, seed=9)

    again, optimiser_again = model(seed=1, optimiser=name)
    step, tensors = checkpoint.newest(tmp_path)
    checkpoint.load_learner(again, tensors)
    checkpoint.load_optimiser(optimiser_again, tensors)
    assert step == 2
    assert tensors["log/0/loss"].item() == 1.5
    assert again[0].weight.stride() == net[0].weight.stride()  # channels last
    learn(again, optimiser_again, seed=9)
    for key, value in net.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key
    for one, other in zip(net.parameters(), again.parameters(), strict=True):
        state, state_again = optimiser.state[one], optimiser_again.state[other]
        assert state.keys() == state_again.keys()
        for key, value in state.items():
            assert torch.equal(state_again[key], value)
            assert state_again[key].stride() == value.stride()
            assert state_again[key].dtype == value.dtype


def test_a_run_without_checkpoints_has_none(tmp_path):
    assert checkpoint.newest(tmp_path) is None
    assert checkpoint.written(tmp_path) == []


def test_only_the_newest_two_are_kept(tmp_path):
    net, optimiser = model()
    for step in (3, 9, 10, 200):
        save(tmp_path, step, net, optimiser)
    assert [path.name for path in checkpoint.written(tmp_path)] == ["00000010", "00000200"]
    assert {path.name for path in (tmp_path / "checkpoint").iterdir()} == {"00000010", "00000200"}


def test_a_step_saved_twice_is_replaced(tmp_path):
    net, optimiser = model()
    save(tmp_path, 3, net, optimiser)
    learn(net, optimiser)
    save(tmp_path, 3, net, optimiser)
    _, tensors = checkpoint.newest(tmp_path)
    assert torch.equal(tensors["learner/0.weight"], net[0].weight)


@pytest.mark.parametrize("moment", ["save_file", "write_text", "_digest"])
def test_an_interrupted_write_leaves_the_old_one(tmp_path, monkeypatch, moment):
    net, optimiser = model()
    save(tmp_path, 1, net, optimiser)
    before = net[0].weight.detach().clone()
    learn(net, optimiser)

    def cut(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, moment, cut)
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, 2, net, optimiser)
    warnings = []
    step, tensors = checkpoint.newest(tmp_path, warnings.append)
    assert (step, warnings) == (1, [])
    assert torch.equal(tensors["learner/0.weight"], before)
    save(tmp_path, 2, net, optimiser)
    assert checkpoint.newest(tmp_path)[0] == 2


def flip_a_byte(folder):
    path = folder / "tensors.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def cut_in_half(folder):
    path = folder / "tensors.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGE = {
    "a changed byte": flip_a_byte,
    "half a file": cut_in_half,
    "no tensors": lambda folder: (folder / "tensors.safetensors").unlink(),
    "no state": lambda folder: (folder / "state.json").unlink(),
    "empty state": lambda folder: (folder / "state.json").write_text(""),
    "state of nothing": lambda folder: (folder / "state.json").write_text("{}"),
    "state of another kind": lambda folder: (folder / "state.json").write_text("[]"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_newest_falls_back_aloud(tmp_path, damage):
    net, optimiser = model()
    save(tmp_path, 1, net, optimiser)
    damage(save(tmp_path, 2, net, optimiser))
    warnings = []
    assert checkpoint.newest(tmp_path, warnings.append)[0] == 1
    assert len(warnings) == 1
    assert "00000002" in warnings[0]
    assert "trying the one before" in warnings[0]


def test_nothing_whole_is_an_error_and_not_a_fresh_start(tmp_path):
    net, optimiser = model()
    for step in (1, 2):
        flip_a_byte(save(tmp_path, step, net, optimiser))
    warnings = []
    with pytest.raises(CheckpointError, match=r"no checkpoint below .*checkpoint is whole"):
        checkpoint.newest(tmp_path, warnings.append)
    assert len(warnings) == 2


def saved_tensors(tmp_path, **settings):
    net, optimiser = model(**settings)
    save(tmp_path, 1, net, optimiser)
    return checkpoint.newest(tmp_path)[1]


def test_keys_of_another_model_are_refused_and_nothing_is_loaded(tmp_path):
    tensors = {n.replace("learner/", "learner/foo."): t for n, t in saved_tensors(tmp_path).items()}
    net, _ = model(seed=1)
    before = net[0].weight.detach().clone()
    with pytest.raises(
        CheckpointError, match=r"0 of 9 tensors match the checkpoint's 9; differing: 0\."
    ):
        checkpoint.load_learner(net, tensors)
    assert torch.equal(net[0].weight, before)


def test_other_shapes_are_refused_by_name(tmp_path):
    tensors = saved_tensors(tmp_path, width=6)
    with pytest.raises(
        CheckpointError, match=r"2 of 9 tensors match .*differing: 0\.bias, 0\.weight"
    ):
        checkpoint.load_learner(model()[0], tensors)


def test_a_missing_and_a_surplus_tensor_are_refused(tmp_path):
    tensors = saved_tensors(tmp_path)
    fewer = {name: t for name, t in tensors.items() if name != "learner/3.bias"}
    with pytest.raises(CheckpointError, match=r"8 of 9 .*differing: 3\.bias"):
        checkpoint.load_learner(model()[0], fewer)
    with pytest.raises(CheckpointError, match=r"9 of 9 .* 10; differing: more"):
        checkpoint.load_learner(model()[0], tensors | {"learner/more": torch.zeros(1)})


def test_files_are_safetensors_and_json(tmp_path):
    net, optimiser = model()
    folder = save(tmp_path, 7, net, optimiser)
    assert {path.name for path in folder.iterdir()} == {"tensors.safetensors", "state.json"}
    assert json.loads((folder / "state.json").read_text())["step"] == 7
    raw = (folder / "tensors.safetensors").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    assert header["learner/0.weight"]["shape"] == [4, 3, 3, 3]
    for path in folder.iterdir():
        data = path.read_bytes()
        assert not data.startswith((b"PK", b"\x80"))


def test_other_files_beside_checkpoints_are_left_alone(tmp_path):
    net, optimiser = model()
    folder = save(tmp_path, 1, net, optimiser)
    (folder.parent / "notes.txt").write_text("mine")
    shutil.copytree(folder, folder.parent / ".00000009.writing")
    for step in (2, 3):
        save(tmp_path, step, net, optimiser)
    assert (folder.parent / "notes.txt").read_text() == "mine"
    assert checkpoint.newest(tmp_path)[0] == 3
