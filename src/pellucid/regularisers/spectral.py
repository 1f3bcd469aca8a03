"""The regulariser that bounds how much the encoder stretches."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from pellucid.losses.spectral import largest_singular_value, power_iteration, unit
from pellucid.regularisers.regulariser import Regulariser
from pellucid.types import Step, Terms

WARM_UP = 20
"""Power iterations at construction; afterwards one a step."""


class Spectral(Regulariser):
    """Term `spectral`: the mean over layers of the squared largest singular value of the operator.

    A layer is a convolution, not a transposed one (its kernel as a matrix [out, in x k x k]), or a
    linear map. Its operator, with `folded`, is that of it and the batch norm behind it, as in
    evaluation: gamma / sqrt(running variance + eps) times each row. A row's variance is taken to
    grow with the square of its length, so the gradient does not shrink a filter, which batch norm
    would undo (but for eps / (variance + eps) of it).

    Without `folded` it is the kernel's alone, the published form. On layers before a batch norm
    that changes nothing but the scale of weights. Either bounds volume from above, not below.

    Source: the encoder regulariser of IE-CL (arXiv 2603.12594), with the power iteration of
    Miyato et al., 2018 (arXiv 1802.05957). The folded operator, squares and mean are ours.

    Args:
        encoder: whose layers; held, not owned: a learner trains and saves it.
        folded: with the batch norm behind each layer.

    Raises:
        ValueError: the encoder has no convolution and no linear map.
    """

    def __init__(self, encoder: nn.Module, folded: bool = True) -> None:
        super().__init__()
        self.held = (encoder,)  # in a tuple, or its parameters would be saved twice
        self.folded = folded
        self.layers = layers_of(encoder)  # names: a conversion to synchronised batch norm replaces
        if not self.layers:
            raise ValueError("spectral needs an encoder with convolutions or linear maps")
        for index, (matrix, gain) in enumerate(self.operators()):
            start = unit(torch.randn(len(matrix), device=matrix.device))
            left = power_iteration(matrix, start, WARM_UP, gain)
            self.register_buffer(f"left_{index}", left)

    def forward(self, step: Step) -> Terms:
        del step
        largest = [
            largest_singular_value(matrix, self.get_buffer(f"left_{index}"), gain)
            for index, (matrix, gain) in enumerate(self.operators())
        ]
        return {"spectral": torch.stack(largest).square().mean()}

    @torch.no_grad()
    def after_step(self, steps: Sequence[Step], progress: float) -> None:
        """One power iteration for every layer."""
        for index, (matrix, gain) in enumerate(self.operators()):
            left = self.get_buffer(f"left_{index}")
            left.copy_(power_iteration(matrix, left, gain=gain))

    def operators(self) -> Iterator[tuple[Float[Tensor, "m n"], Float[Tensor, " m"] | None]]:
        """The matrix of each layer, and the factors that its rows have where they have any."""
        encoder: Any = self.held[0]
        for layer, norm in self.layers:
            matrix = _matrix(encoder.get_submodule(layer).weight)
            folded = norm is not None and self.folded
            yield matrix, _gain(matrix, encoder.get_submodule(norm)) if folded else None


def _matrix(weight: Tensor) -> Float[Tensor, "m n"]:
    """A row a filter, without a copy: no singular value depends on the order of the columns."""
    if weight.ndim == 4 and weight.is_contiguous(memory_format=torch.channels_last):
        weight = weight.permute(0, 2, 3, 1)
    return weight.flatten(1)


def _gain(matrix: Float[Tensor, "m n"], norm: Any) -> Float[Tensor, " m"]:
    """What the batch norm behind them multiplies rows by in evaluation; blind to their length."""
    length = torch.linalg.vector_norm(matrix, dim=1)
    tiny = torch.finfo(length.dtype).tiny
    # 1, with the gradient of the squared length over itself.
    growth = ((length + tiny) / (length.detach() + tiny)).square()
    # A copy: backward reads it, and the encoder's next forward may come first and move it.
    variance = norm.running_var.clone() * growth + norm.eps
    return variance.rsqrt() if norm.weight is None else norm.weight * variance.rsqrt()


def layers_of(encoder: nn.Module) -> list[tuple[str, str | None]]:
    """Names of the layers, each with the batch norm that is registered next and fits, or None."""
    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear, _BatchNorm)
    named: list[tuple[str, Any]] = [
        (n, m) for n, m in encoder.named_modules() if isinstance(m, kinds)
    ]
    found: list[tuple[str, str | None]] = []
    for (name, module), (behind, norm) in zip(named, [*named[1:], ("", None)], strict=True):
        if isinstance(module, _BatchNorm):
            continue
        fits = isinstance(norm, _BatchNorm) and norm.num_features == len(module.weight)
        found.append((name, behind if fits and norm.track_running_stats else None))
    return found
