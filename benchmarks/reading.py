"""Two views of large JPEGs a second: ours against torchvision's ImageFolder and DataLoader.

    python benchmarks/reading.py --images FOLDER_OF_CLASS_FOLDERS

Without --images, JPEGs of 500 pixels on the longer side are made from the two photographs that
scikit-learn brings. Nothing is kept between rounds: every image is read and decoded every time.
`crops` is what worker processes do where the rest is left to a device: for ours decode once, cut
and resize both views; for torchvision ImageFolder with RandomResizedCrop twice and PILToTensor.
`views` is all of crop, flip, jitter, grey and blur: for torchvision in its workers, as its recipes
have it; for ours `crops` in the workers and the rest in batches on this machine's CPU.
`crops_against_views` is what a machine gains whose device takes the rest. Both have as many
workers.
"""

import tempfile
import time
from pathlib import Path

import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from timing import parser, rates, ratio, report, take_turns
from torch import Tensor
from torch.utils.data import DataLoader, RandomSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder

from pellucid.data.image_set import open_images
from pellucid.data.views import ViewSettings
from pellucid.train.batches import TwoViews, epoch_batches

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MADE, QUALITY = 512, 90


def make_photographs(root: Path) -> None:
    """Class folders of JPEGs of 500 x 375 pixels: crops of two photographs."""
    generator = torch.Generator().manual_seed(0)
    for name, pixels in zip("ab", load_sample_images().images, strict=True):
        folder = root / name
        folder.mkdir(parents=True)
        whole = Image.fromarray(pixels)
        for number in range(MADE // 2):
            left, top = (int(x * 90) for x in torch.rand(2, generator=generator))
            part = whole.crop((left, top, left + 550, top + 337)).resize((500, 375))
            part.save(folder / f"{number}.jpg", quality=QUALITY)


def torchvision_transform(settings: ViewSettings, *, whole: bool) -> transforms.Compose:
    s = settings
    steps = [transforms.RandomResizedCrop(s.size, s.crop, s.ratio)]
    if not whole:
        return transforms.Compose([*steps, transforms.PILToTensor()])
    jitter = transforms.ColorJitter(s.brightness, s.contrast, s.saturation, s.hue)
    steps += [
        transforms.RandomHorizontalFlip(s.flip),
        transforms.RandomApply([jitter], s.jitter),
        transforms.RandomGrayscale(s.grey),
        transforms.RandomApply(
            [transforms.GaussianBlur(2 * s.blur_radius + 1, s.blur_sigma)], s.blur
        ),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, STD),
    ]
    return transforms.Compose(steps)


class Twice:
    """Two views of an image."""

    def __init__(self, transform: transforms.Compose) -> None:
        self.transform = transform

    def __call__(self, image: Image.Image) -> tuple[Tensor, Tensor]:
        return self.transform(image), self.transform(image)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--images", type=Path, help="a folder of class folders")
    options.add_argument("--side", type=int, default=224, help="of the views, in pixels")
    options.add_argument("--batch", type=int, default=64)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--batches", type=int, default=20, help="of a round")
    options.add_argument("--rounds", type=int, default=5)
    asked = options.parse_args()
    settings = ViewSettings(size=asked.side)
    with tempfile.TemporaryDirectory() as made:
        root = asked.images or Path(made) / "images"
        if asked.images is None:
            make_photographs(root)
        images = open_images(
            str(root), "train", holdout=0.0, memory_limit_gb=0.0, workers=asked.workers
        )
        views = TwoViews(settings, MEAN, STD, 0, asked.batch)
        folder = ImageFolder(str(root))
        size = Image.open(root / images.names[0]).size

        def ours(*, whole: bool) -> None:
            order = []
            for epoch in range(asked.batches):
                order += epoch_batches(len(images), asked.batch, 1, 0, epoch, 0)
                if len(order) >= asked.batches:
                    break
            order = order[: asked.batches]
            for (_, step, rows), pixels in zip(order, views.read(images, order), strict=True):
                if whole:
                    views(pixels, step, rows)

        def torchvision(*, whole: bool) -> None:
            folder.transform = Twice(torchvision_transform(settings, whole=whole))
            # One pass, as long as a round: neither restarts nor batches that nobody takes.
            order = RandomSampler(folder, num_samples=asked.batches * asked.batch)
            for _ in DataLoader(folder, asked.batch, sampler=order, num_workers=asked.workers):
                pass

        began = time.perf_counter()
        seconds = take_turns(
            {
                "ours, crops": lambda: ours(whole=False),
                "torchvision, crops": lambda: torchvision(whole=False),
                "ours, views": lambda: ours(whole=True),
                "torchvision, views": lambda: torchvision(whole=True),
            },
            asked.rounds,
        )
    peer = seconds["torchvision, views"]
    report(
        {
            "images": len(images),
            "first_image": list(size),
            "side": asked.side,
            "batch": asked.batch,
            "workers": asked.workers,
            "images_per_second": {
                name: rates(s, asked.batches * asked.batch) for name, s in seconds.items()
            },
            "crops_over_torchvision": ratio(seconds["torchvision, crops"], seconds["ours, crops"]),
            "views_over_torchvision": ratio(peer, seconds["ours, views"]),
            "crops_against_views": ratio(peer, seconds["ours, crops"]),
            "rounds": asked.rounds,
            "seconds_in_all": time.perf_counter() - began,
        },
        asked.out,
    )


if __name__ == "__main__":
    main()
