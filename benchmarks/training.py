"""Images trained a second: each method's own loop, the bare step, and lightly's SimCLR recipe.

    python benchmarks/training.py --encoder resnet18 --methods simclr ncl bayesncl

Two views of each image at 32 pixels. The bare step is the floor: forward and backward of encoder
and projector on views that are there already, channels last, in the precision of training, a loss
in two lines and plain SGD; no views, no log, no checks. Ours is `pellucid.train.loop.train` itself
on images in memory: at every few steps its clock stops and the others take their turn. lightly's is
its documented recipe (lightly/examples/pytorch/simclr.py): Pillow views in two worker processes,
fp32, the same encoder, projector width, batch and view settings.

Left out of ours is the end of an epoch, which is timed by itself (`epoch_end`): a checkpoint.
"""

import atexit
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from timing import parser, rates, ratio, report, spread, wait
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.build import build_learner, build_optimiser, build_views
from pellucid.data.image_set import ImageSet
from pellucid.pretraining import with_plan
from pellucid.recipe import Recipe, compose
from pellucid.train import checkpoint
from pellucid.train.batches import TwoViews
from pellucid.train.device import autocast, pick_device, resolve_precision
from pellucid.train.loop import layout, train

Turn = Callable[[int], None]
"""Takes so many steps."""


def bare(recipe: Recipe, device: torch.device, precision: str, side: int | None = None) -> Turn:
    """The floor."""
    online = build_learner(recipe).framework.online
    net = nn.Sequential(online.encoder, online.projector).to(device)
    net.to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    size, batch = side or recipe.views.size, recipe.train.batch
    views = [layout(torch.randn(batch, 3, size, size, device=device)) for _ in range(2)]
    others = torch.eye(2 * batch, dtype=torch.bool, device=device)
    partner = torch.arange(2 * batch, device=device).roll(batch)

    def turn(steps: int) -> None:
        for _ in range(steps):
            with autocast(device, precision):
                z = torch.cat([net(view) for view in views])
            z = F.normalize(z.float())
            loss = F.cross_entropy((z @ z.T / 0.2).masked_fill(others, -torch.inf), partner)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
        loss.item()

    return turn


def lightly(recipe: Recipe, pixels: Tensor, workers: int) -> Turn:
    """The documented recipe of the field's library."""
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead
    from lightly.transforms import SimCLRTransform
    from torchvision.transforms.functional import to_pil_image

    views = SimCLRTransform(input_size=recipe.views.size)

    class Photographs(torch.utils.data.Dataset):
        def __init__(self) -> None:
            self.images = [to_pil_image(image) for image in pixels]

        def __len__(self) -> int:
            return len(self.images)

        def __getitem__(self, index: int) -> tuple[Any, int]:
            return views(self.images[index]), 0

    encoder = build_learner(recipe).framework.online.encoder
    width = encoder.num_features
    projector = recipe.projector
    model = nn.Sequential(
        encoder, SimCLRProjectionHead(width, projector.hidden, projector.dimensions)
    )
    loader = torch.utils.data.DataLoader(
        Photographs(),
        batch_size=recipe.train.batch,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=True,
    )
    criterion = NTXentLoss()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.06)

    def endless() -> Iterator[Any]:
        while True:
            yield from loader

    batches = endless()
    next(batches)

    def tell(signal_: signal.Signals) -> None:
        for worker in loader._iterator._workers:
            os.kill(worker.pid, signal_)

    def turn(steps: int) -> None:
        # Between its turns the workers sleep, with their queue as full at the end as at the start.
        tell(signal.SIGCONT)
        for _ in range(steps):
            (x0, x1), _ = next(batches)
            loss = criterion(model(x0), model(x1))
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
        tell(signal.SIGSTOP)

    tell(signal.SIGSTOP)
    atexit.register(tell, signal.SIGCONT)  # else the end waits for them for ever
    return turn


