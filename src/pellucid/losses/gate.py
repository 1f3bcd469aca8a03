"""What it costs a gate to be open or shut."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def bernoulli_kl(logits: Float[Tensor, "b k"], prior: float) -> Float[Tensor, ""]:
    """KL(Bern(sigmoid(logits)) || Bern(prior)) in nats, summed over K, averaged over images.

    The derivative by a logit l with a = sigmoid(l) is a (1 - a) (l - log(prior / (1 - prior))) / B
    everywhere: nothing is clamped, so a gate that is nearly shut still feels the prior.

    Source: the sparsity term of BayesNCL (arXiv 2605.28441).

    Raises:
        ValueError: the prior is not strictly between 0 and 1, or there is no image.
    """
    if not 0 < prior < 1:
        raise ValueError(f"prior must be strictly between 0 and 1, got {prior}")
    if len(logits) < 1:
        raise ValueError("the KL of gates is a mean over images, got an empty batch")
    with torch.autocast(logits.device.type, enabled=False):
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        log_odds = logits - (math.log(prior) - math.log1p(-prior))
        if_open = F.logsigmoid(logits) - math.log(prior)
        if_shut = F.logsigmoid(-logits) - math.log1p(-prior)
        # a * if_open + (1 - a) * if_shut, written with whichever of a and 1 - a is the smaller:
        # the other rounds to 1, and its derivative to 0.
        shut_side = if_shut + torch.sigmoid(logits) * log_odds
        open_side = if_open - torch.sigmoid(-logits) * log_odds
        kl = torch.where(logits < 0, shut_side, open_side)
        return kl.sum(dim=1).mean()
