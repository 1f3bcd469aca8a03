import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.explore.sample import sample

CLASSES = st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(lambda sizes: sum(sizes) > 0)


def labels_of(sizes, unlabelled=0):
    """Classes of these sizes, shuffled; the class without label is -1."""
    labels = torch.cat(
        [torch.full((m,), c) for c, m in enumerate(sizes)] + [torch.full((unlabelled,), -1)]
    )
    return labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]


@settings(max_examples=100, deadline=None)
@given(CLASSES, st.integers(0, 30), st.data())
def test_distinct_ascending_nested_and_as_many_as_asked(sizes, unlabelled, data):
    labels = labels_of(sizes, unlabelled)
    total = len(labels)
    count = data.draw(st.integers(1, total))
    less = data.draw(st.integers(1, count))
    for of in (labels, None):
        found = sample(of, total, count).tolist()
        assert len(found) == count
        assert found == sorted(set(found))
        assert found[0] >= 0
        assert found[-1] < total
        assert set(sample(of, total, less).tolist()) <= set(found)
        assert sample(of, total, count).tolist() == found


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 9), st.integers(1, 30), st.data())
def test_equal_classes_share_equally(classes, each, data):
    labels = labels_of([each] * classes)
    count = data.draw(st.integers(1, len(labels)))
    found = labels[sample(labels, len(labels), count)].bincount(minlength=classes)
    assert int(found.max() - found.min()) <= 1


@settings(max_examples=100, deadline=None)
@given(CLASSES, st.integers(0, 30), st.data())
def test_each_class_keeps_its_share(sizes, unlabelled, data):
    labels = labels_of(sizes, unlabelled)
    count = data.draw(st.integers(1, len(labels)))
    kept = labels[sample(labels, len(labels), count)]
    for label, size in [*enumerate(sizes), (-1, unlabelled)]:
        share = size * count / len(labels)
        # One image more or less, and what rounding in all classes moves the cut by.
        slack = 1 + size * (len(sizes) + 1) / len(labels)
        assert abs(int((kept == label).sum()) - share) <= slack


def test_rare_classes_are_not_the_first_to_go():
    labels = labels_of([900, *[1] * 100])
    for count in (100, 300, 500, 800):
        kept = labels[sample(labels, 1000, count)]
        rare = int((kept > 0).sum())
        assert abs(rare - count / 10) <= 2


def test_all_when_all_fit():
    for labels in (None, torch.tensor([0, 0, 1])):
        assert sample(labels, 3, 3).tolist() == [0, 1, 2]
        assert sample(labels, 3, 99).tolist() == [0, 1, 2]


def test_it_is_a_random_choice():
    found = sample(None, 10_000, 1_000)
    # Of images in order, means of a thousand lie within 4 x 10000 / sqrt(12 x 1000) of the middle.
    assert abs(found.double().mean().item() - 5_000) < 365
    assert found.diff().unique().numel() > 10
    labels = torch.zeros(10_000, dtype=torch.int64)
    assert abs(sample(labels, 10_000, 1_000).double().mean().item() - 5_000) < 365
