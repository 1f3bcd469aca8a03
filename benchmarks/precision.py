"""How far bf16 and TF32 move losses: the same inputs in one precision and in another.

    python benchmarks/precision.py --encoder resnet18 --batch 256

Losses get bf16 inputs, as autocast hands them over, and are compared with float64 of those very
numbers: what is left is the arithmetic of the loss. Every method's step is then taken in bf16 and
in fp32, of equal weights, views and draws: each term's relative difference, and the cosine of both
gradients. TF32 is what `torch.set_float32_matmul_precision("high")` allows a GPU in products, and
losses are tried with it; training leaves the default alone, which allows it in convolutions only.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from timing import parser, report
from torch import Tensor

from pellucid import losses
from pellucid.build import build_learner
from pellucid.learner import Learner, weigh
from pellucid.randomness import seed_noise
from pellucid.recipe import compose, names
from pellucid.train.device import autocast, pick_device
from pellucid.train.loop import layout

GOAL = 1e-3
"""The largest relative difference of a loss that its own arithmetic may make."""


def of_losses(batch: int, width: int, device: torch.device) -> dict[str, Callable[..., Tensor]]:
    """Every loss as a function of a precision."""
    query = torch.randn(batch, width, device=device)
    # Views as little alike as their negatives nearly: at a low temperature others have no loss.
    key = (0.1 * query + torch.randn_like(query)).bfloat16()
    query = query.bfloat16()
    queue = torch.randn(8 * batch, width, device=device).bfloat16()
    left = torch.randn(batch, device=device)
    return {
        "nt_xent": lambda to: losses.nt_xent(to(query), to(key), 0.2),
        "nt_xent, temperature 0.01": lambda to: losses.nt_xent(to(query), to(key), 0.01),
        "nt_xent, non-negative": lambda to: losses.nt_xent(to(query).relu(), to(key).relu(), 0.2),
        "info_nce": lambda to: losses.info_nce(to(query), to(key), to(queue), 0.2),
        "cosine_regression": lambda to: losses.cosine_regression(to(query), to(key)),
        "bernoulli_kl": lambda to: losses.bernoulli_kl(to(query), 0.8),
        "gaussian_entropy": lambda to: losses.gaussian_entropy(to(query)),
        "gaussian_kl": lambda to: losses.gaussian_kl(to(query), to(key)),
        "nearest_neighbour_entropy": lambda to: losses.nearest_neighbour_entropy(to(query)),
        "largest_singular_value": lambda to: losses.largest_singular_value(to(query), left),
    }


def apart(value: Tensor | float, right: Tensor | float) -> float:
    """The relative difference; of a right value of 0, the difference."""
    value, right = float(value), float(right)
    return abs(value - right) / (abs(right) or 1.0)


def loss_errors(batch: int, width: int, device: torch.device) -> dict[str, Any]:
    """Each loss under autocast and under TF32 against float64."""
    found = {}
    for name, loss in of_losses(batch, width, device).items():
        right = loss(Tensor.double)
        with autocast(device, "bf16"):
            bf16 = loss(lambda x: x)
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        tf32 = loss(Tensor.float)
        torch.set_float32_matmul_precision(before)
        found[name] = {
            "value": float(right),
            "bf16": apart(bf16, right),
            "fp32": apart(loss(Tensor.float), right),
            "tf32": apart(tf32, right),
        }
    return found


def taken(
    learner: Learner, views: list[Tensor], weights: dict[str, float], precision: str, tf32: bool
) -> tuple[dict[str, float], Tensor]:
    """Terms and gradient of a step of a copy, whose batch norms do not move the next one's."""
    learner = copy.deepcopy(learner)
    torch.backends.cudnn.allow_tf32 = tf32
    seed_noise(0, "step")
    with autocast(views[0].device, precision):
        terms = learner(*views).terms
        loss = weigh(terms, weights)
    loss.backward()
    gradients = [p.grad.flatten() for p in learner.parameters() if p.grad is not None]
    return {n: v.item() for n, v in {**terms, "loss": loss}.items()}, torch.cat(gradients)


def step_errors(method: str, keys: list[str], device: torch.device) -> dict[str, Any]:
    """A method's step in bf16 against fp32."""
    recipe = compose(method, "cifar10", overrides=keys)
    learner = build_learner(recipe).to(device).to(memory_format=torch.channels_last)
    shape = (recipe.train.batch, 3, recipe.views.size, recipe.views.size)
    image = torch.randn(shape, device=device)
    views = [layout(image + 0.5 * torch.randn_like(image)) for _ in range(2)]
    with torch.no_grad():  # fills a queue, which makes no loss while it is empty
        learner.after_step([learner(*views)], 0.0)
    right, gradient = taken(learner, views, recipe.weights, "fp32", tf32=False)
    found: dict[str, Any] = {"terms": right}
    for precision in ("bf16", "fp32"):
        terms, other = taken(learner, views, recipe.weights, precision, tf32=True)
        found["fp32 with TF32 convolutions" if precision == "fp32" else precision] = {
            **{name: apart(terms[name], value) for name, value in right.items()},
            "gradient_cosine": torch.cosine_similarity(gradient, other, dim=0).item(),
        }
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--encoder", default="resnet18")
    options.add_argument("--batch", type=int, default=256)
    options.add_argument("--side", type=int, default=32, help="of the views, in pixels")
    options.add_argument("--width", type=int, default=256, help="K of the losses' inputs")
    options.add_argument("--methods", nargs="+", default=names("methods"))
    options.add_argument("--device", default="auto")
    asked = options.parse_args()
    device = pick_device(asked.device)
    torch.manual_seed(0)
    of_each = loss_errors(asked.batch, asked.width, device)
    keys = [f"encoder.name={asked.encoder}", "encoder.stem_padding=1"]
    keys += [f"views.size={asked.side}", f"train.batch={asked.batch}"]
    steps = {method: step_errors(method, keys, device) for method in asked.methods}
    about = {name: getattr(asked, name) for name in ("encoder", "batch", "side", "width")}
    over = [n for n, e in of_each.items() if max(e["bf16"], e["fp32"]) > GOAL]
    report(
        {
            **about,
            "default_matmul_precision": torch.get_float32_matmul_precision(),
            "losses": of_each,
            "goal": GOAL,
            "losses_over_goal": over,
            "losses_over_goal_in_tf32": [n for n, e in of_each.items() if e["tf32"] > GOAL],
            "steps": steps,
        },
        asked.out,
        str(device),
    )


if __name__ == "__main__":
    main()
