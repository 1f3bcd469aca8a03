"""SAIB and two regularisers of IE-CL on the MoCo parts of lightly (pip install lightly).

python examples/saib_on_lightly.py
"""

import argparse
import copy

import torch
from lightly.loss import NTXentLoss
from lightly.models.modules import MoCoProjectionHead
from lightly.models.utils import deactivate_requires_grad, update_momentum

from pellucid.data import open_images
from pellucid.data.views import ViewSettings
from pellucid.losses import gaussian_entropy, gaussian_kl
from pellucid.nets import make_encoder
from pellucid.query_transforms import Saib
from pellucid.train.batches import TwoViews

BATCH, SIZE = 64, 32
HALF = (0.5, 0.5, 0.5)


def main(steps: int) -> float:
    """Train for some steps; the last loss."""
    torch.manual_seed(0)
    encoder = make_encoder("resnet18-thin", SIZE)  # or any encoder of yours
    head = MoCoProjectionHead(128, 128, 64)
    encoder_momentum, head_momentum = copy.deepcopy(encoder), copy.deepcopy(head)
    deactivate_requires_grad(encoder_momentum)
    deactivate_requires_grad(head_momentum)
    criterion = NTXentLoss(temperature=0.2, memory_bank_size=(1024, 64))
    saib = Saib(patch=4)
    parameters = [*encoder.parameters(), *head.parameters(), *saib.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=1e-3)

    images = open_images("scenes", "train", limit=BATCH * steps, stored_size=SIZE)
    views = TwoViews(ViewSettings(size=SIZE), HALF, HALF, seed=0, batch=BATCH)
    for number, pixels in enumerate(images.batches(torch.arange(len(images)).split(BATCH))):
        x_query, x_key = views(pixels, number, slice(0, BATCH))
        update_momentum(encoder, encoder_momentum, m=0.99)
        update_momentum(head, head_momentum, m=0.99)
        query = head(encoder(saib(x_query)[0]))  # the query view only
        with torch.no_grad():
            key = head_momentum(encoder_momentum(x_key))
        loss = criterion(query, key)
        loss = loss - 0.01 * gaussian_entropy(query) + 1e-4 * gaussian_kl(query, key)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        print(f"step {number}: loss {loss.item():.3f}")
    return loss.item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    main(parser.parse_args().steps)
