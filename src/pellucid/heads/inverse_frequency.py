"""The head that counts a dimension for more, the fewer images use it."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch import distributed as dist

from pellucid.distributed import world_size
from pellucid.heads.head import Head
from pellucid.types import Embedding, HeadOutput

FLOOR = 1e-3
"""A running frequency below this counts as this, so that no entry grows by more than 31.6."""


class InverseFrequency(Head):
    """z_k / sqrt(pi_k), whose similarity before normalisation is sum_k z_k z'_k / pi_k.

    pi_k is the share of images in which dimension k is not 0. Given `frequencies` [K] are used as
    they are. Otherwise pi is estimated from the query embeddings of every process, after each
    step: 1 before the first step (no reweighting), then the plain average over the first
    1 / (1 - momentum) steps, then an exponential average, so the start at 1 leaves no trace. An
    activation that is never 0 (softplus, a signed head) has pi = 1 and is left as it is.

    Source: the ideal similarity that the gate of BayesNCL stands for (arXiv 2605.28441).

    Raises:
        ValueError: `dimensions` is below 1, `momentum` is outside [0, 1), or `frequencies` are not
            `dimensions` numbers above 0 and at most 1.
    """

    frequencies: Tensor
    updates: Tensor

    def __init__(
        self,
        inner: Head,
        dimensions: int,
        momentum: float = 0.99,
        frequencies: Float[Tensor, " K"] | None = None,
    ) -> None:
        super().__init__()
        if dimensions < 1:
            raise ValueError(f"dimensions must be at least 1, got {dimensions}")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum must be at least 0 and below 1, got {momentum}")
        if frequencies is not None:
            _check_frequencies(frequencies, dimensions)
        self.inner = inner
        self.momentum = momentum
        self.running = frequencies is None
        start = torch.ones(dimensions) if frequencies is None else frequencies.detach().float()
        self.register_buffer("frequencies", start.clone())
        self.register_buffer("updates", torch.zeros((), dtype=torch.long))

    def forward(self, u: Float[Tensor, "B K"], h: Float[Tensor, "B F"]) -> HeadOutput:
        inner: HeadOutput = self.inner(u, h)
        return inner._replace(z=self._reweight(inner.z))

    def ungated(self, u: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Reweight the inner head's entries before its gates."""
        return self._reweight(self.inner.ungated(u))

    @torch.no_grad()
    def after_step(self, embeddings: Sequence[Embedding], progress: float) -> None:
        """Move the running frequencies towards those of this step's images, of all processes."""
        self.inner.after_step(embeddings, progress)
        if not self.running or not embeddings:
            return
        used = torch.stack([(embedding.z != 0).sum(dim=0) for embedding in embeddings]).sum(dim=0)
        images = sum(len(embedding.z) for embedding in embeddings)
        counts = torch.cat([used, used.new_full((1,), images)])  # [K + 1]; no copy from the CPU
        if world_size() > 1:
            dist.all_reduce(counts)
        now = counts[:-1].to(self.frequencies.dtype) / counts[-1]
        self.updates += 1
        step = (1 / self.updates).clamp(min=1 - self.momentum).to(now.dtype)
        self.frequencies.lerp_(now, step)

    def _reweight(self, z: Tensor) -> Tensor:
        pi = self.frequencies.clamp(min=FLOOR) if self.running else self.frequencies
        return z * pi.rsqrt().to(z.dtype)

    def extra_repr(self) -> str:
        return f"momentum={self.momentum}" if self.running else "given frequencies"


def _check_frequencies(frequencies: Tensor, dimensions: int) -> None:
    if frequencies.shape != (dimensions,):
        raise ValueError(
            f"frequencies must be one number for each of the {dimensions} dimensions, "
            f"got shape {tuple(frequencies.shape)}"
        )
    if not bool(((frequencies > 0) & (frequencies <= 1)).all()):
        raise ValueError(
            "frequencies must be above 0 and at most 1, got values from "
            f"{frequencies.min().item()} to {frequencies.max().item()}"
        )
