"""Multi-layer perceptrons of projectors, predictors and gates."""

from itertools import pairwise

from torch import nn


def mlp(*widths: int, batch_norm: bool = False) -> nn.Sequential:
    """Linear layers of these widths with ReLU between them, [B, widths[0]] -> [B, widths[-1]].

    Args:
        widths: of the input, of every hidden layer and of the output.
        batch_norm: before every ReLU, as in BYOL's projector and predictor. The published
            projector and gate of NCL and BayesNCL have none.
    """
    if len(widths) < 2:
        raise ValueError(f"an MLP needs at least an input and an output width, got {widths}")
    layers: list[nn.Module] = []
    for width_in, width_out in pairwise(widths):
        if layers:
            norm = [nn.BatchNorm1d(width_in)] if batch_norm else []
            layers += [*norm, nn.ReLU(inplace=True)]
        layers.append(nn.Linear(width_in, width_out))
    return nn.Sequential(*layers)
