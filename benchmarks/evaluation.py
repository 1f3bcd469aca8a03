"""Seconds and memory of scoring: metrics, linear probe, nearest neighbours, extraction.

    python benchmarks/evaluation.py
    python benchmarks/evaluation.py --parts published metrics

`published` takes `as_published.semantic_consistency` beside two loops over dimensions: that of the
BayesNCL code, which takes the absolute value of all features anew at every dimension, and one that
takes it once. `metrics` times every right form as an evaluation calls it, on two sizes each of N
and K, with the memory that a call takes beyond its input. `probe` takes `linear_probe` beside
scikit-learn's logistic regression at the C that it chose. `neighbours` takes kNN and retrieval
beside one unblocked matrix of similarities. `extraction` takes `extract` beside the bare forward.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing import parser, rates, ratio, report, spread, take_turns
from torch import Tensor
from torch.nn import functional as F

from pellucid import metrics
from pellucid.build import build_branch
from pellucid.data.image_set import ImageSet
from pellucid.evaluate.extract import BATCH, extract
from pellucid.evaluate.interpretability import RESAMPLES, SHUFFLES
from pellucid.evaluate.knn import knn_accuracy
from pellucid.evaluate.linear_probe import linear_probe
from pellucid.metrics import as_published
from pellucid.recipe import compose
from pellucid.train.device import autocast

CLASSES, DENSITY = 10, 0.1
IMAGES, FEW_IMAGES = 50_000, 10_000
WIDE, NARROW = 2048, 256
REFERENCE = 512
"""Width of encoder features."""


def sparse(n: int, k: int) -> Tensor:
    """Random non-negative z, a tenth of it active, made in place."""
    generator = torch.Generator().manual_seed(0)
    z = torch.rand(n, k, generator=generator)
    return z.sub_(1 - DENSITY).clamp_(min=0)


def mixture(n: int, classes: int, distance: float, seed: int) -> tuple[Tensor, Tensor]:
    """Correlated features of overlapping Gaussian classes, and labels.

    Directions are strong to weak by a factor of 100, as an encoder's are, and mixed, so that
    standardised features are no better conditioned. They and the centres are those of every seed.
    """
    generator = torch.Generator().manual_seed(0)
    centres = distance * torch.randn(classes, REFERENCE, generator=generator)
    scale = torch.logspace(0, -2, REFERENCE)
    mixed = torch.linalg.qr(torch.randn(REFERENCE, REFERENCE, generator=generator)).Q
    generator.manual_seed(seed + 1)
    labels = torch.randint(classes, (n,), generator=generator)
    rows = (torch.randn(n, REFERENCE, generator=generator) + centres[labels]) * scale
    return rows @ mixed, labels


def measured(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds of a call, MB that it took at its peak beyond what was in use, and its result."""
    # 5 sets the peak that the kernel keeps back to what is in use now.
    Path("/proc/self/clear_refs").write_text("5")
    before, began = _peak_mb(), time.perf_counter()
    result = call()
    return time.perf_counter() - began, _peak_mb() - before, result


def _peak_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise OSError("no VmHWM in /proc/self/status")


def cost(call: Callable[[], Any], rounds: int) -> dict[str, Any]:
    """Seconds over rounds, and the largest peak."""
    seconds, peaks, _ = zip(*(measured(call) for _ in range(rounds)), strict=True)
    return {"seconds": spread(seconds), "peak_mb": max(peaks)}


TIMES = {"ours": 50, "authors_loop": 1, "plain_loop": 4}
"""Calls of a turn, so that a turn takes a fifth of a second or more."""


def authors_loop(z: Tensor, labels: Tensor) -> float:
    """Semantic consistency at the cost of the BayesNCL code."""
    z = F.normalize(z[:, z.abs().sum(dim=0) > 0], dim=1)
    shares = []
    for k in range(z.shape[1]):
        counts = labels[z.abs()[:, k] > 1e-5].bincount()
        if len(counts):
            shares.append((counts / counts.sum()).max().item())
    return torch.tensor(shares).mean().item()


