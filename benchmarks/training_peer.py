"""stable-pretraining's SimCLR against the bare step, in one run; it has to be installed.

    python benchmarks/training_peer.py --encoder resnet18-thin

Its documented way: `spt.Module` with `forward.simclr` and LARS in a Lightning trainer with
bf16-mixed, its Pillow transforms in two worker processes; the same encoder, projector width, batch
and view settings as in benchmarks/training.py. Its callbacks (probes, kNN) and its logger are off.
At every few steps its clock and its workers stop, and the bare step takes its turn.
"""

import multiprocessing
import os
import signal
import time
from typing import Any

import lightning as pl
import stable_pretraining as spt
import torch
from stable_pretraining.data import transforms
from stable_pretraining.forward import simclr
from timing import parser, rates, ratio, report
from torchvision.transforms.functional import to_pil_image
from training import Turn, bare

from pellucid.build import build_learner
from pellucid.data.views import ViewSettings
from pellucid.recipe import compose
from pellucid.train.device import resolve_precision


class Pictures(torch.utils.data.Dataset):
    """Random pixels as Pillow images."""

    def __init__(self, count: int, side: int) -> None:
        noise = torch.randint(0, 256, (5120, 3, side, side), dtype=torch.uint8)
        self.images = [to_pil_image(image) for image in noise]
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.images[index % len(self.images)], 0


class TakingTurns(pl.Callback):
    """Stops the clock at every few steps for the other's turn."""

    def __init__(self, steps: int, other: Turn) -> None:
        self.steps, self.other = steps, other
        self.seconds: dict[str, list[float]] = {"stable-pretraining": [], "bare": []}
        self.began = 0.0

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, number: int) -> None:
        if number % self.steps:
            return
        if number:
            self.seconds["stable-pretraining"].append(time.perf_counter() - self.began)
        _tell(signal.SIGSTOP)
        began = time.perf_counter()
        self.other(self.steps)
        self.seconds["bare"].append(time.perf_counter() - began)
        _tell(signal.SIGCONT)
        self.began = time.perf_counter()


def _tell(what: signal.Signals) -> None:
    for worker in multiprocessing.active_children():
        os.kill(worker.pid, what)


def view(settings: ViewSettings) -> Any:
    s = settings
    return transforms.Compose(
        transforms.RGB(),
        transforms.RandomResizedCrop((s.size, s.size), scale=s.crop),
        transforms.RandomHorizontalFlip(p=s.flip),
        transforms.ColorJitter(s.brightness, s.contrast, s.saturation, s.hue, p=s.jitter),
        transforms.RandomGrayscale(p=s.grey),
        transforms.PILGaussianBlur(p=s.blur),
        transforms.ToImage(mean=[0.5] * 3, std=[0.25] * 3),
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--encoder", default="resnet18")
    options.add_argument("--batch", type=int, default=128)
    options.add_argument("--steps", type=int, default=4, help="of a round")
    options.add_argument("--rounds", type=int, default=5)
    asked = options.parse_args()
    keys = [f"encoder.name={asked.encoder}", "encoder.stem_padding=1", f"train.batch={asked.batch}"]
    recipe = compose("simclr", "cifar10", overrides=keys)
    device = torch.device("cpu")
    turns = TakingTurns(asked.steps, bare(recipe, device, resolve_precision("auto", device)))
    steps = asked.steps * (asked.rounds + 1) + 1  # the first round warms up
    pictures = spt.data.FromTorchDataset(
        Pictures(steps * asked.batch, recipe.views.size),
        names=["image", "label"],
        transform=transforms.MultiViewTransform([view(recipe.views), view(recipe.views)]),
    )
    loader = torch.utils.data.DataLoader(
        pictures, asked.batch, shuffle=True, drop_last=True, num_workers=2
    )
    encoder = build_learner(recipe).framework.online.encoder
    projector = recipe.projector
    module = spt.Module(
        backbone=encoder,
        projector=spt.backbone.MLP(encoder.num_features, [projector.hidden, projector.dimensions]),
        forward=simclr,
        simclr_loss=spt.losses.NTXEntLoss(temperature=0.5),
        optim={"optimizer": {"type": "LARS", "lr": 0.2}, "interval": "epoch"},
    )
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        precision="bf16-mixed",
        callbacks=[turns],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(module, train_dataloaders=loader)
    seconds = {name: some[1:] for name, some in turns.seconds.items()}
    seconds["bare"] = seconds["bare"][: len(seconds["stable-pretraining"])]
    if len(seconds["bare"]) != asked.rounds:
        raise AssertionError(f"rounds were lost: {seconds}")
    about = {name: getattr(asked, name) for name in ("encoder", "batch", "steps", "rounds")}
    images = asked.steps * asked.batch
    figures = {
        "version": spt.__version__,
        "images_per_second": {name: rates(some, images) for name, some in seconds.items()},
        "over_bare": ratio(seconds["bare"], seconds["stable-pretraining"]),
    }
    report({**about, **figures}, asked.out)


if __name__ == "__main__":
    main()
