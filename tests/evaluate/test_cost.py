import json
from pathlib import Path

import pytest
import torch
from torch import nn

from pellucid.branch import Branch
from pellucid.evaluate.cost import branch_cost, training_time
from pellucid.heads import BayesGate, NonNegative, Signed
from pellucid.nets.encoders import make_encoder
from pellucid.nets.mlp import mlp


def small_branch(gated: bool) -> Branch:
    encoder = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip
    head = BayesGate(NonNegative(), mlp(4, 5, 7), prior=0.5) if gated else Signed()
    return Branch(encoder, mlp(4, 6, 7), head)


def test_parts_by_hand() -> None:
    cost = branch_cost(small_branch(gated=True), 8)
    encoder, projector, gate = 3 * 4 * 9 + 8, 4 * 6 + 6 + 6 * 7 + 7, 4 * 5 + 5 + 5 * 7 + 7
    assert cost["parameters"] == {
        "encoder": encoder, "projector": projector, "head": gate,
        "total": encoder + projector + gate,
    }  # fmt: skip
    conv, linear, gating = 8 * 8 * 4 * 27, 4 * 6 + 6 * 7, 4 * 5 + 5 * 7
    assert cost["flops"] == {
        "encoder": 2 * conv, "projector": 2 * linear, "head": 2 * gating,
        "total": 2 * (conv + linear + gating),
    }  # fmt: skip
    assert "two for each multiply-add" in cost["convention"]


def test_a_head_without_gate_costs_nothing() -> None:
    cost = branch_cost(small_branch(gated=False), 8)
    assert cost["parameters"]["head"] == cost["flops"]["head"] == 0


def test_the_branch_is_left_as_it_was() -> None:
    branch = small_branch(gated=True).train()
    branch.head.eval()
    before = {name: tensor.clone() for name, tensor in branch.state_dict().items()}
    modes = [m.training for m in branch.modules()]
    branch_cost(branch, 8)
    assert [m.training for m in branch.modules()] == modes
    assert all(torch.equal(before[name], t) for name, t in branch.state_dict().items())


def test_the_known_cost_of_a_resnet_18() -> None:
    encoder = make_encoder("resnet18", 32)
    cost = branch_cost(Branch(encoder, mlp(512, 8), Signed()), 32)
    # The usual 0.56 G multiply-adds of the small-image ResNet-18, and its 11.17 M parameters.
    assert cost["flops"]["encoder"] / 2 == pytest.approx(0.5554e9, rel=0.01)
    assert cost["parameters"]["encoder"] == pytest.approx(11.17e6, rel=0.001)


def write(folder: Path, *lines: tuple[int, float, float]) -> None:
    keys = ("step", "seconds", "images_per_second")
    text = "".join(json.dumps(dict(zip(keys, line, strict=True))) + "\n" for line in lines)
    (folder / "timing.jsonl").write_text(text)


def test_seconds_a_step_and_in_all(tmp_path: Path) -> None:
    # The first window is slow (20 steps in 10 s), the last one shorter than the others.
    write(tmp_path, (20, 10.0, 512.0), (40, 4.0, 1280.0), (60, 4.2, 1219.0), (65, 1.0, 1280.0))
    assert training_time(tmp_path) == {
        "seconds_a_step": pytest.approx((0.2 + 0.21) / 2),
        "seconds": pytest.approx(19.2),
        "images_per_second": pytest.approx((1219 + 1280) / 2),
        "steps": 65,
        "reason": None,
    }


def test_without_a_log_there_is_a_reason(tmp_path: Path) -> None:
    found = training_time(tmp_path)
    assert found["seconds"] is None
    assert found["seconds_a_step"] is None
    assert "timing.jsonl is missing" in found["reason"]


def test_a_half_written_line_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, (20, 4.0, 1280.0))
    with (tmp_path / "timing.jsonl").open("a") as file:
        file.write('{"step": 40, "sec')
    assert training_time(tmp_path)["steps"] == 20
