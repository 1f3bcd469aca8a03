import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from pellucid.evaluate.linear_probe import STRENGTHS, fit_logistic, linear_probe

Sets = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def digits(noise: float = 0.0) -> Sets:
    """Digits in random order, 1,000 and 797 of them, with noise of a share of the range."""
    x, y = load_digits(return_X_y=True)
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(x), generator=generator)
    rows, labels = torch.tensor(x).float()[order], torch.tensor(y)[order]
    rows = rows + 16 * noise * torch.randn(rows.shape, generator=generator)
    return rows[:1000], labels[:1000], rows[1000:], labels[1000:]


def standardised(sets: Sets) -> tuple[torch.Tensor, torch.Tensor]:
    centre, spread = sets[0].mean(dim=0), sets[0].std(dim=0, correction=0)
    spread[spread == 0] = 1
    return (sets[0] - centre) / spread, (sets[2] - centre) / spread


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("strength", [1e-3, 1.0])
def test_the_optimum_is_that_of_scikit_learn(noise: float, strength: float) -> None:
    sets = digits(noise)
    train, test = (rows.double() for rows in standardised(sets))
    ours = fit_logistic(train, sets[1], 10, strength)
    peer = LogisticRegression(C=strength, tol=1e-6, max_iter=5000)
    peer.fit(train.numpy(), sets[1].numpy())
    assert ours.converged
    # Biases are free up to a common shift, as are their weights without a penalty.
    np.testing.assert_allclose(
        ours.weight.numpy(), peer.coef_, atol=0.02 * np.abs(peer.coef_).max()
    )
    accuracy = ((test @ ours.weight.T + ours.bias).argmax(dim=1) == sets[3]).float().mean().item()
    assert accuracy == pytest.approx(peer.score(test.numpy(), sets[3].numpy()), abs=0.003)


def test_the_gradient_is_zero_where_it_stops() -> None:
    train, labels, *_ = digits()
    train = standardised(digits())[0].double()
    fitted = fit_logistic(train, labels, 10, 0.01)
    wrong = torch.softmax(train @ fitted.weight.T + fitted.bias, dim=1)
    wrong[torch.arange(1000), labels] -= 1
    gradient = wrong.T @ train / 1000 + fitted.weight / (0.01 * 1000)
    assert gradient.abs().max() < 1.1e-5
    assert (wrong.sum(dim=0) / 1000).abs().max() < 1.1e-5


def test_a_probe_of_digits_and_of_hard_digits() -> None:
    easy, hard = linear_probe(*digits(), classes=10), linear_probe(*digits(0.5), classes=10)
    assert easy.converged
    assert hard.converged
    assert easy.top1 > 0.95
    assert hard.top1 < easy.top1 - 0.1
    assert easy.top5 is not None
    assert hard.top5 is not None
    assert easy.top1 < easy.top5 <= 1
    assert hard.top1 < hard.top5 < 1
    assert list(easy.held_out) == list(STRENGTHS)
    assert easy.held_out[easy.strength] == max(easy.held_out.values())
    assert hard.strength < STRENGTHS[-1]  # noise is not fitted


def test_top_five_counts_the_class_among_five() -> None:
    train, labels, test, truth = digits(1.0)
    probe = linear_probe(train, labels, test, truth, classes=10, strengths=[0.01])
    rows, asked = standardised((train, labels, test, truth))
    fitted = fit_logistic(rows, labels, 10, 0.01)
    hits = [
        int(label) in sorted(range(10), key=lambda c: -scores[c])[:5]
        for scores, label in zip(
            (asked @ fitted.weight.T + fitted.bias).tolist(), truth, strict=True
        )
    ]
    assert probe.top5 == pytest.approx(sum(hits) / len(hits))
    assert probe.held_out == {}


def test_no_test_image_takes_part_in_a_choice() -> None:
    train, labels, test, truth = digits(0.5)
    whole = linear_probe(train, labels, test, truth, classes=10)
    half = linear_probe(train, labels, test[:100] * 50, truth[:100], classes=10)
    assert (whole.strength, whole.held_out) == (half.strength, half.held_out)


def test_scale_and_shift_of_features_do_not_matter() -> None:
    train, labels, test, truth = digits(0.5)
    scale = torch.logspace(-3, 3, 64)
    plain = linear_probe(train, labels, test, truth, classes=10)
    moved = linear_probe(train * scale + 5, labels, test * scale + 5, truth, classes=10)
    assert moved.top1 == pytest.approx(plain.top1, abs=0.004)


def test_constant_features_are_harmless() -> None:
    train, labels, test, truth = digits()
    constant = linear_probe(
        torch.full_like(train, 0.1), labels, torch.full_like(test, 0.1), truth, classes=10
    )
    assert constant.top1 == pytest.approx((truth == labels.mode().values).float().mean().item())


def test_few_classes_have_no_top_five_and_unseen_ones_are_errors() -> None:
    train, labels, test, truth = digits()
    seen, asked = labels < 4, truth < 5
    probe = linear_probe(train[seen], labels[seen], test[asked], truth[asked], classes=5)
    assert probe.top5 is None
    share = (truth[asked] < 4).float().mean().item()
    assert share - 0.1 < probe.top1 <= share


@pytest.mark.parametrize("images", [1, 4, 7])
def test_a_handful_of_images(images: int) -> None:
    train, labels, test, truth = digits()
    probe = linear_probe(train[:images], labels[:images], test, truth, classes=10)
    assert 0 <= probe.top1 <= 1
    assert bool(probe.held_out) == (images >= 5)


def test_what_cannot_be_is_named() -> None:
    train, labels, test, truth = digits()
    with pytest.raises(ValueError, match=r"labels must be 0\.\.8"):
        linear_probe(train, labels, test, truth, classes=9)
    with pytest.raises(ValueError, match="train_labels"):
        linear_probe(train, labels - 1, test, truth, classes=10)
    with pytest.raises(ValueError, match="at least one C"):
        linear_probe(train, labels, test, truth, classes=10, strengths=[])