def plain_loop(z: Tensor, labels: Tensor) -> float:
    """The same with everything that can stay outside of the loop taken out."""
    active = F.normalize(z, dim=1).abs() > 1e-5
    shares = []
    for column in active.T:
        counts = labels[column].bincount()
        if len(counts):
            shares.append(counts.max().item() / counts.sum().item())
    return statistics.fmean(shares)


def published(rounds: int) -> dict[str, Any]:
    """As published against loops over dimensions."""
    z, labels = sparse(2000, WIDE), torch.arange(2000) % CLASSES
    calls = {
        "ours": as_published.semantic_consistency,
        "authors_loop": authors_loop,
        "plain_loop": plain_loop,
    }
    values = {name: call(z, labels) for name, call in calls.items()}
    if max(values.values()) - min(values.values()) > 1e-5:
        raise AssertionError(f"the three differ: {values}")

    def several(name: str) -> None:
        for _ in range(TIMES[name]):
            calls[name](z, labels)

    turns = take_turns({name: lambda name=name: several(name) for name in calls}, rounds)
    seconds = {name: [s / TIMES[name] for s in some] for name, some in turns.items()}
    return {
        "seconds": {name: spread(some) for name, some in seconds.items()},
        "authors_loop_over_ours": ratio(seconds["authors_loop"], seconds["ours"]),
        "plain_loop_over_ours": ratio(seconds["plain_loop"], seconds["ours"]),
    }


def right_forms(rounds: int) -> dict[str, Any]:
    """Every right form by N and K."""
    found: dict[str, Any] = {}
    for n, k in ((FEW_IMAGES, NARROW), (FEW_IMAGES, WIDE), (IMAGES, NARROW), (IMAGES, WIDE)):
        z, reference = sparse(n, k), torch.randn(n, REFERENCE)
        labels = torch.arange(n) % CLASSES
        calls = {
            "semantic_consistency": lambda z=z, labels=labels: metrics.semantic_consistency(
                z, labels, shuffles=SHUFFLES, resamples=RESAMPLES
            ),
            "semantic_entropy": lambda z=z, labels=labels: metrics.semantic_entropy(
                z, labels, shuffles=SHUFFLES
            ),
            "monosemanticity": lambda z=z, e=reference: metrics.monosemanticity(z, e),
            "effective_rank": lambda z=z: metrics.effective_rank(z),
            "orthogonality": lambda z=z: metrics.orthogonality(z),
            "retrieval_precision": lambda z=z, labels=labels: metrics.retrieval_precision(
                z, labels
            ),
        }
        found[f"n={n} k={k}"] = {name: cost(call, rounds) for name, call in calls.items()}
    return found


