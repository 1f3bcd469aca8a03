import inspect
import math

import pytest
import torch
import torch.nn.functional as F
from lightly.loss import NTXentLoss
from pytorch_metric_learning.losses import NTXentLoss as MetricLearningNTXent

from pellucid.losses import info_nce, nt_xent, unit_rows

HALVES = [torch.bfloat16, torch.float16]
FLOATS = [torch.float32, *HALVES]


def rows(seed, *shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def value_and_gradients(loss, *tensors):
    leaves = [tensor.clone().requires_grad_() for tensor in tensors]
    value = loss(*leaves)
    return [value.detach(), *torch.autograd.grad(value, leaves)]


def assert_same(ours, theirs, tolerance=1e-6):
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance)


def loop_nt_xent(z_a, z_b, temperature):
    views = [z / z.norm() for z in [*z_a, *z_b]]
    n, total = len(z_a), 0.0
    for i, anchor in enumerate(views):
        others = [math.exp(float(anchor @ v) / temperature) for j, v in enumerate(views) if j != i]
        positive = math.exp(float(anchor @ views[(i + n) % (2 * n)]) / temperature)
        total -= math.log(positive / sum(others))
    return total / (2 * n)


def loop_info_nce(q, k, negatives, temperature):
    total = 0.0
    for anchor, own in zip(q, k, strict=True):
        keys = [own, *negatives]
        scores = [
            math.exp(float(F.cosine_similarity(anchor, c, dim=0)) / temperature) for c in keys
        ]
        total -= math.log(scores[0] / sum(scores))
    return total / len(q)


@pytest.mark.parametrize(("n", "k"), [(2, 3), (5, 4), (8, 16)])
def test_nt_xent_equals_nested_loops(n, k):
    z_a, z_b = rows(0, n, k), rows(1, n, k)
    assert nt_xent(z_a, z_b, 0.3).item() == pytest.approx(loop_nt_xent(z_a, z_b, 0.3), abs=1e-6)


