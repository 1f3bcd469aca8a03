"""The sections of a recipe whose settings belong to no part of their own."""

from dataclasses import dataclass
from typing import Any

from pellucid.nets.encoders import Stem
from pellucid.train.batches import RGB


@dataclass(frozen=True)
class DataSettings:
    """Which images, and how they are kept."""

    source: str = "scenes"  # a known name, or a path to a folder of images or parquet files
    root: str | None = None  # where a known name's files lie
    stored_size: int | None = None  # side in memory, pixels; none: the images' own if all agree
    limit: int | None = None  # train on this many images, drawn once from all
    seed: int = 0  # of generated sets (`scenes`)
    mean: RGB = (0.485, 0.456, 0.406)
    std: RGB = (0.229, 0.224, 0.225)
    image_column: str | None = None
    label_column: str | None = None
    holdout: float = 0.1  # share kept for evaluation when the source has no held-out split
    memory_limit_gb: float = 4.0  # a larger set is streamed
    bad_share: float = 0.01  # refuse a set of which more cannot be read

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be, by name."""
        _refuse(
            self,
            "stored_size",
            self.stored_size is None or self.stored_size >= 1,
            "at least 1 pixel, or none",
        )
        _refuse(self, "limit", self.limit is None or self.limit >= 1, "at least 1 image, or none")
        _refuse(self, "std", min(self.std) > 0, "above 0: it divides")
        _refuse(self, "holdout", 0 <= self.holdout < 1, "a share of at least 0 and below 1")
        _refuse(self, "bad_share", 0 <= self.bad_share <= 1, "a share, 0 to 1")
        _refuse(self, "memory_limit_gb", self.memory_limit_gb >= 0, "at least 0")


@dataclass(frozen=True)
class EncoderSettings:
    """Which encoder, by timm name or `resnet18-thin`."""

    name: str = "resnet18"
    stem: Stem = "auto"
    stem_padding: int = 1
    stem_stride: int = 1  # 2 quarters the work of a step at 32 px

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be, by name."""
        _refuse(self, "stem_padding", 0 <= self.stem_padding <= 3, "0 to 3 pixels")
        _refuse(self, "stem_stride", self.stem_stride >= 1, "at least 1")


@dataclass(frozen=True)
class ProjectorSettings:
    """Linear, ReLU, linear."""

    hidden: int = 2048
    dimensions: int = 256  # K
    batch_norm: bool = False  # before the ReLU; BYOL has it, NCL and BayesNCL do not

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be, by name."""
        _refuse(self, "hidden", self.hidden >= 1, "at least 1")
        _refuse(self, "dimensions", self.dimensions >= 1, "at least 1")


@dataclass(frozen=True)
class EvaluationSettings:
    """What the scores depend on."""

    min_support: int = 10  # fewest active images of a dimension that is scored
    knn_neighbours: int = 20
    knn_temperature: float = 0.07
    train_limit: int = 50_000  # labelled training images that probe and kNN read
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be, by name."""
        for name in ("min_support", "knn_neighbours", "train_limit"):
            _refuse(self, name, getattr(self, name) >= 1, "at least 1")
        _refuse(self, "knn_temperature", self.knn_temperature > 0, "above 0")


def _refuse(section: Any, name: str, possible: bool, words: str) -> None:
    if not possible:
        raise ValueError(f"{name} must be {words}, got {getattr(section, name)}")
