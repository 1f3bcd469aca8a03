"""The nouns of the flow: terms, what a head gives, an embedding, a step."""

from typing import NamedTuple

from torch import Tensor

Terms = dict[str, Tensor]
"""Named scalars to be minimised, without weights; `pellucid.learner.weigh` is the only sum."""


class HeadOutput(NamedTuple):
    """What a head makes of a projection."""

    z: Tensor
    """The representation, [B, K]."""
    terms: Terms
    """What the head asks to have minimised; empty for most heads."""
    gate: Tensor | None = None
    """The probability that each gate is open, [B, K]; None for a head without gates."""


class Embedding(NamedTuple):
    """An image batch at every stage of a branch."""

    h: Tensor
    """Encoder features, [B, F]: what a linear probe and kNN read."""
    u: Tensor
    """Projection, [B, K]."""
    z: Tensor
    """Representation, [B, K]: what interpretability and retrieval read."""
    gate: Tensor | None
    """The probability that each gate is open, [B, K], or None."""
    terms: Terms
    """What the head asks to have minimised. A momentum copy asks for nothing."""


class Step(NamedTuple):
    """One training step of a framework: what to minimise, and the embeddings that it came from."""

    terms: Terms
    query: Embedding
    key: Embedding
    anchor: Embedding
    """What the query is compared with, in every framework."""


def merge(*several: Terms) -> Terms:
    """Join terms from several places.

    Raises:
        ValueError: two places use the same name.
    """
    merged: Terms = {}
    for terms in several:
        twice = merged.keys() & terms.keys()
        if twice:
            raise ValueError(f"two parts both name a term {', '.join(sorted(twice))}")
        merged.update(terms)
    return merged
