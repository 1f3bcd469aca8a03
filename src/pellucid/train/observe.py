"""What is watched while training: how gates and dimensions are used."""

import torch
from torch import Tensor

from pellucid.metrics.activity import ACTIVE
from pellucid.types import Embedding


@torch.no_grad()
def observe(embedding: Embedding) -> dict[str, Tensor]:
    """Use of dimensions and gates in one batch; scalars on the device, so nothing waits.

    `density`: share of active entries of z. `z_std`: mean standard deviation of unit rows' columns
    times sqrt(K); 0 when all images have one representation. With a gate, where open means a
    probability above 0.5 whatever the head's threshold: `gate_open`, the share of open gates;
    `gate_always` and `gate_never`, the share of dimensions open on all and on no image;
    `images_closed`, the share of images with every gate closed.
    """
    z = embedding.z.float()
    unit = z / z.norm(dim=1, keepdim=True).clamp_min(1e-12)
    seen = {
        "density": (unit.abs() > ACTIVE).float().mean(),
        "z_std": unit.std(dim=0).mean() * z.shape[1] ** 0.5,
    }
    if embedding.gate is not None:
        is_open = embedding.gate.float() > 0.5
        rate = is_open.float().mean(dim=0)
        seen |= {
            "gate_open": rate.mean(),
            "gate_always": (rate == 1).float().mean(),
            "gate_never": (rate == 0).float().mean(),
            "images_closed": (~is_open).all(dim=1).float().mean(),
        }
    return seen
