"""Optimisers with the papers' exclusions, and learning rates of parts by parameter prefix."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from timm.optim.lars import Lars
from torch import nn
from torch.optim import Optimizer


def parameter_groups(
    module: nn.Module, lr: float, weight_decay: float, lr_of: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Every trainable parameter in exactly one group of (learning rate, decayed or not).

    Vectors (biases, norms) have no weight decay and no trust ratio, as in the papers' code.

    Args:
        module: whose parameters to sort.
        lr: the peak learning rate.
        weight_decay: of matrices and kernels.
        lr_of: peak learning rates of parts by parameter prefix; the longest match holds.

    Raises:
        ValueError: a prefix matches no parameter.
    """
    named = {name: p for name, p in module.named_parameters() if p.requires_grad}
    unmatched = dict(lr_of)
    groups: dict[tuple[float, bool], dict[str, Any]] = {}
    for name, parameter in named.items():
        prefixes = [p for p in lr_of if name == p or name.startswith(f"{p}.")]
        for prefix in prefixes:
            unmatched.pop(prefix, None)
        rate = lr_of[max(prefixes, key=len)] if prefixes else lr
        decayed = parameter.ndim > 1
        group = groups.setdefault(
            (rate, decayed),
            {
                "params": [],
                "names": [],
                "title": _title(rate, decayed, lr_of),
                "lr": rate,
                "peak_lr": rate,
                "weight_decay": weight_decay if decayed else 0.0,
                "always_adapt": decayed,  # LARS: the trust ratio, also without weight decay
            },
        )
        group["params"].append(parameter)
        group["names"].append(name)
    if unmatched:
        parts = sorted({name.rsplit(".", 1)[0] for name in named})
        raise ValueError(
            f"lr_of.{min(unmatched)} matches no parameter; "
            f"prefixes here are those of {', '.join(parts)}"
        )
    return list(groups.values())


def _title(rate: float, decayed: bool, lr_of: Mapping[str, float]) -> str:
    """What to call a group in a message: by the parts that have its rate, and its kind."""
    parts = " and ".join(prefix for prefix, own in lr_of.items() if own == rate)
    return f"the {'weights' if decayed else 'biases and norms'} of {parts or 'all other parts'}"


Groups = list[dict[str, Any]]


def lars(groups: Groups, *, momentum: float = 0.9, trust: float = 0.02) -> Optimizer:
    """LARS (arXiv 1708.03888) with the clipped trust ratio of the papers' code.

    Args:
        groups: of `parameter_groups`.
        momentum: of the update.
        trust: eta; a matrix' step is min(eta |w| / (|g| + decay |w|), lr) along its gradient.
    """
    _check_share("momentum", momentum)
    if not trust > 0:
        raise ValueError(f"trust must be above 0, got {trust}")
    return Lars(groups, momentum=momentum, trust_coeff=trust, trust_clip=True)


def sgd(groups: Groups, *, momentum: float = 0.9, nesterov: bool = False) -> Optimizer:
    """Stochastic gradient descent.

    Args:
        groups: of `parameter_groups`.
        momentum: of the update.
        nesterov: Nesterov's form of the momentum.
    """
    _check_share("momentum", momentum)
    if nesterov and momentum == 0:
        raise ValueError("nesterov needs a momentum above 0")
    return torch.optim.SGD(groups, lr=0.0, momentum=momentum, nesterov=nesterov)


def adamw(groups: Groups, *, beta1: float = 0.9, beta2: float = 0.999) -> Optimizer:
    """AdamW (arXiv 1711.05101). Its learning rates are some hundred times smaller than LARS'.

    Args:
        groups: of `parameter_groups`.
        beta1: decay of the first moment.
        beta2: decay of the second moment.
    """
    _check_share("beta1", beta1)
    _check_share("beta2", beta2)
    return torch.optim.AdamW(groups, lr=0.0, betas=(beta1, beta2))


def _check_share(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise ValueError(f"{name} must be at least 0 and below 1, got {value}")


OPTIMISERS: dict[str, Callable[..., Optimizer]] = {"lars": lars, "sgd": sgd, "adamw": adamw}


def set_rates(optimiser: Optimizer, factor: float) -> None:
    """Set every group's learning rate to this share of its peak."""
    for group in optimiser.param_groups:
        group["lr"] = group["peak_lr"] * factor
