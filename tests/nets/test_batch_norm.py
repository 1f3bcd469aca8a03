from collections.abc import Iterator

import pytest
import torch
from torch import nn

from pellucid.nets.batch_norm import recalibrate_batch_norm


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.5),
        nn.Linear(144, 5), nn.BatchNorm1d(5, momentum=0.3),
    )  # fmt: skip


def batches(count: int = 3, size: int = 16) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(size, 3, 8, 8, generator=generator) * 2 + 1 for _ in range(count)]


def test_statistics_are_the_average_of_those_of_each_batch() -> None:
    model, images = net(), batches()
    assert recalibrate_batch_norm(model, images) == 48
    outputs = [model[0](x) for x in images]
    mean = torch.stack([y.mean(dim=(0, 2, 3)) for y in outputs]).mean(dim=0)
    variance = torch.stack([y.var(dim=(0, 2, 3), unbiased=True) for y in outputs]).mean(dim=0)
    torch.testing.assert_close(model[1].running_mean, mean)
    torch.testing.assert_close(model[1].running_var, variance)
    # The second norm sees what the first gives in training mode, without dropout's noise.
    normed = [torch.relu(nn.functional.batch_norm(y, None, None, training=True)) for y in outputs]
    mean = torch.stack([model[5](y.flatten(1)).mean(dim=0) for y in normed]).mean(dim=0)
    torch.testing.assert_close(model[6].running_mean, mean)


def test_earlier_statistics_do_not_matter_and_parameters_stay() -> None:
    fresh, used = net(), net()
    for x in batches(5):
        used.train()(100 * x)
    used.load_state_dict(fresh.state_dict() | {"1.running_mean": used[1].running_mean})
    before = [p.clone() for p in used.parameters()]
    recalibrate_batch_norm(fresh, batches())
    recalibrate_batch_norm(used, batches())
    for name, tensor in fresh.state_dict().items():
        assert torch.equal(tensor, used.state_dict()[name]), name
    assert all(torch.equal(a, b) for a, b in zip(before, used.parameters(), strict=True))
    assert all(p.grad is None for p in used.parameters())


@pytest.mark.parametrize("training", [True, False])
def test_modes_and_momentum_come_back(training: bool) -> None:
    model = net().train(training)
    model[4].train(not training)
    recalibrate_batch_norm(model, batches())
    assert [m.training for m in model] == [training] * 4 + [not training] + [training] * 2
    assert (model[1].momentum, model[6].momentum) == (0.1, 0.3)


def test_modes_and_momentum_come_back_after_an_error() -> None:
    model = net().train()
    with pytest.raises(RuntimeError):
        recalibrate_batch_norm(model, [torch.zeros(4, 3, 5, 5)])  # too small for the linear layer
    assert model[6].momentum == 0.3
    assert all(m.training for m in model.modules())


def test_a_net_without_batch_norm_reads_nothing() -> None:
    def never() -> Iterator[torch.Tensor]:
        raise AssertionError("read")
        yield torch.zeros(2, 3, 8, 8)

    assert recalibrate_batch_norm(nn.Conv2d(3, 4, 3), never()) == 0


def test_no_batch_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one batch"):
        recalibrate_batch_norm(net(), [])
