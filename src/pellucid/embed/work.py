"""What the steps of an embedding share: the run, the images, the folder, and its shards."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pellucid.branch import Branch
from pellucid.embed.shard import Layout, shard_facts
from pellucid.embed.subject import Subject
from pellucid.run import Run

PARTS = "parts"
"""The folder of the shards that arrays are joined from."""


@dataclass(frozen=True)
class Work:
    """One embedding, the same on all processes."""

    run: Run
    branch: Branch
    subject: Subject
    folder: Path
    settings: dict[str, Any]
    device: torch.device
    say: Callable[[str], None]

    @property
    def layout(self) -> Layout:
        """What is written of each image, and how."""
        return Layout(
            stages=tuple(self.settings["stages"]),
            sparse=self.settings["layout"] == "sparse",
            text=self.settings["file_names"] == "text",
        )

    @property
    def key(self) -> str:
        """Of the settings: a shard that does not bear it belongs to others."""
        text = json.dumps(self.settings, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def shards(self) -> list[tuple[Path, Tensor]]:
        """The file of each shard, and the indices of its images."""
        order = torch.arange(len(self.subject.images))
        parts = torch.split(order, self.settings["shard_rows"])
        below = self.folder / PARTS if self.settings["files"] == "npy" else self.folder
        name = f"features-{{:05d}}-of-{len(parts):05d}.parquet"
        return [(below / name.format(number), part) for number, part in enumerate(parts)]

    def is_there(self, path: Path) -> bool:
        """Whether a shard is there, whole, and of these settings."""
        facts = shard_facts(path)
        return facts is not None and facts.get("key") == self.key
