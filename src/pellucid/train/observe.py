"""What is watched while training: how dimensions and gates are used, and what entropy is made."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.distributed import gather
from pellucid.learner import Learner
from pellucid.losses import gaussian_entropy
from pellucid.metrics.activity import ACTIVE
from pellucid.metrics.volume import entropy_gain
from pellucid.types import Embedding, Step, Terms

MEASURED = 4
"""Images of which a transform's entropy gain is estimated while training."""
FLAT, NARROW = 0.02, 1.5
"""A `z_std` below the one or a `z_rank` below the other is a collapse. Untrained nets are near."""
CLOSED, ALIVE = 0.9, 0.05
"""More `images_closed` than the one, or fewer dimensions `alive` than the other, is a failure."""


@torch.no_grad()
def observe(embedding: Embedding) -> dict[str, Tensor]:
    """Use of dimensions and gates in one batch; scalars on the device.

    `density`: share of active entries of z. `alive`: share of dimensions active on any image.
    `z_std`: mean standard deviation of unit rows' columns
    times sqrt(K); 0 when all images have one representation. `z_rank`: exponential of the entropy
    of their normalised singular values (`pellucid.metrics.effective_rank`); 1 then.

    With a gate, where open means a probability above 0.5 whatever the head's threshold:
    `gate_open`, the share of open gates; `gate_always` and `gate_never`, the share of dimensions
    open on all and on no image; `images_closed`, the share of images with every gate closed.
    """
    z = embedding.z.float()
    unit = z / z.norm(dim=1, keepdim=True).clamp_min(1e-12)
    singular = torch.linalg.svdvals(unit.nan_to_num())  # it refuses NaN, which the log names better
    shares = singular / singular.sum().clamp_min(1e-12)
    active = unit.abs() > ACTIVE
    seen = {
        "density": active.float().mean(),
        "alive": active.any(dim=0).float().mean(),
        "z_std": unit.std(dim=0).mean() * z.shape[1] ** 0.5,
        "z_rank": torch.special.entr(shares).sum().exp(),
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


def observe_entropy(
    learner: Learner, query: Float[Tensor, "b 3 h w"], step: Step, generator: torch.Generator
) -> Terms:
    """The entropies that IE-CL is about, in nats; scalars on the device.

    `query_entropy`, `anchor_entropy`: of this batch's projections on all ranks
    (`pellucid.losses.gaussian_entropy`). With a query transform, on the first few query views:
    `entropy_gain` = E log |det J|, and `entropy_gain_scale_free` (`pellucid.metrics.entropy_gain`).

    Args:
        learner: whose query transform.
        query: views before the transform.
        step: what the learner made of them.
        generator: of the estimate's random signs, on the CPU.
    """
    with torch.no_grad():
        seen = {
            "query_entropy": gaussian_entropy(gather(step.query.u)),
            "anchor_entropy": gaussian_entropy(gather(step.anchor.u)),
        }
    few = query[:MEASURED].float()
    if learner.query_transform(few)[0] is few:
        return seen
    gain = entropy_gain(lambda x: learner.query_transform(x)[0], few, generator)
    return seen | {"entropy_gain": gain.total, "entropy_gain_scale_free": gain.scale_free}


def alarms(values: Mapping[str, float | int]) -> list[str]:
    """What to tell a user whose representation fails, by the values of `observe`.

    Each begins with the kind of failure and a colon.
    """
    told = []
    if values.get("images_closed", 0) > CLOSED:
        told.append(
            f"the gates are closed: {values['images_closed']:.0%} of images have no open gate, so "
            "their representation is zero; lower weights.gate_kl or the gate's lr_of, or raise "
            "head.prior"
        )
    elif values.get("alive", 1) < ALIVE:
        told.append(
            f"the dimensions are dead: {values['alive']:.1%} of them are active on any image of a "
            "batch; lower the learning rate, or take a head that is active on more (head.k, "
            "head.prior, head.activation)"
        )
    if values.get("z_std", FLAT) < FLAT or values.get("z_rank", NARROW) < NARROW:
        told.append(
            f"the representation has collapsed: z_std {values['z_std']:.2g} (0 when all images "
            f"have one representation), z_rank {values['z_rank']:.3g} of a batch; lower the "
            "learning rate, or, with a slow copy, raise its momentum"
        )
    return told
