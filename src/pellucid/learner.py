"""The learner: query transform -> framework -> regularisers, and the one sum of their terms."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.frameworks.framework import Framework
from pellucid.query_transforms import QueryTransform, Unchanged
from pellucid.regularisers import Regulariser
from pellucid.types import Step, Terms, merge


class Learner(nn.Module):
    """All that trains, as one module: two views [B, 3, H, W] -> `Step` with every term.

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
        transformed, terms = self.query_transform(query)
        step: Step = self.framework(transformed, key)
        terms = merge(terms, step.terms, _mean_terms([step.query.terms, step.key.terms]))
        for regulariser in self.regularisers:
            terms = merge(terms, regulariser(step))
        return step._replace(terms=terms)

    def after_step(self, steps: Sequence[Step], progress: float) -> None:
        """Move what gradients do not: call once after each optimiser step that was taken.

        Args:
            steps: all micro-steps of the optimiser step, more than one under accumulation.
            progress: the share of the training that is done, 0 to 1.
        """
        self.framework.after_step(steps, progress)
        self.framework.online.head.after_step([step.query for step in steps], progress)
        for regulariser in self.regularisers:
            regulariser.after_step(steps, progress)


def _mean_terms(sides: Sequence[Terms]) -> Terms:
    """Head terms averaged over the sides that are trained; a momentum copy names no term."""
    asking = [terms for terms in sides if terms]
    return {
        name: torch.stack([terms[name] for terms in asking]).mean()
        for name in (asking[0] if asking else ())
    }


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
