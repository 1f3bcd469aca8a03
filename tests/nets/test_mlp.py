"""Multi-layer perceptrons."""

import pytest
import torch

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
