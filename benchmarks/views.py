"""Views a second: ours, kornia's, torchvision's and Pillow's, on the same images and settings.

    python benchmarks/views.py --sides 32 64 224

Crop, flip, full colour jitter at probability 0.8, grey 0.2 and blur 0.5. Ours and kornia take a
batch on all threads; torchvision and Pillow take an image at a time on one thread, as in the worker
of a data loader. Ratios are of views a second of processor time, so that workers on every core
would not change them.
"""

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import torch
from PIL.Image import Image
from timing import parser, ratio, report, spread, take_turns, threads
from torchvision import transforms
from torchvision.transforms import v2

from pellucid.data.views import ViewSettings, draw_views, make_views
from pellucid.randomness import seeded

FEW = 64
"""Images of a turn of those that take one at a time."""

Maker = Callable[[], int]
"""Makes views once and says how many."""


def ours(images: torch.Tensor, settings: ViewSettings) -> Maker:
    """Batches of `pellucid.data.views`, draws included."""
    generator = seeded(0, "views")
    count, _, height, width = images.shape

    def make() -> int:
        draws = draw_views(count, height, width, settings, generator)
        return len(make_views(images, draws, settings))

    return make


def kornia(images: torch.Tensor, settings: ViewSettings) -> Maker:
    """Batches of kornia's augmentations."""
    from kornia import augmentation as k

    s, taps = settings, 2 * settings.blur_radius + 1
    pipeline = k.AugmentationSequential(
        k.RandomResizedCrop((s.size, s.size), scale=s.crop, ratio=s.ratio),
        k.RandomHorizontalFlip(p=s.flip),
        k.ColorJitter(s.brightness, s.contrast, s.saturation, s.hue, p=s.jitter),
        k.RandomGrayscale(p=s.grey),
        k.RandomGaussianBlur((taps, taps), s.blur_sigma, p=s.blur),
        same_on_batch=False,
    )
    return lambda: len(pipeline(images.float() / 255))


def torchvision_v2(images: torch.Tensor, settings: ViewSettings) -> Maker:
    """Tensors of bytes, one image at a time."""
    s, taps = settings, 2 * settings.blur_radius + 1
    pipeline = v2.Compose(
        [
            v2.RandomResizedCrop(s.size, s.crop, s.ratio, antialias=True),
            v2.RandomHorizontalFlip(s.flip),
            v2.RandomApply(
                [v2.ColorJitter(s.brightness, s.contrast, s.saturation, s.hue)], s.jitter
            ),
            v2.RandomGrayscale(s.grey),
            v2.RandomApply([v2.GaussianBlur(taps, s.blur_sigma)], s.blur),
            v2.ToDtype(torch.float32, scale=True),
        ]
    )
    few = images[:FEW]
    return on_one_thread(lambda: len(torch.stack([pipeline(image) for image in few])))


def pillow(images: torch.Tensor, settings: ViewSettings) -> Maker:
    """Pillow images, one at a time."""
    s, taps = settings, 2 * settings.blur_radius + 1
    pipeline = transforms.Compose(
        [
            transforms.RandomResizedCrop(s.size, s.crop, s.ratio),
            transforms.RandomHorizontalFlip(s.flip),
            transforms.RandomApply(
                [transforms.ColorJitter(s.brightness, s.contrast, s.saturation, s.hue)], s.jitter
            ),
            transforms.RandomGrayscale(s.grey),
            transforms.RandomApply([transforms.GaussianBlur(taps, s.blur_sigma)], s.blur),
            transforms.ToTensor(),
        ]
    )
    to_image = transforms.ToPILImage()
    few: list[Image] = [to_image(image) for image in images[:FEW]]
    return on_one_thread(lambda: len(torch.stack([pipeline(image) for image in few])))


def on_one_thread(make: Maker) -> Maker:
    def run() -> int:
        with threads(1):
            return make()

    return run


def turn(make: Maker, seconds: float) -> Callable[[], None]:
    """A round: views for at least so long, noting how many a second and a processor second."""

    def run() -> None:
        made, start, busy = 0, time.perf_counter(), time.process_time()
        while (passed := time.perf_counter() - start) < seconds:
            made += make()
        run.by_clock.append(made / passed)
        run.by_processor.append(made / (time.process_time() - busy))

    run.by_clock, run.by_processor = [], []
    return run


def measure(side: int, stored: int, batch: int, rounds: int, seconds: float) -> dict[str, Any]:
    settings = ViewSettings(size=side)
    images = torch.randint(0, 256, (batch, 3, stored, stored), dtype=torch.uint8)
    makers = {"ours": ours(images, settings)}
    if importlib.util.find_spec("kornia"):
        makers["kornia"] = kornia(images, settings)
    makers["torchvision v2"] = torchvision_v2(images, settings)
    makers["pillow"] = pillow(images, settings)
    turns = {name: turn(make, seconds) for name, make in makers.items()}
    take_turns(turns, rounds)
    found = {
        name: {
            "views_per_second": spread(run.by_clock[1:]),
            "views_per_processor_second": spread(run.by_processor[1:]),
        }
        for name, run in turns.items()
    }
    mine = turns["ours"].by_processor[1:]
    for name, run in turns.items():
        if name != "ours":
            found[name]["ours_over_it"] = ratio(mine, run.by_processor[1:])
    return {"stored": stored, "batch": batch, **found}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--sides", type=int, nargs="+", default=[32, 64, 224])
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--seconds", type=float, default=0.7, help="of one round, at least")
    asked = options.parse_args()
    torch.manual_seed(0)
    figures = {}
    for side in asked.sides:
        stored, batch = (side, 256) if side <= 96 else (round(side * 8 / 7), 64)
        figures[str(side)] = measure(side, stored, batch, asked.rounds, asked.seconds)
    report({"rounds": asked.rounds, "sides": figures}, asked.out)


if __name__ == "__main__":
    main()
