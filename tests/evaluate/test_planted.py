import json
import math

import pytest
import torch
from scipy import stats

from pellucid.evaluate.extract import Features
from pellucid.evaluate.planted import PI_EDGES, bound, planted_scores, spearman

NAMES = ("sky", "roof", "petal")


def world(images=3000, seed=0):
    """Objects (4) and backgrounds (3, unequal) drawn apart from each other."""
    rng = torch.Generator().manual_seed(seed)
    objects = torch.randint(4, (images,), generator=rng)
    backgrounds = torch.multinomial(torch.tensor([0.6, 0.3, 0.1]), images, True, generator=rng)
    return objects, backgrounds


def features(ungated, gate=None, threshold=0.5):
    z = ungated if gate is None else ungated * (gate > threshold)
    return Features(h=ungated, u=ungated, z=z, gate=gate, ungated=ungated, labels=None)


def planted_columns(objects, backgrounds, seed=1):
    """Two columns an object, three a background, two of noise."""
    rng = torch.Generator().manual_seed(seed)
    columns = [(objects == k).float() for k in (0, 1, 2, 3) for _ in range(2)]
    columns += [(backgrounds == b).float() for b in range(3) for _ in range(3)]
    columns += [(torch.rand(len(objects), generator=rng) < 0.4).float() for _ in range(2)]
    strength = 0.5 + torch.rand(len(objects), len(columns), generator=rng)
    return torch.stack(columns, dim=1) * strength


def test_spearman_equals_scipy_with_ties_and_without():
    rng = torch.Generator().manual_seed(0)
    for levels in (2, 5, 1000):
        a = torch.randint(levels, (60,), generator=rng).double()
        b = (a + torch.randint(levels, (60,), generator=rng)).double()
        expected = stats.spearmanr(a.numpy(), b.numpy()).statistic
        assert spearman(a, b) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("a", [[1.0, 1.0, 1.0], [1.0, 2.0], []])
def test_spearman_says_nothing_of_what_does_not_vary(a):
    a = torch.tensor(a, dtype=torch.float64)
    assert spearman(a, torch.arange(float(len(a)), dtype=torch.float64)) is None


def test_each_dimension_answers_to_what_was_planted():
    objects, backgrounds = world()
    answers = bound(planted_columns(objects, backgrounds), objects, backgrounds)
    assert answers.object.tolist() == [True] * 8 + [False] * 11
    assert answers.background.tolist() == [-1] * 8 + [0, 0, 0, 1, 1, 1, 2, 2, 2] + [-1] * 2


def test_a_common_background_does_not_claim_what_has_no_preference():
    objects = torch.arange(1000) % 4
    backgrounds = (torch.arange(1000) % 10 == 0).long()  # nine in ten images show background 0
    answers = bound(torch.ones(1000, 1), objects, backgrounds)
    assert answers.background.tolist() == [-1]
    assert answers.object.tolist() == [False]


def test_gate_rates_equal_a_slow_loop():
    objects, backgrounds = world(400)
    ungated = planted_columns(objects, backgrounds)
    gate = torch.rand(ungated.shape, generator=torch.Generator().manual_seed(2))
    scores = planted_scores(features(ungated, gate), objects, backgrounds, NAMES, 0.8, 3e-5)
    pi, rate, rate_active = [], [], []
    for k in range(ungated.shape[1]):
        active = [i for i in range(400) if ungated[i, k] > 0]
        pi.append(len(active) / 400)
        rate.append(sum(float(gate[i, k] > 0.5) for i in range(400)) / 400)
        rate_active.append(sum(float(gate[i, k] > 0.5) for i in active) / len(active))
    for found, slow in (("open_rate", rate), ("open_rate_active", rate_active)):
        assert scores["gate"][found]["mean"] == pytest.approx(sum(slow) / len(slow))
        assert scores["gate"][found]["lowest"] == pytest.approx(min(slow))
        assert scores["gate"][found]["highest"] == pytest.approx(max(slow))
        expected = stats.spearmanr(pi, slow).statistic
        assert scores["gate"][found]["spearman_pi"] == pytest.approx(expected)
    for entry in scores["gate"]["bins"]:
        inside = [k for k in range(len(pi)) if entry["from"] < pi[k] <= entry["to"]]
        assert entry["dimensions"] == len(inside)
        if inside:
            expected = sum(rate[k] for k in inside) / len(inside)
            assert entry["open_rate"] == pytest.approx(expected)
        else:
            assert entry["open_rate"] is None
    petal = scores["backgrounds"][2]
    here = [i for i in range(400) if backgrounds[i] == 2]
    opened = [float(gate[i, k] > 0.5) for k in (14, 15, 16) for i in here]
    assert petal["dimensions"] == 3
    assert petal["frequency"] == pytest.approx(len(here) / 400)
    assert petal["open_rate_here"] == pytest.approx(sum(opened) / len(opened))
    assert petal["open_rate_elsewhere"] is None  # these fire on no other background


