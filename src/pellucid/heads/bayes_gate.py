"""The head of BayesNCL: a gate that switches dimensions off, image by image."""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.distributed import rank, world_size
from pellucid.heads.head import Head
from pellucid.losses import bernoulli_kl
from pellucid.types import Embedding, HeadOutput, merge

Variant = Literal["ste", "gumbel", "soft"]
Isolation = Literal["all", "sparsity", "none"]


class BayesGate(Head):
    """The inner representation times a mask that a gate network reads off the encoder features.

    The gate is open with probability a = sigmoid(gate(h) / temperature), and the term `gate_kl`
    is KL(Bern(a) || Bern(prior)), in training and in evaluation. The mask, by `variant`:

    - `ste`: 1 where a > threshold, else 0; the gradient is that of a;
    - `gumbel`: in training a sample, 1 where sigmoid((gate(h) + logistic noise) / temperature) >
      threshold, with the gradient of that sigmoid; in evaluation as `ste`. The noise is drawn for
      the whole batch of all processes, each using its own rows, so that processes seeded alike
      draw what a single one would;
    - `soft`: a itself, in training and in evaluation.

    What `isolation` keeps from the encoder: `all` (the authors' code) every gradient of the gate,
    `sparsity` (the paper's text) that of the KL, `none` nothing.

    The KL at a = 1 minus the KL at a = 0 is log((1 - prior) / prior): only a prior below 0.5 makes
    an open gate the dearer one. With a prior above it, shutting is left to the contrastive loss.

    Source: BayesNCL (arXiv 2605.28441). The logistic noise is the binary concrete's (Maddison et
    al., 2017, arXiv 1611.00712), under which a gate opens with probability sigmoid(gate(h)).

    Raises:
        ValueError: a setting is impossible, or the gate's width differs from the representation's
            (at the first forward pass).
    """

    def __init__(
        self,
        inner: Head,
        gate: nn.Module,
        prior: float,
        variant: Variant = "ste",
        isolation: Isolation = "all",
        temperature: float = 1.0,
        threshold: float = 0.5,
    ) -> None:
        super().__init__()
        _check_between_0_and_1("prior", prior)
        _check_between_0_and_1("threshold", threshold)
        _check_choice("variant", variant, get_args(Variant))
        _check_choice("isolation", isolation, get_args(Isolation))
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0, got {temperature}")
        self.inner = inner
        self.gate = gate
        self.prior = prior
        self.variant = variant
        self.isolation = isolation
        self.temperature = temperature
        self.threshold = threshold

    def forward(self, u: Float[Tensor, "B K"], h: Float[Tensor, "B F"]) -> HeadOutput:
        inner: HeadOutput = self.inner(u, h)
        scores = self._scores(h.detach() if self.isolation == "all" else h)
        if scores.shape != inner.z.shape:
            raise ValueError(
                f"the gate must give one score for each entry of z {tuple(inner.z.shape)}, "
                f"got {tuple(scores.shape)}"
            )
        priced = self._scores(h.detach()) if self.isolation == "sparsity" else scores
        kl = bernoulli_kl(priced / self.temperature, self.prior)
        mask = self._mask(scores).to(inner.z.dtype)
        probabilities = torch.sigmoid(scores / self.temperature)
        return HeadOutput(inner.z * mask, merge(inner.terms, {"gate_kl": kl}), probabilities)

    def ungated(self, u: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Compute the inner head's representation, before any gate."""
        return self.inner.ungated(u)

    def after_step(self, embeddings: Sequence[Embedding], progress: float) -> None:
        """Let the inner head move what it has."""
        self.inner.after_step(embeddings, progress)

    def _scores(self, h: Tensor) -> Tensor:
        scores: Tensor = self.gate(h)
        return scores.to(torch.promote_types(scores.dtype, torch.float32))

    def _mask(self, scores: Tensor) -> Tensor:
        if self.variant == "gumbel" and self.training:
            scores = scores + _logistic_noise(scores)
        a = torch.sigmoid(scores / self.temperature)
        if self.variant == "soft":
            return a
        hard = (a > self.threshold).to(a.dtype)
        return (hard - a).detach() + a  # in this order exactly 0 or 1 in floating point

    def extra_repr(self) -> str:
        return (
            f"prior={self.prior}, variant={self.variant!r}, isolation={self.isolation!r}, "
            f"temperature={self.temperature}, threshold={self.threshold}"
        )


def _logistic_noise(like: Tensor) -> Tensor:
    """Draw this process' rows of the whole batch's noise; equal batches on all processes."""
    rows = len(like)
    uniform = torch.rand(world_size() * rows, like.shape[1], device=like.device)
    own = uniform[rank() * rows : (rank() + 1) * rows]
    return torch.logit(own, eps=1e-6)  # clamps away from 0 and 1, where the noise is infinite


def _check_between_0_and_1(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} must be strictly between 0 and 1, got {value}")


def _check_choice(name: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise ValueError(f"{name} must be one of {', '.join(valid)}, got {value!r}")
