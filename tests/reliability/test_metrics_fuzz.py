"""Whatever finite features and labels a metric is given: a number in its range, none with a
reason, or a refusal in words."""

import math
import os

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pellucid import metrics
from pellucid.metrics import as_published

EXAMPLES = 2000 if os.environ.get("PELLUCID_SOAK") else 40
TINY, HUGE = 1e-38, 1e38
KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
COUNTED = {}
"""Of each metric how many inputs gave a value, gave none, and were refused."""

fuzzed = settings(
    derandomize=True,
    deadline=None,
    max_examples=EXAMPLES,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def sizes(least=0):
    return st.one_of(st.integers(least, 3), *[st.integers(1, 40)] * 3)


@st.composite
def matrices(draw, rows=None, least=0):
    """[N, K] of finite numbers: what training gives, and the extremes of every type."""
    n, k = draw(sizes(least)) if rows is None else rows, draw(sizes(least))
    kind = draw(st.sampled_from(KINDS))
    chance = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    values = torch.randn(n, k, generator=chance, dtype=torch.float64)
    for shape in draw(st.lists(st.sampled_from(SHAPES), max_size=3)):
        values = shape(values, chance)
    for scale in draw(st.lists(st.sampled_from(SCALES), max_size=2)):
        values = values * scale(values, chance)
    largest = torch.finfo(kind).max
    return values.nan_to_num(0.0, largest, -largest).clamp(-largest, largest).to(kind)


def pick(values, chance, choices):
    """One of the choices for every row, column or entry of a shape."""
    return torch.tensor(choices, dtype=torch.float64)[
        torch.randint(len(choices), values, generator=chance)
    ]


SHAPES = (
    lambda x, _: x.abs(),
    lambda x, _: -x.abs(),
    lambda x, _: x.relu(),
    lambda x, _: torch.zeros_like(x),
    lambda x, _: torch.ones_like(x),
    lambda x, _: x[:1].expand_as(x) if len(x) else x,
    lambda x, _: x[:, :1].expand_as(x) if x.shape[1] else x,
    lambda x, g: x * pick(x.shape, g, [0.0, 0.0, 0.0, 1.0]),
    lambda x, g: x * pick((len(x), 1), g, [0.0, 1.0]),
    lambda x, g: x * pick((1, x.shape[1]), g, [0.0, 1.0]),
    lambda x, g: pick(x.shape, g, [0.0, -0.0, 1.0, -1.0, TINY, -TINY, HUGE, -HUGE, 5e-324, 1e-5]),
    lambda x, _: 1 + 1e-9 * x,
)
EACH = [1.0, TINY, 1e-45, 1e-20, 1e20, HUGE, 1.7e308, 1e-300, 1e5, 1e-5]
SCALES = (
    *(lambda x, g, s=s: torch.tensor(s, dtype=torch.float64) for s in EACH),
    lambda x, g: pick((len(x), 1), g, EACH),
    lambda x, g: pick((1, x.shape[1]), g, EACH),
    lambda x, g: pick(x.shape, g, EACH),
)


@st.composite
def labels_for(draw, count):
    """Labels of so many images, right or wrong."""
    chance = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    classes = draw(st.sampled_from([1, 2, 3, 10, 1000, 2**40]))
    labels = torch.randint(classes, (count,), generator=chance)
    how = draw(st.sampled_from(["as they are"] * 24 + ["own", "none", "all none", *WRONG]))
    if how == "own":
        labels = torch.arange(count)
    elif how == "none" and count:
        labels[draw(st.integers(0, count - 1))] = -1
    elif how == "all none":
        labels = torch.full((count,), -1)
    elif how in WRONG:
        labels = WRONG[how](labels)
    return labels


WRONG = {
    "int8": lambda x: (x % 100).to(torch.int8),
    "int32": lambda x: (x % 100).to(torch.int32),
    "uint8": lambda x: (x % 100).to(torch.uint8),
    "bool": lambda x: x > 0,
    "float": lambda x: x.double(),
    "complex": lambda x: x.to(torch.complex64),
    "short": lambda x: x[1:],
    "long": lambda x: torch.cat([x, x[:1]]),
    "columns": lambda x: x[:, None],
    "scalar": lambda x: torch.tensor(0),
}


@st.composite
def features_and_labels(draw):
    features = draw(matrices())
    return features, draw(labels_for(len(features)))


@st.composite
def two_of_the_same_images(draw, least=0):
    first = draw(matrices(least=least))
    other = len(first) if draw(st.integers(0, 9)) else draw(sizes(least))
    return first, draw(matrices(rows=other, least=least))


def outcome(metric, *arguments, **settings):
    """What a metric gives; None where it refuses its input in words."""
    name = metric.__module__.replace("pellucid.metrics", "").strip(".") + f".{metric.__name__}"
    count = COUNTED.setdefault(name, {"value": 0, "none": 0, "refused": 0})
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    right = all(map(fits, tensors)) and len({len(one) for one in tensors}) == 1
    try:
        found = metric(*arguments, **settings)
    except (ValueError, TypeError) as error:
        words = str(error)
    else:
        assert right, "accepted what is unfit"
        first = found[0] if isinstance(found, tuple) else found
        none = first is None or (isinstance(first, float) and math.isnan(first))
        count["none" if none else "value"] += 1
        return found
    assert len(words) > 20
    assert not right or "at must lie in" in words, words
    count["refused"] += 1
    return None


def fits(tensor):
    if tensor.is_floating_point():
        return tensor.ndim == 2 and 0 not in tensor.shape
    right = tensor.dtype in (torch.int64, torch.int32, torch.int8, torch.uint8)
    return right and tensor.ndim == 1 and not bool((tensor < 0).any())


@pytest.fixture(scope="module", autouse=True)
def _count(figure):
    yield
    for name, numbers in sorted(COUNTED.items()):
        figure("inputs of a metric", metric=name, **numbers)


def assert_within(value, low, high):
    assert isinstance(value, float)
    assert low <= value <= high, value


def assert_all_within(values, low, high):
    assert bool(((values >= low) & (values <= high) | values.isnan()).all()), values


@fuzzed
@given(matrices())
def test_shares_of_entries_and_dimensions(x):
    for metric in (metrics.activation_rate, metrics.density):
        value = outcome(metric, x)
        if value is not None:
            assert_within(value, 0, 1)
            assert (value == 0) == bool((x == 0).all())


@fuzzed
@given(matrices(least=1))
def test_unit_rows_and_active_entries(x):
    unit, length = metrics.unit_rows(x), None
    assert bool(unit.isfinite().all())
    length = unit.double().norm(dim=1)
    assert_all_within(length[(x != 0).any(dim=1)], 1 - 1e-6, 1 + 1e-6)
    assert bool((unit[(x == 0).all(dim=1)] == 0).all())
    assert torch.equal(metrics.active_entries(x), unit.abs() > 1e-5)


@fuzzed
@given(matrices())
def test_effective_rank(x):
    value = outcome(metrics.effective_rank, x)
    if 0 not in x.shape:
        assert (value is None) == bool((x == 0).all())
    if value is not None:
        assert_within(value, 1, min(x.shape))
    published = outcome(as_published.effective_rank, x)
    if published is not None and not math.isnan(published):
        # 1e-6 inside of the logarithm takes up to 1e-6 for each of the singular values.
        assert_within(published, -1e-6 * min(x.shape) - 1e-6, math.log(min(x.shape)) + 1e-6)
    if published is not None:
        assert math.isnan(published) == bool((x == 0).all())


@fuzzed
@given(matrices())
def test_orthogonality(x):
    found = outcome(metrics.orthogonality, x)
    if found is not None:
        live = int(metrics.active_entries(x).any(dim=0).sum())
        assert found.dimensions == live
        assert (found.value is None) == (live < 2)
        if found.value is not None:
            assert_within(found.value, 0, 1)
    published = outcome(as_published.orthogonality, x)
    if published is not None:
        columns = int((x != 0).any(dim=0).sum())
        assert math.isnan(published) == (columns < 2)
        if columns > 1:
            assert_within(published, 0, 1 / (columns * columns) + 1e-6)


@fuzzed
@given(features_and_labels(), st.integers(1, 12))
def test_semantic_consistency(given, support):
    x, labels = given
    few = {"shuffles": 2, "resamples": 3}
    found = outcome(metrics.semantic_consistency, x, labels, min_support=support, **few)
    if found is not None:
        assert_scored(found, x, support)
        if found.value is not None:
            assert_within(found.value, 1 / len(labels.unique()) - 1e-12, 1)
            assert_within(found.chance, 0, 1)
            if found.low is not None:
                assert 0 <= found.low <= found.value <= found.high <= 1
    single = outcome(metrics.dimension_consistency, x, labels, shuffles=2)
    if single is not None:
        dead = ~metrics.active_entries(x).any(dim=0)
        assert torch.equal(single.value.isnan(), dead)
        assert torch.equal(single.largest == -1, dead)
        assert torch.equal(single.chance.isnan(), dead)
        assert_all_within(single.value, 0, 1)
        assert set(single.largest[~dead].tolist()) <= set(labels.tolist())
    published = outcome(as_published.semantic_consistency, x, labels)
    if published is not None:
        dead = not metrics.active_entries(x).any()
        assert math.isnan(published) == dead
        if not dead:
            assert_within(published, 0, 1)


def assert_scored(found, x, support):
    """What stands beside a score is right, and there is a value where anything was scored."""
    each = metrics.active_entries(x).sum(dim=0)
    scored = each[each >= support]
    assert found.dimensions == len(scored)
    assert found.support == (int(scored.min()) if len(scored) else 0)
    assert (found[0] is None) == (len(scored) == 0)


@fuzzed
@given(features_and_labels(), st.integers(1, 12), st.sampled_from(["mass", "mean", "frequency"]))
def test_semantic_entropy(given, support, weighting):
    x, labels = given
    few = {"weighting": weighting, "min_support": support, "shuffles": 2}
    found = outcome(metrics.semantic_entropy, x, labels, **few)
    if found is not None:
        assert_scored(found, x, support)
        classes = len(labels.unique())
        if found.nats is not None:
            assert_within(found.nats, 0, math.log(classes) + 1e-12)
            assert_within(found.chance, 0, math.log(classes) + 1e-12)
            assert (found.normalised is None) == (classes == 1)
            if classes > 1:
                assert_within(found.normalised, 0, 1)
    published = outcome(as_published.semantic_entropy, x, labels, weighting)
    if published is not None:
        assert_within(published, 0, math.log(len(labels.unique())) + 1e-12)


@fuzzed
@given(two_of_the_same_images(), st.integers(2, 12))
def test_monosemanticity(given, support):
    x, reference = given
    found = outcome(metrics.monosemanticity, x, reference, min_support=support)
    if found is not None:
        assert_scored(found, x, support)
        each = metrics.active_entries(x).sum(dim=0)
        assert torch.equal(found.per_dimension.isnan(), each < support)
        assert_all_within(found.per_dimension, -1, 1)
        if found.value is not None:
            assert_within(found.value, -1, 1)
            assert_within(found.chance, -1, 1)


@fuzzed
@given(features_and_labels(), st.data())
def test_retrieval(given, data):
    x, labels = given
    most = max(1, len(x) - 1)
    at = tuple(sorted(data.draw(st.sets(st.integers(1, most), min_size=1, max_size=3))))
    found = outcome(metrics.retrieval_precision, x, labels, at=at)
    if found is not None:
        assert found.dimensions == x.shape[1]
        assert_within(found.chance, 0, 1)
        for value in found.precision.values():
            assert_within(value, 0, 1)
    order = outcome(metrics.rank_dimensions, x)
    if order is not None:
        assert sorted(order.tolist()) == list(range(x.shape[1]))


@fuzzed
@given(two_of_the_same_images())
def test_matching(given):
    a, b = given
    found = outcome(metrics.match_dimensions, a, b, permutations=2, rotations=2)
    if found is None:
        return
    live, live_b = (metrics.active_entries(x).any(dim=0) for x in (a, b))
    matched = found.partner >= 0
    assert int(matched.sum()) == min(int(live.sum()), int(live_b.sum()))
    assert not bool((matched & ~live).any())
    assert len(set(found.partner[matched].tolist())) == int(matched.sum())
    assert bool(live_b[found.partner[matched]].all())
    assert torch.equal(found.sign.abs(), matched.long())
    for name in ("cosine", "chance", "agreement"):
        values = getattr(found, name)
        assert torch.equal(values.isnan(), ~matched), name
        assert bool((values[matched] <= 1).all()), name
        assert name == "agreement" or bool((values[matched] >= -1).all()), name
    for levels in (found.permuted, found.rotated):
        assert bool((levels <= 1).logical_or(levels.isnan()).all())
    assert not bool((found.recurs & ~matched).any())


@fuzzed
@given(st.lists(matrices(), max_size=3))
def test_gradient_conflict(batches):
    one_size = [batch for batch in batches if batch.shape[1:] == batches[0].shape[1:]]
    for some in (batches, one_size):
        images = sum(map(len, some))
        try:
            found = metrics.gradient_conflict(some)
        except ValueError as error:
            assert "gradients" in str(error)  # noqa: PT017
            widths = {batch.shape[1] for batch in some}
            assert images < 2 or len(widths) > 1 or "too large" in str(error)  # noqa: PT017
            continue
        assert found.images == images
        assert bool(found.mean.isfinite().all())
        assert bool((found.variance.isfinite() & (found.variance >= 0)).all())
        assert bool(((found.ratio >= 0) | found.ratio.isnan()).all())
        assert torch.equal(found.ratio.isnan(), (found.mean == 0) & (found.variance == 0))


@fuzzed
@given(two_of_the_same_images(), st.sampled_from([0.0, -1.0, math.nan, 0.01, 0.2, 100.0]))
def test_forces(given, temperature):
    a, b = given
    try:
        found = metrics.nt_xent_forces(a, b, temperature)
    except (ValueError, TypeError) as error:
        assert len(str(error)) > 20  # noqa: PT017
        kind = torch.promote_types(a.dtype, torch.float32)
        square = torch.cat([a, b]).to(kind).square() if a.shape == b.shape else torch.tensor(0)
        huge = not square.sum().isfinite()
        assert huge or not temperature > 0 or a.shape != b.shape or 0 in a.shape
        return
    for part in found:
        assert part.shape == (2 * len(a), a.shape[1])
        assert bool(part.isfinite().all())


@fuzzed
@given(st.integers(1, 4), st.integers(0, 2**31), st.sampled_from([0.0, 1e-30, 1.0, 1e15]))
def test_volumes(side, seed, scale):
    chance = torch.Generator().manual_seed(seed)
    size = 3 * side * side
    matrix = scale * torch.randn(size, size, generator=chance)
    images = torch.randn(2, 3, side, side, generator=chance)

    def linear(x):
        return (x.flatten(1) @ matrix).view_as(x)

    volume = metrics.feature_volume(lambda x: linear(x).flatten(1), images)
    assert_within(volume.rank, 0, size)
    assert math.isfinite(volume.log_volume)
    exact = metrics.log_abs_det(linear, images)
    expected = torch.linalg.slogdet(matrix.double()).logabsdet
    assert torch.equal(exact.isinf(), torch.full((2,), scale == 0))
    if scale:
        assert torch.allclose(exact, expected.expand(2), rtol=1e-5, atol=1e-4 * size)
        estimate = metrics.estimate_log_abs_det(linear, images, chance)
        assert bool(estimate.isfinite().all())


def flat(found):
    """The numbers of a score, for comparison."""
    if isinstance(found, dict):
        found = tuple(found.values())
    if isinstance(found, tuple):
        return [number for part in found for number in flat(part)]
    return found.flatten().tolist() if isinstance(found, torch.Tensor) else [found]


def of_labels(metric, **settings):
    return lambda x, labels: metric(x, labels, **settings)


WITHOUT_SCALE = {
    "activation_rate": lambda x, _: metrics.activation_rate(x),
    "density": lambda x, _: metrics.density(x),
    "effective_rank": lambda x, _: metrics.effective_rank(x),
    "orthogonality": lambda x, _: metrics.orthogonality(x),
    "rank_dimensions": lambda x, _: metrics.rank_dimensions(x),
    "monosemanticity": lambda x, _: metrics.monosemanticity(x, x, min_support=2),
    "matching": lambda x, _: metrics.match_dimensions(x, x.flip(1), permutations=1, rotations=1),
    "consistency": of_labels(metrics.semantic_consistency, min_support=2),
    "entropy": of_labels(metrics.semantic_entropy, min_support=2),
    "retrieval": of_labels(metrics.retrieval_precision, at=(1, 3)),
    "published consistency": of_labels(as_published.semantic_consistency),
    "published rank": lambda x, _: as_published.effective_rank(x),
    "published orthogonality": lambda x, _: as_published.orthogonality(x),
}


@pytest.mark.parametrize("name", WITHOUT_SCALE)
@pytest.mark.parametrize(
    ("kind", "powers"), [(torch.float32, (-110, 125)), (torch.float64, (-1000, 1021))]
)
def test_numbers_of_any_size_score_as_ordinary_ones(name, kind, powers, tries):
    for seed in range(tries(1, 50)):
        chance = torch.Generator().manual_seed(seed)
        x = torch.randn(24, 6, generator=chance, dtype=kind).relu().clamp(max=3.5)
        labels = torch.randint(3, (24,), generator=chance)
        expected = flat(WITHOUT_SCALE[name](x, labels))
        for power in powers:
            scaled = torch.ldexp(x, torch.tensor(power))
            assert scaled.isfinite().all()
            found = flat(WITHOUT_SCALE[name](scaled, labels))
            assert found == pytest.approx(expected, rel=1e-5, abs=1e-6, nan_ok=True)


def test_the_published_entropy_of_numbers_whose_sums_overflow():
    chance = torch.Generator().manual_seed(0)
    x = torch.rand(30, 5, generator=chance, dtype=torch.float64) + 0.1
    labels = torch.randint(3, (30,), generator=chance)
    for weighting in ("mass", "mean"):
        expected = as_published.semantic_entropy(x, labels, weighting)
        assert 0 < expected < math.log(3)
        huge = as_published.semantic_entropy(x * 1.6e308, labels, weighting)
        assert huge == pytest.approx(expected, rel=1e-6)
