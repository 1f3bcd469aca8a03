import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pellucid.metrics import semantic_entropy
from pellucid.metrics.entropy import Weighting

WEIGHTINGS: tuple[Weighting, ...] = ("mass", "mean", "frequency")


def sparse(n: int, k: int, rate: float, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    kept = torch.rand(n, k, generator=generator) < rate
    return torch.randn(n, k, generator=generator) * kept


def slow(features: Tensor, labels: Tensor, weighting: str, min_support: int) -> tuple[float, int]:
    """Nats and dimensions by loops."""
    rows = [z / z.norm() if z.norm() > 0 else z for z in features.double()]
    entropies = []
    for k in range(features.shape[1]):
        if sum(bool(z[k].abs() > 1e-5) for z in rows) < min_support:
            continue
        weights = []
        for c in sorted(set(labels.tolist())):
            own = [
                abs(z[k].item())
                for z, label in zip(rows, labels.tolist(), strict=True)
                if label == c
            ]
            if weighting == "frequency":
                weights.append(float(sum(a > 1e-5 for a in own)))
            else:
                weights.append(sum(own) / (len(own) if weighting == "mean" else 1))
        shares = [w / sum(weights) for w in weights]
        entropies.append(-sum(p * math.log(p) for p in shares if p > 0))
    return sum(entropies) / len(entropies), len(entropies)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_equals_loops(weighting: Weighting) -> None:
    features = sparse(50, 9, 0.25)
    labels = torch.tensor([0] * 25 + [3] * 15 + [4] * 10)
    got = semantic_entropy(features, labels, weighting=weighting, min_support=12)
    nats, dimensions = slow(features, labels, weighting, 12)
    assert 0 < dimensions < 9
    assert got.dimensions == dimensions
    assert got.nats == pytest.approx(nats, abs=1e-6)
    assert got.normalised == pytest.approx(nats / math.log(3), abs=1e-6)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_flat_and_sharp(weighting: Weighting) -> None:
    labels = torch.arange(100) % 5
    flat = semantic_entropy(torch.ones(100, 3), labels, weighting=weighting)
    assert flat.nats == pytest.approx(math.log(5))
    assert flat.normalised == pytest.approx(1.0)
    sharp = semantic_entropy(
        torch.nn.functional.one_hot(labels).float(), labels, weighting=weighting
    )
    assert sharp.nats == 0
    assert sharp.chance is not None
    assert sharp.chance > 1.2
    assert sharp.support == 20


def test_mean_balances_classes_and_mass_does_not() -> None:
    labels = (torch.arange(1000) % 10 == 0).long()
    mean = semantic_entropy(torch.ones(1000, 1), labels, weighting="mean", shuffles=1)
    mass = semantic_entropy(torch.ones(1000, 1), labels, weighting="mass", shuffles=1)
    assert mean.normalised == pytest.approx(1)
    assert mass.nats == pytest.approx(-0.9 * math.log(0.9) - 0.1 * math.log(0.1))


def test_random_features_are_at_chance() -> None:
    features, labels = sparse(2000, 32, 0.02), torch.arange(2000) % 10
    got = semantic_entropy(features, labels, weighting="frequency")
    assert got.nats == pytest.approx(got.chance, abs=0.03)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_invariances(weighting: Weighting) -> None:
    features, labels = sparse(100, 8, 0.4), torch.arange(100) % 5
    plain = semantic_entropy(features, labels, weighting=weighting, shuffles=0)
    assert plain.chance is None
    order = torch.randperm(100, generator=torch.Generator().manual_seed(3))
    for other in (
        (features * torch.logspace(-30, 30, 100)[:, None], labels),
        (features * 1e-7, labels),
        (features[order], labels[order]),
        (features[:, [7, 2, 4, 1, 0, 3, 6, 5]], labels),
        (features.half(), labels),
        (features.double(), labels),
    ):
        got = semantic_entropy(*other, weighting=weighting, shuffles=0)
        assert got.nats == pytest.approx(plain.nats, abs=2e-4)
        assert got[3:] == plain[3:]


def test_dead_and_single_class() -> None:
    dead = semantic_entropy(torch.zeros(50, 4), torch.arange(50) % 5)
    assert dead == (None, None, None, 0, 0)
    one_class = semantic_entropy(torch.ones(50, 4), torch.zeros(50, dtype=torch.long))
    assert (one_class.nats, one_class.normalised, one_class.chance) == (0.0, None, 0.0)


def test_unknown_weighting_is_refused() -> None:
    with pytest.raises((ValueError, TypeError), match="weight"):
        semantic_entropy(torch.ones(4, 2), torch.zeros(4, dtype=torch.long), weighting="max")  # type: ignore[arg-type]  # the point of the test


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_any_input_gives_a_number_in_range_or_none(data: st.DataObject) -> None:
    n, k = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 4))
    number = st.floats(width=32, allow_nan=False, allow_infinity=False)
    rows = st.lists(number, min_size=k, max_size=k)
    features = torch.tensor(data.draw(st.lists(rows, min_size=n, max_size=n)))
    labels = torch.tensor(data.draw(st.lists(st.integers(0, 99), min_size=n, max_size=n)))
    got = semantic_entropy(
        features,
        labels,
        weighting=data.draw(st.sampled_from(WEIGHTINGS)),
        min_support=1,
        shuffles=1,
    )
    if not features.any():
        assert got.nats is None
    else:
        classes = len(set(labels.tolist()))
        assert got.nats is not None
        assert -1e-12 <= got.nats <= math.log(classes) + 1e-9
        assert got.normalised is None or -1e-12 <= got.normalised <= 1 + 1e-9