def probe(rounds: int) -> dict[str, Any]:
    """`linear_probe` in all, and scikit-learn's fit at one C."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    found: dict[str, Any] = {}
    # scikit-learn would take minutes over all images of a hundred classes.
    for classes, distance, for_both in ((10, 0.1, IMAGES), (100, 0.15, FEW_IMAGES)):
        train, labels = mixture(IMAGES, classes, distance, seed=0)
        test = mixture(FEW_IMAGES, classes, distance, seed=1)
        calls = [
            measured(lambda x=train, y=labels, t=test, c=classes: linear_probe(x, y, *t, classes=c))
            for _ in range(rounds)
        ]
        ours = calls[-1][2]
        some, theirs = (train[:for_both], labels[:for_both]), StandardScaler()
        rows, asked = theirs.fit_transform(some[0].double()), theirs.transform(test[0].double())
        own_seconds, _, same = measured(
            lambda some=some, t=test, c=classes, best=ours.strength: linear_probe(
                *some, *t, classes=c, strengths=(best,)
            )
        )
        peer = LogisticRegression(C=ours.strength, max_iter=5000, tol=1e-5)
        began = time.perf_counter()
        peer.fit(rows, some[1])
        peer_seconds = time.perf_counter() - began
        found[f"{classes} classes"] = {
            "seconds": spread([seconds for seconds, _, _ in calls]),
            "peak_mb": max(peak for _, peak, _ in calls),
            "top1": ours.top1,
            "strength": ours.strength,
            "converged": ours.converged,
            "beside_scikit_learn": {
                "images": for_both,
                "top1": same.top1,
                "peer_top1": peer.score(asked, test[1]),
                "seconds_of_one_fit": own_seconds,
                "peer_seconds_of_one_fit": peer_seconds,
            },
        }
    return found


def unblocked(z: Tensor) -> Tensor:
    """The twenty nearest of every image from one matrix of similarities."""
    unit = F.normalize(z, dim=1)
    similarity = unit @ unit.T
    return similarity.fill_diagonal_(-torch.inf).topk(20, dim=1).indices


def neighbours(rounds: int) -> dict[str, Any]:
    """kNN and retrieval by N, beside the unblocked matrix at the smaller."""
    found: dict[str, Any] = {}
    for n in (FEW_IMAGES, IMAGES):
        x, labels = mixture(n, CLASSES, 0.1, seed=0)
        calls = {
            "knn": lambda x=x, y=labels: knn_accuracy(x, y, x[:FEW_IMAGES], y[:FEW_IMAGES]),
            "retrieval": lambda x=x, y=labels: metrics.retrieval_precision(x, y),
        }
        if n == FEW_IMAGES:
            calls["unblocked"] = lambda x=x: unblocked(x)
            seconds = take_turns(calls, rounds)
            found["unblocked_over_knn"] = ratio(seconds["unblocked"], seconds["knn"])
            found["unblocked_over_retrieval"] = ratio(seconds["unblocked"], seconds["retrieval"])
        found[f"n={n}"] = {name: cost(call, rounds) for name, call in calls.items()}
    return found


def extraction(rounds: int) -> dict[str, Any]:
    """`extract` beside encoder, projector and head on batches that are ready."""
    branch = build_branch(compose("ncl", "cifar10", overrides=["encoder.name=resnet18-thin"]))
    count, device = 2048, torch.device("cpu")
    pixels = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8)
    images = ImageSet.from_pixels(pixels)

    def scaled(some: Tensor) -> Tensor:
        return some.float().div_(255)

    ready = [
        scaled(some).contiguous(memory_format=torch.channels_last) for some in pixels.split(BATCH)
    ]

    def bare(precision: str) -> None:
        branch.eval()
        with torch.inference_mode(), autocast(device, precision):
            for some in ready:
                branch(some)

    found: dict[str, Any] = {}
    for precision in ("bf16", "fp32"):
        calls = {
            "ours": lambda p=precision: extract(branch, scaled, images, device=device, precision=p),
            "bare": lambda p=precision: bare(p),
        }
        seconds = take_turns(calls, rounds)
        found[precision] = {
            "images_per_second": {name: rates(some, count) for name, some in seconds.items()},
            "over_bare": ratio(seconds["bare"], seconds["ours"]),
        }
    return found


PARTS: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    "published": (published, 15),
    "metrics": (right_forms, 1),
    "probe": (probe, 1),
    "neighbours": (neighbours, 1),
    "extraction": (extraction, 7),
}
"""What is measured, and in how many rounds unless told."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=tuple(PARTS))
    options.add_argument("--rounds", type=int, help="of every part; few where a round is long")
    asked = options.parse_args()
    figures = {}
    for name in asked.parts:
        run, rounds = PARTS[name]
        torch.manual_seed(0)
        figures[name] = run(asked.rounds or rounds)
    report(figures, asked.out)


if __name__ == "__main__":
    main()
