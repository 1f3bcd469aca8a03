import math
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pellucid.metrics import monosemanticity


def random_pair(n: int = 40, k: int = 6, f: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    kept = torch.rand(n, k, generator=generator) < 0.4
    return torch.randn(n, k, generator=generator) * kept, torch.randn(n, f, generator=generator)


def slow(features: Tensor, reference: Tensor, k: int) -> float:
    """The weighted mean over pairs of different images, pair by pair."""
    above = below = 0.0
    rows = [z / z.norm() if z.norm() > 0 else z for z in features.double()]
    for i in range(len(rows)):
        for j in range(len(rows)):
            if i != j:
                a, b = reference[i].double(), reference[j].double()
                product = abs(rows[i][k].item()) * abs(rows[j][k].item())
                above += product * float(a @ b) / float(a.norm() * b.norm())
                below += product
    return above / below


def test_equals_pairs() -> None:
    features, reference = random_pair()
    features[:, 3] = 0
    features[:4, 3] = 1  # too rare to score
    got = monosemanticity(features, reference)
    assert got.per_dimension[3].isnan()
    scored = [k for k in range(6) if k != 3]
    expected = [slow(features, reference, k) for k in scored]
    assert got.per_dimension[scored].tolist() == pytest.approx(expected, abs=1e-6)
    assert got.value == pytest.approx(sum(expected) / 5, abs=1e-6)
    assert got.dimensions == 5
    assert got.support == int((features[:, scored].abs() > 1e-5).sum(0).min())


def test_chance_is_the_average_over_permutations() -> None:
    features, reference = random_pair(n=60)
    reference = reference + 0.8  # so that the level is not zero
    levels = torch.stack(
        [
            monosemanticity(
                features,
                reference[torch.randperm(60, generator=torch.Generator().manual_seed(seed))],
            ).per_dimension
            for seed in range(200)
        ]
    )
    chance = monosemanticity(features, reference).chance
    assert chance is not None
    assert chance > 0.2
    torch.testing.assert_close(
        levels.mean(dim=0), torch.full((6,), chance, dtype=torch.float64), atol=0.015, rtol=0
    )


def test_alike_images_score_one_and_opposite_sides_count_as_one_concept() -> None:
    features = torch.zeros(40, 2)
    features[:20, 0] = 1
    features[20:, 1] = 1
    reference = torch.eye(2).repeat_interleave(20, dim=0)
    got = monosemanticity(features, reference)
    assert got.per_dimension.tolist() == pytest.approx([1, 1])
    assert got.chance == pytest.approx(2 * 20 * 19 / (40 * 39))
    both_sides = torch.cat([torch.ones(20, 1), -torch.ones(20, 1)])
    mixed = monosemanticity(both_sides, torch.cat([torch.ones(20, 1), -torch.ones(20, 1)]))
    assert mixed.value == pytest.approx(-1 / 39)


def test_invariances(monkeypatch: pytest.MonkeyPatch) -> None:
    features, reference = random_pair()
    plain = monosemanticity(features, reference)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(3))
    scale = torch.logspace(-20, 20, 40)[:, None]
    for other in (
        (features * scale, reference * scale.flip(0)),
        (features[order], reference[order]),
        (-features, reference),
        (features.double(), reference.double()),
    ):
        got = monosemanticity(*other)
        assert got.value == pytest.approx(plain.value, abs=1e-6)
        assert got.chance == pytest.approx(plain.chance, abs=1e-6)
    half = monosemanticity(features.bfloat16(), reference.half())
    assert half.value == pytest.approx(plain.value, abs=5e-3)
    monkeypatch.setattr(sys.modules[monosemanticity.__module__], "ROWS", 7)
    assert monosemanticity(features, reference).value == pytest.approx(plain.value, abs=1e-12)


def test_dead_one_image_and_zero_reference_rows() -> None:
    dead = monosemanticity(torch.zeros(20, 3), torch.ones(20, 2))
    assert dead[:4] == (None, None, 0, 0)
    assert dead.per_dimension.isnan().all()
    assert monosemanticity(torch.ones(1, 3), torch.ones(1, 2)).value is None
    reference = torch.zeros(20, 2)
    reference[:10, 0] = 1
    got = monosemanticity(torch.ones(20, 1), reference)
    assert got.value == pytest.approx(10 * 9 / (20 * 19))
    assert got.value == pytest.approx(got.chance)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="min_support must be at least 2"):
        monosemanticity(torch.ones(4, 2), torch.ones(4, 2), min_support=1)
    with pytest.raises((ValueError, TypeError)):
        monosemanticity(torch.ones(4, 2), torch.ones(5, 2))
    with pytest.raises(ValueError, match="reference must be finite: image 1"):
        monosemanticity(torch.ones(2, 2), torch.tensor([[1.0], [math.nan]]))


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_any_input_gives_a_cosine_or_none(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 7))
    number = st.floats(width=32, allow_nan=False, allow_infinity=False)
    rows = st.lists(number, min_size=3, max_size=3)
    features, reference = (
        torch.tensor(data.draw(st.lists(rows, min_size=n, max_size=n))) for _ in range(2)
    )
    got = monosemanticity(features, reference, min_support=2)
    if got.value is None:
        assert got.dimensions == 0
    else:
        scored = got.per_dimension[~got.per_dimension.isnan()]
        assert len(scored) == got.dimensions
        assert (scored.abs() <= 1 + 1e-6).all()
