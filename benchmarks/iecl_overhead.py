"""What IE-CL costs: seconds of a training step with it over seconds without, in one run.

    python benchmarks/iecl_overhead.py [--encoder resnet18] [--batch 64] [--rounds 7]

Steps of both methods alternate, so that both meet the same machine; one of IE-CL's is timed with
the entropies that are logged every 100 steps by default. Prints the median of the ratios with the
least and the largest, the share that those measurements add, and the parameters of the transform.
"""

import argparse
import time
from statistics import median

import torch

from pellucid.build import build_learner, build_optimiser
from pellucid.evaluate.cost import parameters
from pellucid.learner import Learner, weigh
from pellucid.randomness import seeded
from pellucid.recipe import Recipe, compose
from pellucid.train.device import autocast, hardware, pick_device, resolve_precision
from pellucid.train.loop import layout
from pellucid.train.observe import observe_entropy

PAIRS = {"ie-simclr": "simclr", "ie-moco": "moco", "ie-byol": "byol", "ie-bayesncl": "bayesncl"}
MEASURED_EVERY = 100  # steps: train.log_every x train.measure_every


class Trained:
    """A method whose optimiser steps can be timed on random images."""

    def __init__(self, recipe: Recipe, device: torch.device, precision: str) -> None:
        self.recipe, self.device, self.precision = recipe, device, precision
        self.learner: Learner = (
            build_learner(recipe).to(device).to(memory_format=torch.channels_last)
        )
        self.optimiser = build_optimiser(recipe, self.learner)
        size, batch = recipe.views.size, recipe.train.batch
        self.query, self.key = (
            layout(torch.randn(batch, 3, size, size, device=device)) for _ in range(2)
        )

    def seconds(self) -> tuple[float, float]:
        """Of an optimiser step, and of measuring its entropies."""
        began = time.perf_counter()
        with autocast(self.device, self.precision):
            step = self.learner(self.query, self.key)
            loss = weigh(step.terms, self.recipe.weights)
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.learner.after_step([step], 0.5)
        loss.item()  # waits for the device
        done = time.perf_counter()
        seen = observe_entropy(self.learner, self.query, step, seeded(0, "entropy"))
        sum(value.item() for value in seen.values())
        return done - began, time.perf_counter() - done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--encoder", default="resnet18")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--methods", nargs="+", default=list(PAIRS), choices=list(PAIRS))
    options = parser.parse_args()
    device = pick_device()
    precision = resolve_precision("auto", device)
    print(f"{options.encoder}, batch {options.batch}, 32 px, {precision}, {hardware(device)}")
    size = "small" if options.encoder == "resnet18-thin" else "paper"
    keys = [f"encoder.name={options.encoder}", f"train.batch={options.batch}"]
    for name in options.methods:
        with_it, base = (
            Trained(compose(method, "cifar10", size, keys), device, precision)
            for method in (name, PAIRS[name])
        )
        ratios, shares, steps = [], [], []
        for number in range(options.rounds + 1):
            plain, _ = base.seconds()
            step, measuring = with_it.seconds()
            if number:  # the first warms up
                ratios.append(step / plain)
                shares.append(measuring / step / MEASURED_EVERY)
                steps.append(plain)
        print(
            f"{name}: {median(steps):.3f} s a step of {PAIRS[name]}, x {median(ratios):.3f} "
            f"({min(ratios):.3f} to {max(ratios):.3f}) with IE-CL; measuring entropies every "
            f"{MEASURED_EVERY} steps adds {median(shares):.2%}; transform of "
            f"{parameters(with_it.learner.query_transform):,} parameters",
            flush=True,
        )


if __name__ == "__main__":
    main()
