import math

import pytest
import torch
from torch import Tensor

from pellucid.metrics import as_published, effective_rank, orthogonality, semantic_entropy
from pellucid.metrics.entropy import Weighting


def sparse(n: int, k: int, rate: float) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    kept = torch.rand(n, k, generator=generator) < rate
    return torch.rand(n, k, generator=generator).add(0.1) * kept


def test_consistency_equals_loops() -> None:
    features, labels = sparse(50, 20, 0.05), torch.randint(4, (50,), generator=torch.Generator())
    features[:, 4] = 0
    shares = []
    for k in range(20):
        own = [
            label
            for z, label in zip(features, labels.tolist(), strict=True)
            if z.norm() > 0 and z[k].abs() / z.norm() > 1e-5
        ]
        if own:
            shares.append(max(own.count(c) for c in range(4)) / len(own))
    assert len(shares) < 20
    got = as_published.semantic_consistency(features, labels)
    assert got == pytest.approx(sum(shares) / len(shares), abs=1e-12)


@pytest.mark.parametrize(("rate", "expected"), [(0.5, 0.11), (0.001, 0.64)])
def test_consistency_rewards_rarity(rate: float, expected: float) -> None:
    """Random features of 2,000 images of ten balanced classes."""
    labels = torch.arange(2000) % 10
    got = as_published.semantic_consistency(sparse(2000, 1024, rate), labels)
    assert got == pytest.approx(expected, abs=0.01)


def test_consistency_edges() -> None:
    labels = torch.arange(20) % 4
    assert math.isnan(as_published.semantic_consistency(torch.zeros(20, 3), labels))
    single = torch.zeros(20, 3)
    single[7, 1] = 1
    assert as_published.semantic_consistency(single, labels) == 1.0
    with pytest.raises(ValueError, match="image 0 has label -1"):
        as_published.semantic_consistency(single, labels - 1)


@pytest.mark.parametrize("weighting", ["mass", "mean", "frequency"])
@pytest.mark.parametrize("scale", [1.0, 3e-6])
def test_entropy_equals_loops(weighting: Weighting, scale: float) -> None:
    features, labels = sparse(60, 20, 0.1) * scale, torch.tensor([0] * 30 + [2] * 20 + [5] * 10)
    features[0, 3] = -1.0  # one class with nearly everything: others fall below the smallest share
    entropies = []
    for k in range(20):
        column = features[:, k].abs()
        if column.sum() <= 1e-5:
            continue
        weights = []
        for c in (0, 2, 5):
            own = column[labels == c]
            if weighting == "frequency":
                weights.append(float((own > 1e-5).sum()))
            elif weighting == "mean":
                weights.append(float(own.sum()) / (len(own) + 1e-5))
            else:
                weights.append(float(own.sum()))
        if sum(weights) < 1e-5:
            continue
        shares = [w / sum(weights) for w in weights]
        entropies.append(-sum(p * math.log(p) for p in shares if p > 1e-5))
    assert entropies
    got = as_published.semantic_entropy(features, labels, weighting)
    assert got == pytest.approx(sum(entropies) / len(entropies), abs=1e-6)


def test_entropy_calls_a_dead_model_the_best() -> None:
    labels = torch.arange(20) % 4
    assert as_published.semantic_entropy(torch.zeros(20, 3), labels) == 0.0
    assert semantic_entropy(torch.zeros(20, 3), labels).nats is None
    features = sparse(20, 3, 0.5)
    assert as_published.semantic_entropy(features, labels) > 0.5
    assert as_published.semantic_entropy(features * 1e-7, labels) == 0.0


def test_entropy_of_unit_rows_is_the_right_one_in_nats() -> None:
    features, labels = sparse(400, 8, 0.5), torch.arange(400) % 4
    unit = torch.nn.functional.normalize(features, dim=1)
    right = semantic_entropy(features, labels, shuffles=0)
    assert as_published.semantic_entropy(unit, labels) == pytest.approx(right.nats, abs=1e-6)


def test_effective_rank_is_the_entropy() -> None:
    features = torch.randn(50, 10, generator=torch.Generator().manual_seed(0))
    singular = torch.linalg.svdvals(features)
    shares = (singular / singular.sum()).tolist()
    expected = -sum(p * math.log(p + 1e-6) for p in shares)
    got = as_published.effective_rank(features)
    assert got == pytest.approx(expected, abs=1e-5)
    assert math.exp(got) == pytest.approx(effective_rank(features), rel=1e-3)
    assert math.isnan(as_published.effective_rank(torch.zeros(5, 3)))


def test_orthogonality_is_divided_twice() -> None:
    features = torch.randn(100, 12, generator=torch.Generator().manual_seed(0))
    features[:, 5] = 0
    right = orthogonality(features).value
    assert right is not None
    assert as_published.orthogonality(features) == pytest.approx(right / 11**2, rel=1e-4)
    assert math.isnan(as_published.orthogonality(features[:, :1]))
    assert math.isnan(as_published.orthogonality(torch.zeros(5, 3)))
