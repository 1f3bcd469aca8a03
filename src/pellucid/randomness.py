"""Random draws as functions of what they are for, never of what was drawn before."""

import hashlib

import torch


def seeded(seed: int, *purpose: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator whose stream depends on the seed and the purpose alone.

    `seeded(0, "views", 17)` gives the draws of step 17 whether or not steps 0 to 16 were run, so
    a resumed run and a run on two processes see the same views.
    """
    digest = hashlib.blake2b(repr((seed, *purpose)).encode(), digest_size=8).digest()
    number = int.from_bytes(digest, "little") >> 1  # a generator takes 63 bits
    return torch.Generator(device=device).manual_seed(number)


def seed_noise(seed: int, *purpose: int | str) -> None:
    """Set torch's default generators, which layers and gates draw from, for this purpose."""
    torch.manual_seed(seeded(seed, *purpose).initial_seed())
