"""Scores of runs on training images that they never saw: what a search may look at.

    python benchmarks/validate.py RUN [RUN ...] [--images 20000]

The images are of the training split, outside the `data.limit` that the runs trained on, so that a
choice made by these scores has not seen the test split. Prints, a line a run: semantic consistency
(right and published), kNN accuracy (4 fifths against the last fifth), density, gates open.
"""

import argparse
from pathlib import Path

import torch

from pellucid.build import source_settings
from pellucid.data.image_set import open_images
from pellucid.evaluate.extract import extract
from pellucid.evaluate.knn import knn_accuracy
from pellucid.metrics import as_published, density, semantic_consistency
from pellucid.run import open_run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--images", type=int, default=20000)
    options = parser.parse_args()
    for folder in options.runs:
        run = open_run(folder)
        settings = source_settings(run.recipe)
        everything = open_images(split="train", **settings)
        seen = set(open_images(split="train", limit=run.recipe.data.limit, **settings).names)
        unseen = [i for i, name in enumerate(everything.names) if name not in seen]
        chosen = torch.tensor(unseen[: options.images])
        branch, step = run.trained_branch()
        found = extract(
            branch,
            run.preprocess,
            everything,
            device=torch.device("cpu"),
            precision=run.recipe.train.precision,
            indices=chosen,
        )
        labels, cut = found.labels, len(chosen) * 4 // 5
        right = semantic_consistency(found.z, labels)
        near = knn_accuracy(
            found.h[:cut], labels[:cut], found.h[cut:], labels[cut:], neighbours=20,
            temperature=0.07,
        )  # fmt: skip
        gates = (
            "" if found.gate is None else f"  open {float((found.gate > 0.5).float().mean()):.3f}"
        )
        print(
            f"{run.name:24} step {step}  consistency {right.value:.4f} (chance {right.chance:.4f}, "
            f"{right.dimensions} dimensions)  published "
            f"{as_published.semantic_consistency(found.z, labels):.4f}  kNN {near:.4f}  "
            f"density {density(found.z):.3f}{gates}"
        )


if __name__ == "__main__":
    main()