class TakingTurns(TwoViews):
    """The views of a training whose clock stops at every few steps for the turns of the others."""

    def __init__(self, views: TwoViews, steps: int, others: dict[str, Turn]) -> None:
        super().__init__(views.settings, views.mean, views.std, views.seed, views.batch)
        self.steps, self.others = steps, others
        self.seconds: dict[str, list[float]] = {name: [] for name in ("ours", *others)}
        self.began = 0.0

    def __call__(self, images: Tensor, step: int, rows: slice) -> tuple[Tensor, Tensor]:
        if step % self.steps == 0:
            wait(images.device)
            if step:
                self.seconds["ours"].append(time.perf_counter() - self.began)
            for name, turn in self.others.items():
                began = time.perf_counter()
                turn(self.steps)
                wait(images.device)
                self.seconds[name].append(time.perf_counter() - began)
            self.began = time.perf_counter()
        return super().__call__(images, step, rows)


def measure(
    recipe: Recipe, device: torch.device, others: dict[str, Turn], steps: int, rounds: int
) -> dict[str, Any]:
    """Train for so many rounds of steps, the first a warm-up, with the others in between."""
    size, batch = recipe.views.size, recipe.train.batch
    count = batch * (steps * (rounds + 1) + 1)
    noise = torch.randint(0, 256, (min(count, 10_000), 3, size, size), dtype=torch.uint8)
    pixels = noise.repeat(-(-count // len(noise)), 1, 1, 1)[:count]
    learner = build_learner(recipe).to(device).to(memory_format=torch.channels_last)
    optimiser = build_optimiser(recipe, learner)
    views = TakingTurns(build_views(recipe), steps, others)
    with tempfile.TemporaryDirectory() as run:
        images = ImageSet.from_pixels(pixels)
        plan = recipe.train
        train(learner, images, views, optimiser, recipe.weights, plan, Path(run), lambda _: None)
        saves = []
        for _ in range(3):
            began = time.perf_counter()
            checkpoint.save(Path(run), 1, learner, optimiser, {})
            saves.append(time.perf_counter() - began)
    seconds = {name: all_[1:] for name, all_ in views.seconds.items()}
    seconds = {name: some[: len(seconds["ours"])] for name, some in seconds.items()}
    if any(len(some) != rounds for some in seconds.values()):
        raise AssertionError(f"rounds were lost: {seconds}")
    found: dict[str, Any] = {
        "images_per_second": {n: rates(s, steps * batch) for n, s in seconds.items()},
        "epoch_end_seconds": spread(saves),
    }
    for name in others:
        found[f"over_{name}"] = ratio(seconds[name], seconds["ours"])
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--encoder", default="resnet18")
    options.add_argument("--methods", nargs="+", default=["simclr"])
    options.add_argument("--batch", type=int, default=128)
    options.add_argument("--side", type=int, default=32, help="of the views, in pixels")
    options.add_argument("--steps", type=int, default=4, help="of a round")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--device", default="auto")
    options.add_argument("--precision", default="auto", choices=("auto", "bf16", "fp32"))
    options.add_argument("--peer", action="store_true", help="lightly too, beside the first method")
    asked = options.parse_args()
    device = pick_device(asked.device)
    precision = resolve_precision(asked.precision, device)
    figures = {}
    for number, method in enumerate(asked.methods):
        keys = [f"encoder.name={asked.encoder}", "encoder.stem_padding=1"]
        keys += [f"views.size={asked.side}", f"train.batch={asked.batch}"]
        keys += ["train.epochs=1", "train.warmup_epochs=0"]
        recipe = with_plan(compose(method, "cifar10", overrides=keys), precision=precision)
        others = {"bare": bare(compose("simclr", "cifar10", overrides=keys), device, precision)}
        if asked.peer and number == 0:
            few = torch.randint(0, 256, (5120, 3, asked.side, asked.side), dtype=torch.uint8)
            others["lightly"] = lightly(recipe, few, workers=2)
        figures[method] = measure(recipe, device, others, asked.steps, asked.rounds)
    about = {name: getattr(asked, name) for name in ("encoder", "batch", "side", "steps", "rounds")}
    report({**about, "precision": precision, "methods": figures}, asked.out, str(device))


if __name__ == "__main__":
    main()
