"""A head of your own: what it keeps, what it asks for, and how a recipe could name it.

python examples/your_own_head.py
"""

import torch
from torch import Tensor, nn

from pellucid import Branch, Learner, weigh
from pellucid.frameworks import SimCLR
from pellucid.heads import HEADS, Head
from pellucid.types import HeadOutput


class Shrunk(Head):
    """Entries of u below a learnt threshold become 0, and the sum of what is left has a price."""

    def __init__(self, dimensions: int, start: float) -> None:
        super().__init__()
        self.threshold = nn.Parameter(torch.full((dimensions,), start))

    def forward(self, u: Tensor, h: Tensor) -> HeadOutput:
        z = torch.relu(u - self.threshold)
        unit = z / z.norm(dim=1, keepdim=True).clamp_min(1e-6)
        return HeadOutput(z, {"price": unit.sum(dim=1).mean()})


def shrunk(features: int, dimensions: int, *, start: float = 0.1) -> Head:
    """Build it from numbers; a recipe's `head.start=0.2` is the keyword."""
    return Shrunk(dimensions, start)


def main(steps: int = 60) -> tuple[float, float]:
    """Train it on points that share one of four directions; the share of entries that is not 0."""
    HEADS["shrunk"] = shrunk  # in the package itself: one line of heads/table.py
    torch.manual_seed(0)
    branch = Branch(nn.Flatten(), nn.Linear(12, 16), HEADS["shrunk"](12, 16, start=0.1))
    learner = Learner(SimCLR(branch))
    optimiser = torch.optim.SGD(learner.parameters(), lr=0.1, momentum=0.9)
    directions = torch.randn(4, 3, 2, 2)
    density = []
    for number in range(steps):
        images = directions[torch.randint(4, (32,))]
        query, key = (images + 0.1 * torch.randn_like(images) for _ in range(2))
        step = learner(query, key)
        weigh(step.terms, {"contrast": 1.0, "price": 0.1}).backward()
        optimiser.step()
        optimiser.zero_grad()
        learner.after_step([step], (number + 1) / steps)
        density.append((step.query.z > 0).float().mean().item())
    print(f"entries that are not 0: {density[0]:.0%} at first, {density[-1]:.0%} at the end")
    return density[0], density[-1]


if __name__ == "__main__":
    main()
