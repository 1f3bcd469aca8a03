"""The heads by name: builders that take numbers, as a recipe gives them."""

from collections.abc import Callable

from pellucid.heads.bayes_gate import BayesGate, Isolation, Variant
from pellucid.heads.head import Head
from pellucid.heads.inverse_frequency import InverseFrequency
from pellucid.heads.non_negative import Activation, NonNegative
from pellucid.heads.signed import Signed
from pellucid.heads.top_k import TopK
from pellucid.nets.mlp import mlp

PUBLISHED_GATE_WIDTH = 2048
"""Hidden width of the gate, as of the projector, in the authors' CIFAR settings."""


def signed(features: int, dimensions: int) -> Head:
    """Build the head of plain contrastive learning; it has no settings."""
    return Signed()


def non_negative(
    features: int,
    dimensions: int,
    *,
    activation: Activation = "rep-relu",
    layer_norm: bool = False,
) -> Head:
    """Build the head of NCL.

    Args:
        features: F, the width of h.
        dimensions: K, the width of u and z.
        activation: what makes u non-negative: rep-relu, relu or softplus.
        layer_norm: normalise u over K before the activation.
    """
    return NonNegative(activation, layer_norm)


def top_k(
    features: int,
    dimensions: int,
    *,
    k: int = 32,
    activation: Activation = "rep-relu",
    layer_norm: bool = False,
) -> Head:
    """Build the head of NCL + TopK.

    Args:
        features: F, the width of h.
        dimensions: K, the width of u and z.
        k: how many dimensions each image keeps. No value is published; the default is ours.
        activation: what makes u non-negative: rep-relu, relu or softplus.
        layer_norm: normalise u over K before the activation.

    Raises:
        ValueError: k is below 1 or above `dimensions`.
    """
    if k > dimensions:
        raise ValueError(f"k must be at most the {dimensions} dimensions of z, got {k}")
    return TopK(k, NonNegative(activation, layer_norm))


def inverse_frequency(
    features: int,
    dimensions: int,
    *,
    activation: Activation = "rep-relu",
    layer_norm: bool = False,
    momentum: float = 0.99,
) -> Head:
    """Build the head that divides by the square root of how often a dimension is used.

    Args:
        features: F, the width of h.
        dimensions: K, the width of u and z.
        activation: what makes u non-negative: rep-relu, relu or softplus.
        layer_norm: normalise u over K before the activation.
        momentum: how much of the running frequencies a step keeps.
    """
    return InverseFrequency(NonNegative(activation, layer_norm), dimensions, momentum)


def bayes_gate(
    features: int,
    dimensions: int,
    *,
    activation: Activation = "rep-relu",
    layer_norm: bool = False,
    prior: float = 0.8,
    variant: Variant = "ste",
    isolation: Isolation = "all",
    layers: int = 2,
    hidden: int = 0,
    temperature: float = 1.0,
    threshold: float = 0.5,
) -> Head:
    """Build the head of BayesNCL.

    Args:
        features: F, the width of h.
        dimensions: K, the width of u and z.
        activation: what makes u non-negative: rep-relu, relu or softplus.
        layer_norm: normalise u over K before the activation.
        prior: rho, the probability of an open gate that the KL pulls towards.
        variant: the mask in training: ste, gumbel or soft.
        isolation: which gradients of the gate are kept from the encoder: all, sparsity or none.
        layers: linear layers of the gate, 1, 2 or 3; a third has half the hidden width.
        hidden: hidden width of the gate; 0 is the published 2048. One layer has none.
        temperature: divides the gate's scores before the sigmoid.
        threshold: the probability above which a gate is open.

    Raises:
        ValueError: a setting is impossible.
    """
    if hidden < 0:
        raise ValueError(f"hidden must be a width, or 0 for {PUBLISHED_GATE_WIDTH}, got {hidden}")
    width = hidden or PUBLISHED_GATE_WIDTH
    between = {1: (), 2: (width,), 3: (width, max(1, width // 2))}
    if layers not in between:
        raise ValueError(f"layers must be 1, 2 or 3, got {layers}")
    gate = mlp(features, *between[layers], dimensions)
    inner = NonNegative(activation, layer_norm)
    return BayesGate(inner, gate, prior, variant, isolation, temperature, threshold)


HEADS: dict[str, Callable[..., Head]] = {
    "signed": signed,
    "non-negative": non_negative,
    "top-k": top_k,
    "inverse-frequency": inverse_frequency,
    "bayes-gate": bayes_gate,
}
"""Builders (features, dimensions, *, settings) -> Head; a recipe's keys are their keywords."""