def test_gates_that_shut_common_backgrounds_are_seen_to():
    objects, backgrounds = world()
    ungated = planted_columns(objects, backgrounds)
    rates = torch.tensor([0.95] * 8 + [0.1] * 3 + [0.4] * 3 + [0.8] * 3 + [0.95] * 2)
    gate = (torch.rand(ungated.shape, generator=torch.Generator().manual_seed(3)) < rates).float()
    scores = planted_scores(features(ungated, gate), objects, backgrounds, NAMES, 0.3, 1e-3)
    assert scores["gate"]["background_frequency"]["dimensions"] == 9
    assert scores["gate"]["background_frequency"]["spearman"] < -0.9
    assert [b["dimensions"] for b in scores["backgrounds"]] == [3, 3, 3]
    opened = [b["open_rate_here"] for b in scores["backgrounds"]]
    assert opened == pytest.approx([0.1, 0.4, 0.8], abs=0.06)
    assert scores["dimensions"] == {"scored": 19, "background": 9, "object": 8, "neither": 2}
    # What gates removed is counted in consistency, which reads z, and not in what is answered to.
    ungated_scores = planted_scores(features(ungated), objects, backgrounds, NAMES, None, None)
    assert ungated_scores["dimensions"] == scores["dimensions"]


@pytest.mark.parametrize("prior", [0.1, 0.3, 0.5, 0.8])
def test_price_is_the_difference_of_the_kl_at_its_ends(prior):
    objects, backgrounds = world(300)
    ungated = planted_columns(objects, backgrounds)
    scores = planted_scores(
        features(ungated, torch.rand_like(ungated)), objects, backgrounds, NAMES, prior, 0.02
    )
    theory = scores["gate"]["theory"]
    open_kl, shut_kl = math.log(1 / prior), math.log(1 / (1 - prior))
    assert theory["price"] == pytest.approx(0.02 * (open_kl - shut_kl), abs=1e-12)
    assert (theory["price"] > 0) == (prior < 0.5)
    pi = (ungated > 0).double().mean(dim=0)
    assert theory["gain"]["mean"] == pytest.approx((pi * (1 - pi)).mean().item())


def test_a_head_without_a_gate_has_all_but_the_gate_and_says_why():
    objects, backgrounds = world()
    ungated = planted_columns(objects, backgrounds)
    scores = planted_scores(features(ungated), objects, backgrounds, NAMES, None, None)
    assert scores["gate"] is None
    assert "no gate" in scores["gate_reason"]
    assert "open_rate" not in scores["backgrounds"][0]
    assert scores["backgrounds"][0]["pi"] == pytest.approx(scores["backgrounds"][0]["frequency"])
    for side in ("object", "background"):
        assert scores["consistency"][side]["value"] > scores["consistency"][side]["chance"] + 0.1
    assert json.loads(json.dumps(scores, allow_nan=False)) == scores


def test_rare_and_dead_dimensions_are_left_out():
    objects, backgrounds = world(200)
    ungated = torch.zeros(200, 3)
    ungated[:9, 1] = 1.0  # one short of the support
    ungated[:10, 2] = 1.0
    scores = planted_scores(features(ungated), objects, backgrounds, NAMES, None, None)
    assert scores["dimensions"]["scored"] == 1


def test_a_dead_model_scores_nothing():
    objects, backgrounds = world(50)
    dead = torch.zeros(50, 4)
    gate = torch.zeros(50, 4)
    scores = planted_scores(features(dead, gate), objects, backgrounds, NAMES, 0.8, 3e-5)
    assert scores["consistency"]["object"]["value"] is None
    assert scores["consistency"]["object"]["published"] is None
    assert scores["dimensions"]["scored"] == 0
    assert scores["gate"]["open_rate"]["mean"] is None
    assert all(entry["dimensions"] == 0 for entry in scores["gate"]["bins"])
    json.dumps(scores, allow_nan=False)


def test_signed_activations_count_where_they_are_positive():
    objects, backgrounds = world(500)
    column = torch.where(objects == 1, 1.0, -1.0)[:, None]
    scores = planted_scores(features(column), objects, backgrounds, NAMES, None, None)
    assert scores["dimensions"]["object"] == 1


def test_bins_cover_every_frequency_once():
    assert PI_EDGES[0] == 0
    assert PI_EDGES[-1] == 1
    assert list(PI_EDGES) == sorted(set(PI_EDGES))


def test_labels_that_do_not_fit_are_refused():
    objects, backgrounds = world(50)
    some = features(torch.rand(50, 2))
    with pytest.raises(ValueError, match="50 images need as many"):
        planted_scores(some, objects[:-1], backgrounds[:-1], NAMES, None, None)
    with pytest.raises(ValueError, match=r"backgrounds must be 0\.\.1"):
        planted_scores(some, objects, backgrounds.clamp(min=2), NAMES[:2], None, None)
