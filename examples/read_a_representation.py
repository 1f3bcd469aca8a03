"""Open a run, embed images, and read what its dimensions stand for.

pellucid pretrain ncl scenes --out runs/ncl
python examples/read_a_representation.py runs/ncl
"""

import argparse
from pathlib import Path

import torch

from pellucid.build import source_settings
from pellucid.data import open_images
from pellucid.evaluate import extract
from pellucid.metrics import rank_dimensions, semantic_consistency
from pellucid.run import open_run


def main(folder: Path, dimensions: int = 5, images_each: int = 6) -> list[int]:
    """Print the strongest images of the strongest dimensions; the dimensions."""
    run = open_run(folder)
    branch, step = run.trained_branch()
    images = open_images(split="test", **source_settings(run.recipe))
    features = extract(branch, run.preprocess, images, device=torch.device("cpu"), precision="fp32")
    z = torch.nn.functional.normalize(features.z, dim=1)  # [N, K], rows of length 1
    print(f"{run.name} after step {step}: {len(z)} images in {z.shape[1]} dimensions")

    strongest = rank_dimensions(features.z)[:dimensions].tolist()
    for dimension in strongest:
        values, rows = z[:, dimension].topk(images_each)
        shown = ", ".join(
            f"{images.names[row]} ({value:.2f})"
            for row, value in zip(rows.tolist(), values.tolist(), strict=True)
        )
        active = (z[:, dimension].abs() > 1e-5).float().mean().item()
        print(f"dimension {dimension}, active on {active:.0%} of the images: {shown}")

    if features.labels is not None:
        found = semantic_consistency(features.z, features.labels)
        print(f"consistency with the labels: {found.value} (shuffled labels: {found.chance})")
        print(f"{found.dimensions} dimensions scored, the least of them active on {found.support}")
    return strongest


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    main(parser.parse_args().run)
