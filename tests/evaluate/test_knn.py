import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from pellucid.evaluate.knn import knn_accuracy


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    x, y = load_digits(return_X_y=True)
    return torch.tensor(x).float(), torch.tensor(y)


def by_loop(train, train_labels, test, test_labels, neighbours, temperature) -> float:
    right = 0
    train, test = train.double().numpy(), test.double().numpy()
    for row, label in zip(test, test_labels, strict=True):
        cosines = [row @ t / math.sqrt((row @ row) * (t @ t)) for t in train]
        nearest = sorted(range(len(cosines)), key=lambda i: -cosines[i])[:neighbours]
        votes: dict[int, float] = {}
        for i in nearest:
            name = int(train_labels[i])
            votes[name] = votes.get(name, 0.0) + math.exp(cosines[i] / temperature)
        right += max(votes, key=lambda name: votes[name]) == int(label)
    return right / len(test)


@pytest.mark.parametrize(("neighbours", "temperature"), [(1, 0.07), (20, 0.07), (15, 10.0)])
def test_agrees_with_a_loop_over_images(neighbours: int, temperature: float) -> None:
    x, y = digits()
    x = x + 4 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))  # some errors
    sets = x[:300], y[:300], x[300:420], y[300:420]
    asked = knn_accuracy(*sets, neighbours=neighbours, temperature=temperature)
    assert asked == pytest.approx(by_loop(*sets, neighbours, temperature), abs=1e-9)
    assert 0.5 < asked < 1


def test_agrees_with_scikit_learn_over_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.evaluate.knn.COSINES", 200 * 400)
    x, y = digits()
    train, test = slice(0, 400), slice(400, None)  # 1,397 queries: more than one block
    peer = KNeighborsClassifier(
        20, metric="cosine", weights=lambda d: np.exp((1 - d) / 0.07), algorithm="brute"
    ).fit(x[train].numpy(), y[train].numpy())
    theirs = peer.score(x[test].numpy(), y[test].numpy())
    assert knn_accuracy(x[train], y[train], x[test], y[test]) == pytest.approx(theirs, abs=1e-3)


def test_length_of_rows_does_not_matter_and_no_temperature_overflows() -> None:
    x, y = digits()
    sets = x[:300], y[:300], x[300:500], y[300:500]
    scaled = x[:300] * torch.linspace(1, 1000, 300)[:, None], y[:300], x[300:500] * 1e-3, y[300:500]
    assert knn_accuracy(*scaled) == pytest.approx(knn_accuracy(*sets))
    nearest = knn_accuracy(*sets, neighbours=1)
    assert knn_accuracy(*sets, temperature=1e-4) == pytest.approx(nearest)


def test_training_images_are_not_left_out() -> None:
    x, y = digits()
    assert knn_accuracy(x[:200], y[:200], x[:200], y[:200], neighbours=1) == 1.0


def test_fewer_training_images_than_neighbours_and_unseen_classes() -> None:
    train, labels = torch.eye(3), torch.tensor([0, 0, 1])
    assert knn_accuracy(train, labels, train, torch.tensor([0, 0, 5])) == pytest.approx(2 / 3)


def test_dead_features_guess_one_class() -> None:
    labels = torch.tensor([0, 1, 1, 2])
    assert knn_accuracy(torch.zeros(4, 3), labels, torch.zeros(4, 3), labels) == 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"neighbours": 0}, "positive"),
        ({"temperature": 0.0}, "positive"),
        ({"temperature": float("nan")}, "positive"),
    ],
)
def test_settings_that_cannot_be(change: dict[str, float], message: str) -> None:
    x, y = torch.eye(2), torch.tensor([0, 1])
    with pytest.raises(ValueError, match=message):
        knn_accuracy(x, y, x, y, **change)


def test_labels_that_cannot_be() -> None:
    x, y = torch.eye(2), torch.tensor([0, 1])
    with pytest.raises(ValueError, match=r"train_labels.*leave images without a label out"):
        knn_accuracy(x, torch.tensor([0, -1]), x, y)
    with pytest.raises(ValueError, match="test_labels"):
        knn_accuracy(x, y, torch.zeros(0, 2), y[:0])
