"""What was tried to make the bare training step faster, against what is kept, in one run.

    python benchmarks/tried.py --encoder resnet18-thin --batch 128

The step is that of benchmarks/training.py's floor: encoder and projector on two views that are
there already, a loss in two lines, plain SGD. All variants take turns of one step.

- `kept`: channels last, bf16 where the hardware has it, one view after the other;
- `contiguous`, `fp32`: without the one or the other;
- `compiled`: `torch.compile` of encoder and projector, its first step timed apart;
- `own thread`, `denormals flushed`: on a CPU, a thread of its own without and with
  `set_flush_denormal` before its first operation, which the threads that it starts inherit;
- `joined`: both views in one forward pass of 2B images. Not the same training: batch norm takes its
  statistics over both views then, and the published codes take them view by view.

Then the optimisers' update alone, on the learner's parameters as a recipe groups them.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from timing import parser, ratio, report, spread, take_turns, wait
from torch import nn
from torch.nn import functional as F
from torch.optim import SGD, AdamW, Optimizer

from pellucid.build import build_learner
from pellucid.recipe import Recipe, compose
from pellucid.train.device import autocast, pick_device, resolve_precision
from pellucid.train.optimisers import lars, parameter_groups

VARIANTS = (
    "kept", "contiguous", "fp32", "compiled", "own thread", "denormals flushed", "joined",
)  # fmt: skip
WARM = 3
"""Rounds that are not counted."""


class Bare:
    """Encoder and projector with what trains them."""

    def __init__(
        self,
        recipe: Recipe,
        device: torch.device,
        precision: str,
        *,
        order: torch.memory_format = torch.channels_last,
        compiled: bool = False,
        joined: bool = False,
    ) -> None:
        online = build_learner(recipe).framework.online
        net = nn.Sequential(online.encoder, online.projector).to(device).to(memory_format=order)
        self.net = torch.compile(net) if compiled else net
        self.optimiser = SGD(net.parameters(), lr=0.01, momentum=0.9)
        self.device, self.precision, self.joined = device, precision, joined
        size, batch = recipe.views.size, recipe.train.batch
        self.views = [
            torch.randn(batch, 3, size, size, device=device).contiguous(memory_format=order)
            for _ in range(2)
        ]
        self.self_pairs = torch.eye(2 * batch, dtype=torch.bool, device=device)
        self.partner = torch.arange(2 * batch, device=device).roll(batch)

    def step(self) -> None:
        """One optimiser step; the device is waited for."""
        with autocast(self.device, self.precision):
            if self.joined:
                z = self.net(torch.cat(self.views))
            else:
                z = torch.cat([self.net(view) for view in self.views])
        z = F.normalize(z.float())
        logits = (z @ z.T / 0.2).masked_fill(self.self_pairs, -torch.inf)
        F.cross_entropy(logits, self.partner).backward()
        self.optimiser.step()
        self.optimiser.zero_grad()
        wait(self.device)


def in_thread(make: Callable[[], Bare], flush: bool) -> Callable[[], None]:
    """A step that always runs in one thread of its own, with a team of threads of its own."""
    thread = ThreadPoolExecutor(1)
    if flush and not thread.submit(torch.set_flush_denormal, True).result():
        raise RuntimeError("this processor cannot flush denormals")
    bare = thread.submit(make).result()
    return lambda: thread.submit(bare.step).result()


def steps_of(
    recipe: Recipe, device: torch.device, wanted: list[str]
) -> tuple[dict[str, Callable[[], None]], dict[str, Any]]:
    """The variants' steps, and what else there is to say of them."""
    precision = resolve_precision("auto", device)
    steps: dict[str, Callable[[], None]] = {}
    remarks: dict[str, Any] = {"precision": precision}

    def make(precision: str = precision, **changes: Any) -> Bare:
        return Bare(recipe, device, precision, **changes)

    for variant in wanted:
        if variant == "kept":
            steps[variant] = make().step
        elif variant == "contiguous":
            steps[variant] = make(order=torch.contiguous_format).step
        elif variant == "fp32":
            steps[variant] = make("fp32").step
        elif variant == "joined":
            steps[variant] = make(joined=True).step
        elif variant == "compiled":
            compiled = make(compiled=True)
            began = time.perf_counter()
            try:
                compiled.step()
            except Exception as error:  # it needs a compiler, which a machine may lack
                remarks["compile_failed"] = f"{type(error).__name__}: {str(error)[:200]}"
                continue
            remarks["compile_seconds"] = time.perf_counter() - began
            steps[variant] = compiled.step
        elif device.type == "cpu":
            steps[variant] = in_thread(make, flush=variant == "denormals flushed")
    return steps, remarks


def updates(
    recipe: Recipe, device: torch.device, rounds: int, step_seconds: float
) -> dict[str, Any]:
    """Milliseconds of each optimiser's update, and its share of a step."""
    learner = build_learner(recipe).to(device).to(memory_format=torch.channels_last)
    for parameter in learner.parameters():
        parameter.grad = 1e-3 * torch.randn_like(parameter)

    def groups() -> list[dict[str, Any]]:
        # So slow that no update changes what the next one meets.
        return parameter_groups(learner, 1e-7, recipe.weight_decay, {})

    kinds: dict[str, dict[str, bool]] = {
        "for-loop": {"foreach": False, "fused": False},
        "foreach": {"foreach": True},
        "fused": {"fused": True},
    }
    optimisers: dict[str, Optimizer] = {"lars, as used": lars(groups())}
    for kind, how in kinds.items():
        optimisers[f"sgd, {kind}"] = SGD(groups(), momentum=0.9, **how)
        optimisers[f"adamw, {kind}"] = AdamW(groups(), **how)

    def turn(optimiser: Optimizer) -> Callable[[], None]:
        def update() -> None:
            optimiser.step()
            wait(device)

        return update

    turns = {name: turn(optimiser) for name, optimiser in optimisers.items()}
    seconds = take_turns(turns, rounds, warm=WARM)
    return {
        name: {
            "milliseconds": spread([1000 * s for s in some]),
            "share_of_a_step": spread(some)["median"] / step_seconds,
        }
        for name, some in seconds.items()
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--encoder", default="resnet18")
    options.add_argument("--batch", type=int, default=128)
    options.add_argument("--side", type=int, default=32, help="of the views, in pixels")
    options.add_argument("--rounds", type=int, default=15, help="of one step each")
    options.add_argument("--variants", nargs="+", default=list(VARIANTS[1:]), choices=VARIANTS[1:])
    options.add_argument("--device", default="auto")
    asked = options.parse_args()
    device = pick_device(asked.device)
    keys = [f"encoder.name={asked.encoder}", "encoder.stem_padding=1"]
    keys += [f"views.size={asked.side}", f"train.batch={asked.batch}"]
    recipe = compose("simclr", "cifar10", overrides=keys)
    steps, remarks = steps_of(recipe, device, ["kept", *asked.variants])
    seconds = take_turns(steps, asked.rounds, warm=WARM)
    kept = seconds["kept"]
    about = {name: getattr(asked, name) for name in ("encoder", "batch", "side", "rounds")}
    figures = {
        "seconds_a_step": {name: spread(some) for name, some in seconds.items()},
        "times_kept": {name: ratio(some, kept) for name, some in seconds.items()},
        "updates": updates(recipe, device, asked.rounds, spread(kept)["median"]),
    }
    if "own thread" in seconds and "denormals flushed" in seconds:
        figures["flushed_over_not"] = ratio(seconds["denormals flushed"], seconds["own thread"])
    report({**about, **remarks, **figures}, asked.out, str(device))


if __name__ == "__main__":
    main()
