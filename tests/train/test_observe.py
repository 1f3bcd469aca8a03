"""What is watched while training."""

import pytest
import torch

from pellucid.train.observe import observe
from pellucid.types import Embedding


def embedding(z, gate=None):
    return Embedding(h=z, u=z, z=z, gate=gate, terms={})


def values(z, gate=None):
    return {name: value.item() for name, value in observe(embedding(z, gate)).items()}


def test_values_counted_by_hand():
    z = torch.tensor([[3.0, 4.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1e-7]])
    gate = torch.tensor([[0.9, 0.6, 0.4, 0.5], [0.2, 0.1, 0.4, 0.1], [0.8, 0.1, 0.3, 0.1]])
    seen = values(z, gate)
    assert seen["density"] == pytest.approx(3 / 12)  # 1e-7 of a unit row is nothing
    assert seen["gate_open"] == pytest.approx(3 / 12)  # 0.5 itself is shut
    assert seen["gate_always"] == 0
    assert seen["gate_never"] == pytest.approx(2 / 4)
    assert seen["images_closed"] == pytest.approx(1 / 3)


def test_the_spread_is_that_of_unit_rows():
    torch.manual_seed(0)
    z = torch.randn(64, 16)
    rows = [row / sum(v * v for v in row.tolist()) ** 0.5 for row in z]
    columns = torch.stack(rows).T
    spread = [((c - c.mean()) ** 2).sum().item() / 63 for c in columns]
    expected = sum(v**0.5 for v in spread) / 16 * 16**0.5
    assert values(z)["z_std"] == pytest.approx(expected, rel=1e-5)
    assert 0.8 < expected < 1.1  # about 1 for directions without preference


def test_collapse_is_a_spread_of_nothing():
    assert values(torch.randn(1, 8).expand(6, 8).contiguous())["z_std"] == pytest.approx(
        0, abs=1e-6
    )


def test_gates_are_silent_where_there_are_none():
    assert values(torch.ones(3, 2)).keys() == {"density", "z_std"}


def test_nothing_of_it_is_trained():
    z = torch.randn(4, 3, requires_grad=True)
    assert not any(value.requires_grad for value in observe(embedding(z, z.sigmoid())).values())


def test_bf16_is_counted_in_fp32():
    z = torch.rand(300, 4).add(0.1).bfloat16()
    assert values(z)["density"] == 1
