"""Multi-layer perceptrons of projectors and gates."""

from itertools import pairwise

from torch import nn


def mlp(*widths: int) -> nn.Sequential:
    """Linear layers of these widths with ReLU between them, [B, widths[0]] -> [B, widths[-1]].

    No batch norm: the published projector and gate of NCL and BayesNCL have none.
    """
    if len(widths) < 2:
        raise ValueError(f"an MLP needs at least an input and an output width, got {widths}")
    layers: list[nn.Module] = []
    for width_in, width_out in pairwise(widths):
        layers += [nn.Linear(width_in, width_out), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers[:-1])
