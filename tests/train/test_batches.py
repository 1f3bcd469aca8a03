"""Order and views are functions of the seed, the step and the place in the global batch."""

import pytest
import torch

from pellucid.data.views import ViewSettings
from pellucid.train import batches
from pellucid.train.batches import TwoViews, epoch_batches, epoch_order, own_rows

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)


def as_rank(monkeypatch, rank, world):
    monkeypatch.setattr(batches, "rank", lambda: rank)
    monkeypatch.setattr(batches, "world_size", lambda: world)


def test_an_epoch_is_a_permutation_of_the_seed_and_the_epoch():
    order = epoch_order(50, 3, 7)
    assert sorted(order.tolist()) == list(range(50))
    assert torch.equal(order, epoch_order(50, 3, 7))
    others = [epoch_order(50, 3, 8), epoch_order(50, 4, 7), torch.arange(50)]
    assert not any(torch.equal(order, other) for other in others)


def test_each_image_is_seen_once_and_the_short_last_batch_is_left_out():
    seen = torch.cat([batch.indices for batch in epoch_batches(21, 4, 2, 0, 0, 0)])
    assert len(seen) == 20
    assert len(set(seen.tolist())) == 20
    assert torch.equal(seen, epoch_order(21, 0, 0)[:20])


@pytest.mark.parametrize("skip", [0, 1, 3, 5])
def test_a_resumed_epoch_goes_on_where_it_was(skip):
    whole, rest = (epoch_batches(21, 4, 2, 0, 5, s) for s in (0, skip))
    assert len(rest) == len(whole) - 2 * skip
    for a, b in zip(whole[2 * skip :], rest, strict=True):
        assert torch.equal(a.indices, b.indices)
        assert a[1:] == b[1:]
    assert [batch.step for batch in whole] == [25, 25, 26, 26, 27, 27, 28, 28, 29, 29]


@pytest.mark.parametrize(("world", "accumulate"), [(1, 1), (1, 4), (2, 1), (2, 2), (4, 2)])
def test_ranks_and_micro_steps_share_out_the_global_batch(monkeypatch, world, accumulate):
    rows, images = [], []
    alone = epoch_batches(16, 16, 1, 0, 0, 0)[0].indices
    for micro in range(accumulate):
        for rank in range(world):
            as_rank(monkeypatch, rank, world)
            own = own_rows(16, accumulate, micro)
            rows += range(16)[own]
            batch = epoch_batches(16, 16, accumulate, 0, 0, 0)[micro]
            assert batch.rows == own
            images += batch.indices.tolist()
    assert rows == list(range(16))
    assert images == alone.tolist()


@pytest.fixture
def images():
    return torch.randint(0, 256, (8, 3, 12, 12), dtype=torch.uint8)


@pytest.fixture
def views():
    return TwoViews(ViewSettings(size=8), MEAN, STD, seed=5, batch=8)


def test_views_depend_on_the_step_and_the_side(images, views):
    query, key = views(images, 3, slice(0, 8))
    again = TwoViews(ViewSettings(size=8), MEAN, STD, seed=5, batch=8)(images, 3, slice(0, 8))
    assert torch.equal(query, again[0])
    assert torch.equal(key, again[1])
    assert query.shape == key.shape == (8, 3, 8, 8)
    later, other = views(images, 4, slice(0, 8))[0], TwoViews(ViewSettings(size=8), MEAN, STD, 6, 8)
    for different in (key, later, other(images, 3, slice(0, 8))[0]):
        assert not torch.equal(query, different)


@pytest.mark.parametrize("share", [1, 2, 4])
def test_any_share_of_the_batch_has_the_views_of_the_whole(images, views, share):
    whole = views(images, 3, slice(0, 8))
    for first in range(0, 8, share):
        rows = slice(first, first + share)
        for side, part in zip(whole, views(images[rows], 3, rows), strict=True):
            torch.testing.assert_close(part, side[rows], atol=1e-5, rtol=1e-5)


def test_the_default_generator_has_no_say(images, views):
    torch.manual_seed(0)
    first = views(images, 0, slice(0, 8))[0]
    torch.manual_seed(1)
    assert torch.equal(views(images, 0, slice(0, 8))[0], first)


def test_views_are_normalised_by_channel():
    plain = ViewSettings(
        size=12, crop=(1.0, 1.0), ratio=(1.0, 1.0), flip=0.0, jitter=0.0, grey=0.0, blur=0.0
    )
    images = torch.randint(0, 256, (4, 3, 12, 12), dtype=torch.uint8)
    query, key = TwoViews(plain, MEAN, STD, seed=0, batch=4)(images, 0, slice(0, 4))
    for channel in range(3):
        expected = (images[:, channel] / 255 - MEAN[channel]) / STD[channel]
        torch.testing.assert_close(query[:, channel], expected, atol=1e-4, rtol=0)
        torch.testing.assert_close(key[:, channel], expected, atol=1e-4, rtol=0)
