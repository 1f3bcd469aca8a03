"""Draws are functions of the seed and the purpose."""

import torch

from pellucid.randomness import seed_noise, seeded


def draws(*purpose):
    return torch.rand(8, generator=seeded(*purpose))


def test_the_same_purpose_gives_the_same_draws_whatever_was_drawn_before():
    first = draws(0, "views", 17)
    torch.rand(100)
    draws(0, "views", 16)
    assert torch.equal(draws(0, "views", 17), first)


def test_any_other_seed_or_purpose_gives_other_draws():
    purposes = [
        (0,),
        (1,),
        (0, 1),
        (0, "1"),
        (0, "views", 1),
        (0, "views", 2),
        (0, 1, 11),
        (0, 11, 1),
    ]
    seen = [tuple(draws(*purpose).tolist()) for purpose in purposes]
    assert len(set(seen)) == len(purposes)


def test_a_stream_is_the_one_of_its_seed_on_every_machine():
    # A value written down here would change if the digest did: no run could then be resumed.
    assert seeded(0, "order", 3).initial_seed() == 8244215730568551301


def test_seeded_leaves_the_default_generator_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    seeded(0, "order", 0)
    assert torch.equal(torch.rand(3), expected)


def test_noise_of_layers_is_a_function_of_the_purpose():
    seed_noise(0, 7, 1)
    first = torch.rand(4)
    torch.rand(9)
    seed_noise(0, 7, 1)
    assert torch.equal(torch.rand(4), first)
    seed_noise(0, 7, 2)
    assert not torch.equal(torch.rand(4), first)
