"""Multi-layer perceptrons."""

import pytest
import torch
from torch import nn

from pellucid.nets.mlp import mlp


def test_it_is_linear_relu_linear():
    torch.manual_seed(0)
    net, x = mlp(5, 7, 3, 2), torch.randn(4, 5)
    parameters = list(net.parameters())
    expected = x.clone()
    for layer, (weight, bias) in enumerate(zip(parameters[::2], parameters[1::2], strict=True)):
        if layer:
            expected = expected.clamp(min=0)
        expected = expected @ weight.T + bias
    assert net(x).shape == (4, 2)
    torch.testing.assert_close(net(x), expected)


def test_two_widths_are_one_linear_layer():
    net = mlp(5, 3)
    assert [type(layer).__name__ for layer in net] == ["Linear"]


def test_there_is_no_batch_norm_so_rows_do_not_depend_on_each_other():
    net, x = mlp(5, 7, 3), torch.randn(4, 5)
    torch.testing.assert_close(net.train()(x)[:1], net(x[:1]))


@pytest.mark.parametrize("widths", [(), (4,)])
def test_fewer_than_two_widths_are_refused(widths):
    with pytest.raises(ValueError, match="input and an output width"):
        mlp(*widths)


def test_batch_norm_stands_before_every_relu_and_not_after_the_last_layer():
    torch.manual_seed(0)
    net, x = mlp(5, 7, 3, 2, batch_norm=True), torch.randn(6, 5)
    expected = x
    for place, layer in enumerate([m for m in net if isinstance(m, nn.Linear)]):
        if place:
            mean, variance = expected.mean(dim=0), expected.var(dim=0, unbiased=False)
            expected = ((expected - mean) / (variance + 1e-5).sqrt()).clamp(min=0)
        expected = expected @ layer.weight.T + layer.bias
    torch.testing.assert_close(net(x), expected)
    assert sum(isinstance(layer, nn.BatchNorm1d) for layer in net) == 2


def test_one_layer_has_no_batch_norm():
    assert [type(layer).__name__ for layer in mlp(5, 3, batch_norm=True)] == ["Linear"]
