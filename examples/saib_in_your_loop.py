"""SAIB and the regularisers of IE-CL in a plain PyTorch SimCLR loop; encoder and loop are yours.

python examples/saib_in_your_loop.py
"""

import argparse

import torch
from torch import nn

from pellucid import Embedding, Step, weigh
from pellucid.data import open_images
from pellucid.losses import nt_xent
from pellucid.query_transforms import Saib
from pellucid.regularisers import Entropy, QueryKL, Spectral, TransformDecay
from pellucid.types import merge

BATCH, SIZE = 64, 32


def view(pixels: torch.Tensor) -> torch.Tensor:
    """A view in your style: here noise and another brightness."""
    x = pixels.float() / 255 * torch.empty(len(pixels), 1, 1, 1).uniform_(0.7, 1.3)
    return (x + 0.05 * torch.randn_like(x) - 0.5) / 0.3


def main(steps: int) -> float:
    """Train for some steps; the last loss."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 32, 3, stride=2), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(4)]
    encoder = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 64))
    projector = nn.Linear(64, 32)
    saib = Saib(patch=4)  # of the query view only
    regularisers = [Entropy(), QueryKL(), Spectral(encoder), TransformDecay(saib)]
    weights = {"contrast": 1.0, "entropy": 0.01, "query_kl": 1e-4}
    weights |= {"spectral": 0.01, "transform_decay": 1e-4}
    trained = [*encoder.parameters(), *projector.parameters(), *saib.parameters()]
    optimiser = torch.optim.AdamW(trained, lr=1e-3)

    images = open_images("scenes", "train", limit=BATCH * steps, stored_size=SIZE)
    for number, pixels in enumerate(images.batches(torch.arange(len(images)).split(BATCH))):
        sides = [encoder(saib(view(pixels))[0]), encoder(view(pixels))]
        pairs = [(h, projector(h)) for h in sides]
        query, key = (Embedding(h=h, u=u, z=u, gate=None, terms={}) for h, u in pairs)
        terms = {"contrast": nt_xent(query.z, key.z, temperature=0.2)}
        step = Step(terms, query=query, key=key, anchor=key)  # what the query is compared with
        loss = weigh(merge(terms, *(regulariser(step) for regulariser in regularisers)), weights)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        for regulariser in regularisers:  # power iterations move here
            regulariser.after_step([step], progress=(number + 1) / steps)
        print(f"step {number}: loss {loss.item():.3f}")
    return loss.item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    main(parser.parse_args().steps)
