"""Batch norm over random groups of a batch."""

import pytest
import torch
from torch import nn

from pellucid.nets import ShuffledGroups


def images(count, seed=0):
    return torch.randn(count, 3, 4, 4, generator=torch.Generator().manual_seed(seed))


def normed():
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(48, affine=False))


def partners(features):
    """Of each row the rows that cancel it: in a group of two, batch norm makes opposites."""
    sums = (features[:, None] + features).abs().amax(dim=2)
    return [[int(j) for j in (row < 1e-3).nonzero()] for row in sums]


class Seeing(nn.Module):
    """Keeps the sizes of the batches it is given."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def forward(self, images):
        self.sizes.append(len(images))
        return images.flatten(1)


def test_an_image_shares_its_statistics_with_a_random_part_of_the_batch():
    x = images(8)
    assert partners(normed()(x)) == [[]] * 8  # the plain encoder: statistics of all eight
    shuffled, found = ShuffledGroups(normed(), 4), []
    for seed in range(3):
        torch.manual_seed(seed)
        found.append(partners(shuffled(x)))
        assert all(len(row) == 1 for row in found[-1])
        assert all(found[-1][j] == [i] for i, [j] in enumerate(found[-1]))
    assert found[0] != found[1] != found[2] != found[0]


def test_without_batch_norm_nothing_changes_and_the_order_is_kept():
    x = images(11)
    assert torch.equal(ShuffledGroups(nn.Flatten(), 4)(x), x.flatten(1))
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(48, 5), nn.ReLU())
    torch.testing.assert_close(ShuffledGroups(encoder, 4)(x), encoder(x))


def test_in_evaluation_it_is_the_encoder():
    encoder = normed()
    shuffled = ShuffledGroups(encoder, 4)
    shuffled(images(8, seed=1))
    shuffled.eval()
    state = torch.get_rng_state()
    assert torch.equal(shuffled(images(8)), encoder(images(8)))
    assert torch.equal(state, torch.get_rng_state())


def test_one_group_is_the_encoder():
    x = images(8)
    assert torch.equal(ShuffledGroups(normed(), 1)(x), normed()(x))


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 64])
def test_it_draws_one_number_whatever_the_batch(count, groups):
    torch.manual_seed(0)
    torch.randint(2**62, ())
    state = torch.get_rng_state()
    torch.manual_seed(0)
    ShuffledGroups(nn.Flatten(), groups)(images(count))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(1, [1]), (2, [2]), (3, [3]), (4, [2, 2]), (5, [3, 2]), (7, [3, 2, 2]), (10, [3, 3, 2, 2])],
)
def test_groups_are_even_and_have_at_least_two_images(count, sizes):
    seeing = Seeing()
    ShuffledGroups(seeing, 4)(images(count))
    assert seeing.sizes == sizes


@pytest.mark.parametrize("groups", [0, -1])
def test_no_group_is_refused(groups):
    with pytest.raises(ValueError, match=f"at least 1 group, got {groups}"):
        ShuffledGroups(nn.Flatten(), groups)