def test_info_nce_equals_nested_loops():
    q, k, negatives = rows(0, 5, 7), rows(1, 5, 7), rows(2, 11, 7)
    expected = loop_info_nce(q, k, negatives, 0.2)
    assert info_nce(q, k, negatives, 0.2).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("temperature", [0.1, 0.2, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nt_xent_equals_lightly(temperature, dtype):
    pair = rows(0, 16, 32, dtype=dtype), rows(1, 16, 32, dtype=dtype)
    ours = value_and_gradients(lambda a, b: nt_xent(a, b, temperature), *pair)
    assert_same(ours, value_and_gradients(NTXentLoss(temperature), *pair))


@pytest.mark.parametrize("temperature", [0.1, 0.2, 1.0])
def test_nt_xent_equals_metric_learning(temperature):
    peer = MetricLearningNTXent(temperature)
    labels = torch.arange(16).repeat(2)
    pair = rows(0, 16, 32), rows(1, 16, 32)
    ours = value_and_gradients(lambda a, b: nt_xent(a, b, temperature), *pair)
    theirs = value_and_gradients(lambda a, b: peer(torch.cat([a, b]), labels), *pair)
    assert_same(ours, theirs)


def test_info_nce_equals_metric_learning_with_shared_negatives():
    q, k, negatives = rows(0, 6, 9), rows(1, 6, 9), rows(2, 10, 9)
    peer = MetricLearningNTXent(0.2)

    def one_anchor_at_a_time(q, k, negatives):
        losses = []
        for i in range(len(q)):
            keys = torch.cat([k[i : i + 1], negatives])
            labels = torch.arange(len(keys))
            losses.append(peer(q[i : i + 1], torch.zeros(1), ref_emb=keys, ref_labels=labels))
        return torch.stack(losses).mean()

    ours = value_and_gradients(lambda *three: info_nce(*three, 0.2), q, k, negatives)
    assert_same(ours, value_and_gradients(one_anchor_at_a_time, q, k, negatives))


def test_nt_xent_passes_gradcheck():
    pair = [rows(seed, 3, 4).requires_grad_() for seed in (0, 1)]
    assert torch.autograd.gradcheck(lambda a, b: nt_xent(a, b, 0.5), pair)


def test_nt_xent_ignores_the_length_of_rows_and_the_order_of_images_and_views():
    z_a, z_b = rows(0, 6, 8), rows(1, 6, 8)
    expected = nt_xent(z_a, z_b, 0.2)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    lengths = torch.tensor([0.5, 1, 2, 30, 400, 5000.0], dtype=torch.float64)[:, None]
    for same in [(z_b, z_a), (z_a[order], z_b[order]), (z_a * lengths, z_b)]:
        torch.testing.assert_close(nt_xent(*same, 0.2), expected, rtol=0, atol=1e-6)


def test_an_image_that_comes_twice_keeps_its_own_positive():
    z_a, z_b = rows(0, 4, 8), rows(1, 4, 8)
    z_a[3], z_b[3] = z_a[0], z_b[0]
    assert nt_xent(z_a, z_b, 0.2).item() == pytest.approx(loop_nt_xent(z_a, z_b, 0.2), abs=1e-6)
    same = torch.ones(4, 8)
    assert nt_xent(same, same, 0.2).item() == pytest.approx(math.log(7), abs=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("identical", [True, False])
def test_low_temperature_is_finite_and_right(dtype, identical):
    z_a = rows(0, 8, 16, dtype=dtype)
    z_b = z_a if identical else rows(1, 8, 16, dtype=dtype)
    exact = nt_xent(z_a.double(), z_b.double(), 0.01)
    value, *gradients = value_and_gradients(lambda a, b: nt_xent(a, b, 0.01), z_a, z_b)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value.double(), exact, rtol=1e-5, atol=1e-4)
    assert all(gradient.isfinite().all() for gradient in gradients)
    negatives = rows(2, 5, 16, dtype=dtype)
    value, *gradients = value_and_gradients(lambda *z: info_nce(*z, 0.01), z_a, z_b, negatives)
    exact = info_nce(z_a.double(), z_b.double(), negatives.double(), 0.01)
    torch.testing.assert_close(value.double(), exact, rtol=1e-5, atol=1e-4)
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("dtype", HALVES)
def test_autocast_changes_nothing(dtype):
    z_a, z_b, negatives = (rows(seed, 8, 16, dtype=torch.float32) for seed in range(3))
    plain = nt_xent(z_a, z_b, 0.05), info_nce(z_a, z_b, negatives, 0.05), unit_rows(z_a)
    with torch.autocast("cpu", dtype):
        cast = nt_xent(z_a, z_b, 0.05), info_nce(z_a, z_b, negatives, 0.05), unit_rows(z_a)
    for a, b in zip(plain, cast, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("length", [0.1, 1.0, 100.0])
def test_unit_rows_agree_with_exact_normalisation(length):
    z = F.normalize(rows(0, 64, 32)) * length
    torch.testing.assert_close(unit_rows(z), F.normalize(z), rtol=0, atol=1e-6)
    torch.testing.assert_close(unit_rows(z.float()), F.normalize(z.float()), rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("length", [0.0, 1e-6, 1e-4, 1e-3, 1.0])
def test_unit_rows_keep_their_bound_on_the_gradient(dtype, length):
    z = (F.normalize(rows(0, 1, 6)) * length).to(dtype)
    jacobian = torch.autograd.functional.jacobian(unit_rows, z)[0, :, 0].double()
    bound = 1e3 if dtype == torch.float16 else 1e4
    assert torch.linalg.matrix_norm(jacobian, 2) <= bound * 1.01
    if length == 0:
        assert not unit_rows(z).any()
        scale = torch.linalg.matrix_norm(jacobian, 2).item()
        assert scale == pytest.approx(bound, rel=0.01)  # the stated bound is reached, not loose


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("temperature", [0.01, 0.2])
@pytest.mark.parametrize("dead", ["one row", "one pair", "one view", "all"])
def test_zero_rows_have_finite_bounded_gradients(dtype, temperature, dead):
    z_a, z_b = rows(0, 2, 16, dtype=dtype), rows(1, 2, 16, dtype=dtype)
    if dead in ("one row", "one pair"):
        z_a[0] = 0
    if dead in ("one view", "all"):
        z_a[:] = 0
    if dead == "one pair":
        z_b[0] = 0
    if dead == "all":
        z_b[:] = 0
    value, *gradients = value_and_gradients(lambda a, b: nt_xent(a, b, temperature), z_a, z_b)
    assert value.isfinite()
    bound = 1e3 if dtype == torch.float16 else 1e4
    for gradient in gradients:
        assert gradient.isfinite().all()
        assert gradient.double().norm(dim=1).max() <= bound * 1.5 / temperature * 1.01
    if dead == "all":
        assert value.item() == pytest.approx(math.log(3), abs=1e-6)
        assert not any(gradient.any() for gradient in gradients)


def test_one_image_and_an_empty_queue_ask_for_nothing():
    pair = rows(0, 1, 4), rows(1, 1, 4)
    assert not any(part.any() for part in value_and_gradients(lambda *z: nt_xent(*z, 0.2), *pair))
    pair = rows(0, 3, 4), rows(1, 3, 4)
    parts = value_and_gradients(lambda *z: info_nce(*z, rows(2, 0, 4), 0.2), *pair)
    assert not any(part.any() for part in parts)


def test_info_nce_gives_no_gradient_to_what_was_detached():
    q = rows(0, 3, 4).requires_grad_()
    k = rows(1, 3, 4).requires_grad_()
    info_nce(q, k.detach(), rows(2, 5, 4), 0.2).backward()
    assert q.grad is not None
    assert q.grad.any()
    assert k.grad is None


@pytest.mark.parametrize("temperature", [0.0, -0.1, float("nan")])
def test_impossible_temperatures_are_refused(temperature):
    z = torch.ones(2, 3)
    with pytest.raises(ValueError, match="temperature must be above 0"):
        nt_xent(z, z, temperature)
    with pytest.raises(ValueError, match="temperature must be above 0"):
        info_nce(z, z, z, temperature)


@pytest.mark.parametrize("loss", [nt_xent, lambda a, b, t: info_nce(a, b, torch.ones(1, 3), t)])
def test_empty_batches_are_refused(loss):
    with pytest.raises(ValueError, match="at least one row"):
        loss(torch.empty(0, 3), torch.empty(0, 3), 0.2)


def test_differing_shapes_are_refused():
    # Unwrapped, because the shape checks that tests switch on would refuse them first.
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(4, 3\)"):
        inspect.unwrap(nt_xent)(torch.ones(2, 3), torch.ones(4, 3), 0.2)
    with pytest.raises(ValueError, match="width 3"):
        inspect.unwrap(info_nce)(torch.ones(2, 3), torch.ones(2, 3), torch.ones(5, 4), 0.2)
