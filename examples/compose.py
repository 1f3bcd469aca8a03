"""BayesNCL put together by hand and trained in a plain PyTorch loop, on the built-in images.

python examples/compose.py
"""

import argparse

import torch

from pellucid import Branch, Learner, weigh
from pellucid.data import open_images
from pellucid.data.views import ViewSettings
from pellucid.frameworks import SimCLR
from pellucid.heads import BayesGate, NonNegative
from pellucid.nets.encoders import feature_width, make_encoder
from pellucid.nets.mlp import mlp
from pellucid.train.batches import TwoViews

BATCH, SIZE, DIMENSIONS = 64, 16, 64
HALF = (0.5, 0.5, 0.5)


def main(steps: int) -> float:
    """Train for some steps; the last loss."""
    torch.manual_seed(0)
    encoder = make_encoder("resnet18-thin", SIZE)
    features = feature_width(encoder, SIZE)
    branch = Branch(  # image [B, 3, H, W] -> h [B, F] -> u [B, K] -> z [B, K]
        encoder,
        projector=mlp(features, 256, DIMENSIONS),
        head=BayesGate(NonNegative(), gate=mlp(features, 256, DIMENSIONS), prior=0.3),
    )
    learner = Learner(SimCLR(branch, temperature=0.2))
    weights = {"contrast": 1.0, "gate_kl": 0.001}
    optimiser = torch.optim.AdamW(learner.parameters(), lr=1e-3)

    images = open_images("scenes", "train", limit=BATCH * steps, stored_size=SIZE)
    views = TwoViews(ViewSettings(size=SIZE), HALF, HALF, seed=0, batch=BATCH)
    batches = images.batches(torch.arange(len(images)).split(BATCH))
    for number, pixels in enumerate(batches):
        query, key = views(pixels, number, slice(0, BATCH))
        step = learner(query, key)  # named terms and embeddings; changes nothing
        loss = weigh(step.terms, weights)  # a term without a weight is an error
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        learner.after_step([step], progress=(number + 1) / steps)
        if number % 5 == 0 or number + 1 == steps:
            is_open = (step.query.gate > 0.5).float().mean().item()
            print(f"step {number}: loss {loss.item():.3f}, gates open {is_open:.0%}")
    return loss.item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=21)
    main(parser.parse_args().steps)
