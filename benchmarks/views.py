"""Views a second: ours, kornia's, torchvision's and Pillow's, on the same images and settings.

    python benchmarks/views.py --threads 2 --out views.json

Crop, flip, full colour jitter at probability 0.8, grey 0.2 and blur 0.5, at 32 pixels. Ours and
kornia take a batch; torchvision and Pillow take an image at a time, in one process, so that a data
loader multiplies their figure by its workers. The rounds are interleaved, so that a busy machine
slows all of them; the spread is from the slowest round to the fastest. Views a second of processor
time say what a core does on a machine that is shared.
"""

import argparse
import importlib.util
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from PIL.Image import Image
from torchvision import transforms
from torchvision.transforms import v2

from pellucid.data.views import ViewSettings, draw_views, make_views
from pellucid.randomness import seeded

SETTINGS = ViewSettings()
Maker = Callable[[], int]
"""Makes views once and says how many."""


def ours(images: torch.Tensor) -> Maker:
    """Batches of `pellucid.data.views`, draws included."""
    generator = seeded(0, "views")
    count, _, height, width = images.shape

    def make() -> int:
        draws = draw_views(count, height, width, SETTINGS, generator)
        return len(make_views(images, draws, SETTINGS))

    return make


def kornia(images: torch.Tensor) -> Maker:
    """Batches of kornia's augmentations."""
    from kornia import augmentation as k

    s, taps = SETTINGS, 2 * SETTINGS.blur_radius + 1
    pipeline = k.AugmentationSequential(
        k.RandomResizedCrop((s.size, s.size), scale=s.crop, ratio=s.ratio),
        k.RandomHorizontalFlip(p=s.flip),
        k.ColorJitter(s.brightness, s.contrast, s.saturation, s.hue, p=s.jitter),
        k.RandomGrayscale(p=s.grey),
        k.RandomGaussianBlur((taps, taps), s.blur_sigma, p=s.blur),
        same_on_batch=False,
    )
    return lambda: len(pipeline(images.float() / 255))


def torchvision_v2(images: torch.Tensor) -> Maker:
    """Tensors of bytes, one image at a time."""
    s, taps = SETTINGS, 2 * SETTINGS.blur_radius + 1
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
    few = images[:64]
    return lambda: len(torch.stack([pipeline(image) for image in few]))


def pillow(images: torch.Tensor) -> Maker:
    """Pillow images, one at a time."""
    s, taps = SETTINGS, 2 * SETTINGS.blur_radius + 1
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
    few: list[Image] = [to_image(image) for image in images[:64]]
    return lambda: len(torch.stack([pipeline(image) for image in few]))


def one_round(make: Maker, seconds: float) -> tuple[float, float]:
    """Views a second, by the clock and by processor time, over at least `seconds`."""
    made, start, busy = 0, time.perf_counter(), time.process_time()
    while (passed := time.perf_counter() - start) < seconds:
        made += make()
    return made / passed, made / (time.process_time() - busy)


def main() -> None:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2, help="threads of torch")
    parser.add_argument("--batch", type=int, default=256, help="images of a batch")
    parser.add_argument("--side", type=int, default=32, help="side of a stored image")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each")
    parser.add_argument("--seconds", type=float, default=0.7, help="of one round, at least")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    shape = (options.batch, 3, options.side, options.side)
    images = torch.randint(0, 256, shape, dtype=torch.uint8)
    makers = {"ours": ours(images)}
    if importlib.util.find_spec("kornia"):
        makers["kornia"] = kornia(images)
    makers |= {"torchvision v2": torchvision_v2(images), "pillow": pillow(images)}
    for make in makers.values():
        make()  # warm
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in makers}
    for _ in range(options.rounds):
        for name, make in makers.items():
            rounds[name].append(one_round(make, options.seconds))

    figures = {}
    for name, pairs in rounds.items():
        clock, busy = ([pair[i] for pair in pairs] for i in range(2))
        figures[name] = {
            "views_per_second": statistics.median(clock),
            "slowest_round": min(clock),
            "fastest_round": max(clock),
            "views_per_processor_second": statistics.median(busy),
        }
        print(
            f"{name:15s} {statistics.median(clock):8.0f} views/s"
            f"   ({min(clock):.0f} to {max(clock):.0f})"
            f"   {statistics.median(busy):8.0f} a second of processor time"
        )
    if options.out:
        about = {
            "threads": options.threads,
            "batch": options.batch,
            "side": options.side,
            "machine": platform.processor() or platform.machine(),
            "torch": torch.__version__,
        }
        options.out.write_text(json.dumps(about | figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
