"""The learner: query transform -> framework -> regularisers, and the one sum of their terms."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.frameworks.framework import Framework
from pellucid.query_transforms import QueryTransform, Unchanged
from pellucid.regularisers import Regulariser
from pellucid.types import Step, Terms, merge


class Learner(nn.Module):
    """All that trains, as one module: two views [B, 3, H, W] -> `Step` with every term.

    A symmetric framework is run on (T(query), key) and on (T(key), query), each through batch norm
    by itself. Its own terms are summed over the two, as BYOL publishes its loss; those of query
    transform, head and regularisers are averaged, so their weights mean the same in every
    framework. The step that is returned holds the embeddings of the first.

    Args:
        framework: compares the views.
        query_transform: changes the query view only.
        regularisers: what the step should also keep to.
    """

    def __init__(
        self,
        framework: Framework,
        query_transform: QueryTransform | None = None,
        regularisers: Sequence[Regulariser] = (),
    ) -> None:
        super().__init__()
        self.framework = framework
        self.query_transform = query_transform or Unchanged()
        self.regularisers: Iterable[Regulariser] = nn.ModuleList(regularisers)  # type: ignore[assignment]

    def forward(self, query: Float[Tensor, "b 3 h w"], key: Float[Tensor, "b 3 h w"]) -> Step:
        pairs = [(query, key), (key, query)] if self.framework.symmetric else [(query, key)]
        steps, own, beside = [], [], []
        for first, second in pairs:
            transformed, asked = self.query_transform(first)
            step: Step = self.framework(transformed, second)
            head = _combine([t for t in (step.query.terms, step.key.terms) if t], torch.mean)
            of_regularisers = [regulariser(step) for regulariser in self.regularisers]
            beside.append(merge(asked, head, *of_regularisers))
            own.append(step.terms)
            steps.append(step)
        terms = merge(_combine(own, torch.sum), _combine(beside, torch.mean))
        return steps[0]._replace(terms=terms)

    def after_step(self, steps: Sequence[Step], progress: float) -> None:
        """Move what gradients do not: call once after each optimiser step that was taken.

        Args:
            steps: all micro-steps of the optimiser step, more than one under accumulation.
            progress: the share of the training that is done, 0 to 1.
        """
        self.framework.online.head.after_step([step.query for step in steps], progress)
        self.framework.after_step(steps, progress)  # after the head, whose buffers it may copy
        for regulariser in self.regularisers:
            regulariser.after_step(steps, progress)


def _combine(several: Sequence[Terms], reduce: Callable[[Tensor], Tensor]) -> Terms:
    """Terms of one set of names as one; none of none."""
    names = several[0] if several else ()
    return {name: reduce(torch.stack([terms[name] for terms in several])) for name in names}


def weigh(terms: Terms, weights: Mapping[str, float]) -> Tensor:
    """The loss: the weighted sum of all terms, in fp32.

    Raises:
        ValueError: a term has no weight, or a weight has no term.
    """
    if unweighted := terms.keys() - weights.keys():
        names = ", ".join(sorted(unweighted))
        raise ValueError(f"no weight for the term {names}; set weights.{min(unweighted)}=NUMBER")
    if unused := weights.keys() - terms.keys():
        names = ", ".join(sorted(unused))
        raise ValueError(
            f"weights.{min(unused)} is set, and nothing computes {names}; "
            f"the terms here are {', '.join(sorted(terms))}"
        )
    return torch.stack([weights[name] * term.float() for name, term in terms.items()]).sum()
