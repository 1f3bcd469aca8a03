"""The training time that the Bayesian gate adds to NCL: one run, interleaved steps, a ratio.

    python benchmarks/gate_overhead.py [--encoder resnet18] [--batch 256] [--rounds 7]

Both learners take the same views; each round times one whole optimiser step (forward, backward,
update) of each, in turn, so that what else the machine does falls on both alike. Published:
6 % (CIFAR-100, 70.95 to 75.12 minutes) and 13 % (ImageNet-100, 193.78 to 218.53).
"""

import argparse
import json
import statistics
import time

import torch

from pellucid.build import build_learner, build_optimiser
from pellucid.learner import weigh
from pellucid.recipe import compose
from pellucid.train.device import autocast, hardware, pick_device, resolve_precision
from pellucid.train.loop import layout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--encoder", default="resnet18")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    device = pick_device(options.device)
    precision = resolve_precision("auto", device)
    keys = [f"encoder.name={options.encoder}", f"train.batch={options.batch}"]
    steps = {m: _step_of(m, keys, device, precision) for m in ("ncl", "bayesncl")}
    query, key = torch.randn(2, options.batch, 3, 32, 32, device=device)
    seconds: dict[str, list[float]] = {method: [] for method in steps}
    for round_ in range(options.rounds + 1):
        for method, step in steps.items():
            began = time.perf_counter()
            step(query, key)
            if round_:  # the first is a warm-up
                seconds[method].append(time.perf_counter() - began)
    ratios = [b / n for n, b in zip(seconds["ncl"], seconds["bayesncl"], strict=True)]
    print(
        json.dumps(
            {
                "encoder": options.encoder,
                "batch": options.batch,
                "precision": precision,
                "hardware": hardware(device),
                "seconds_a_step": {m: statistics.median(s) for m, s in seconds.items()},
                "overhead_median": statistics.median(ratios) - 1,
                "overhead_lowest": min(ratios) - 1,
                "overhead_highest": max(ratios) - 1,
                "rounds": options.rounds,
            },
            indent=1,
        )
    )


def _step_of(method: str, keys: list[str], device: torch.device, precision: str):
    recipe = compose(method, "cifar10", overrides=keys)
    learner = build_learner(recipe).to(device).to(memory_format=torch.channels_last)
    optimiser = build_optimiser(recipe, learner)

    def step(query: torch.Tensor, key: torch.Tensor) -> None:
        with autocast(device, precision):
            loss = weigh(learner(layout(query), layout(key)).terms, recipe.weights)
        torch.autograd.backward(loss)
        optimiser.step()
        optimiser.zero_grad()
        loss.item()

    return step


if __name__ == "__main__":
    main()
