"""The ring of keys."""

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load, save

from pellucid.nets import KeyQueue


def keys(*numbers):
    """Keys of length 1 that can be told apart: the angle is a hundredth of their number."""
    angles = torch.tensor(numbers) / 100
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def numbers(queue):
    rows = queue.keys()
    return [round(100 * torch.atan2(y, x).item()) for x, y in rows]


def filled(size, *counts):
    queue, first = KeyQueue(size, 2), 0
    for count in counts:
        queue.put(keys(*range(first, first + count)))
        first += count
    return queue


def test_it_starts_empty_and_gives_out_only_what_was_put_in():
    queue = KeyQueue(10, 2)
    assert (len(queue), queue.keys().shape) == (0, (0, 2))
    queue.put(keys(1, 2, 3))
    assert (len(queue), numbers(queue)) == (3, [1, 2, 3])


def test_it_wraps_whatever_the_batch_size():
    queue = filled(10, 4, 4, 4, 2)
    assert numbers(queue) == [10, 11, 12, 13, 4, 5, 6, 7, 8, 9]  # the next place is 14 % 10
    queue.put(keys(14))
    assert numbers(queue) == [10, 11, 12, 13, 14, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 7, 10, 11, 23])
@pytest.mark.parametrize("size", [1, 4, 10])
def test_the_newest_stay(size, batch):
    kept = []
    queue = KeyQueue(size, 2)
    for first in range(0, 4 * batch, batch):
        new = list(range(first, first + batch))
        queue.put(keys(*new))
        kept = [*kept, *new][-size:]
        assert sorted(numbers(queue)) == kept
        assert len(queue) == len(kept)


def test_a_batch_longer_than_the_queue_leaves_its_last_at_the_places_that_are_next():
    queue = filled(3, 2, 8)
    assert numbers(queue) == [9, 7, 8]


def test_rows_are_of_length_1_and_a_zero_row_stays_zero():
    queue = KeyQueue(8, 5)
    torch.manual_seed(0)
    put = 7 * torch.randn(4, 5)
    put[2] = 0
    queue.put(put)
    torch.testing.assert_close(queue.keys(), F.normalize(put))
    assert not queue.keys()[2].any()


def test_keys_in_half_precision_are_kept_in_fp32_and_without_a_gradient():
    queue = KeyQueue(8, 5)
    queue.put(torch.ones(2, 5, dtype=torch.bfloat16, requires_grad=True))
    assert queue.keys().dtype == torch.float32
    torch.testing.assert_close(queue.keys(), torch.full((2, 5), 5**-0.5))
    assert not queue.keys().requires_grad


@pytest.mark.parametrize("counts", [(), (3,), (4, 4, 4)])
def test_a_queue_that_was_saved_goes_on_as_if_nothing_had_happened(counts):
    queue, fresh = filled(10, *counts), KeyQueue(10, 2)
    fresh.load_state_dict(load(save(queue.state_dict())))
    for one in (queue, fresh):
        one.put(keys(50, 51, 52))
    assert numbers(fresh) == numbers(queue)
    assert fresh.seen == queue.seen == sum(counts) + 3


def test_two_queues_do_not_touch_each_other():
    small, large = KeyQueue(2, 2), KeyQueue(5, 3)
    large.put(torch.eye(3))
    small.put(keys(1, 2, 3))
    assert numbers(small) == [3, 2]
    torch.testing.assert_close(large.keys(), torch.eye(3))


@pytest.mark.parametrize(("size", "dimensions"), [(0, 4), (-1, 4), (4, 0)])
def test_a_queue_of_nothing_is_refused(size, dimensions):
    with pytest.raises(ValueError, match=f"a queue needs sizes .* got {size} x {dimensions}"):
        KeyQueue(size, dimensions)
