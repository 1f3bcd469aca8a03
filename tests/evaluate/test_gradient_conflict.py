import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from pellucid.branch import Branch
from pellucid.build import build_branch, build_views
from pellucid.data.image_set import ImageSet
from pellucid.evaluate.gradient_conflict import CONFLICT, gradient_conflict
from pellucid.heads import BayesGate, NonNegative, Signed
from pellucid.recipe import compose
from pellucid.run import FEATURES, start_run

PARTS = ("gradient", "attraction", "repulsion")


def make_run(folder, method="ncl", batch=16):
    overrides = [
        f"train.batch={batch}",
        "views.size=16",
        "projector.hidden=16",
        "projector.dimensions=8",
        "framework.temperature=0.3",
    ]
    if method == "bayesncl":
        overrides.append("head.hidden=16")
    return start_run(folder, compose(method, "scenes", "small", overrides))


def some_images(count=40):
    rng = torch.Generator().manual_seed(0)
    return ImageSet.from_pixels(
        torch.randint(256, (count, 3, 16, 16), generator=rng, dtype=torch.uint8)
    )


class Pool(nn.Module):
    """Mean colours of quarters: an encoder that needs no weights, [B, 3, s, s] -> [B, 12]."""

    def forward(self, images):
        return nn.functional.adaptive_avg_pool2d(images, 2).flatten(1)


class Recorder(nn.Module):
    """Passes views on and remembers them."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, images):
        self.seen.append(images)
        return Pool()(images)


def autograd_reference(z_a, z_b, temperature):
    """2N times dL/dz of NT-Xent, anchor by anchor."""
    z = torch.cat([z_a, z_b]).double().requires_grad_()
    unit = z / (z.square().sum(dim=1, keepdim=True) + 1e-12).sqrt()
    n, loss = len(z_a), 0.0
    for i in range(2 * n):
        others = [j for j in range(2 * n) if j != i]
        logits = torch.stack([unit[i] @ unit[j] for j in others]) / temperature
        loss = loss + torch.logsumexp(logits, 0) - unit[i] @ unit[(i + n) % (2 * n)] / temperature
    loss.backward()
    return z.grad


def test_equals_autograd_on_the_views_that_were_seen(tmp_path):
    run, encoder = make_run(tmp_path / "run", batch=10), Recorder()
    branch = Branch(encoder, nn.Linear(12, 8), Signed())
    summary = gradient_conflict(run, branch, some_images(), batches=3)
    assert len(encoder.seen) == 6  # two views of three batches
    rows = []
    for query, key in zip(encoder.seen[::2], encoder.seen[1::2], strict=True):
        z_a, z_b = (branch(views).z.detach() for views in (query, key))
        rows.append(autograd_reference(z_a, z_b, 0.3))
    rows = torch.cat(rows)
    arrays = load_file(run.folder / FEATURES / CONFLICT)
    torch.testing.assert_close(arrays["gradient.mean"], rows.mean(0), rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(arrays["gradient.variance"], rows.var(0), rtol=1e-3, atol=1e-5)
    ratio = rows.mean(0).abs() / rows.std(0)
    torch.testing.assert_close(arrays["gradient.ratio"], ratio, rtol=1e-3, atol=1e-5)
    median = summary["gradient"]["ratio"]["median"]
    assert median == pytest.approx(ratio.quantile(0.5).item(), rel=1e-3)
    assert (summary["batches"], summary["batch"], summary["rows"]) == (3, 10, 60)
    assert summary["temperature"] == 0.3


@pytest.mark.parametrize("method", ["ncl", "bayesncl"])
def test_parts_add_up_and_the_summary_is_json(tmp_path, method):
    run = make_run(tmp_path / "run", method)
    branch = build_branch(run.recipe)
    summary = gradient_conflict(run, branch, some_images(), batches=2)
    arrays = load_file(run.folder / FEATURES / CONFLICT)
    assert arrays.keys() == {f"{p}.{f}" for p in PARTS for f in ("mean", "variance", "ratio")}
    torch.testing.assert_close(
        arrays["attraction.mean"] + arrays["repulsion.mean"],
        arrays["gradient.mean"],
        rtol=1e-3,
        atol=1e-4,
    )
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["reason"] is None
    assert summary["rows"] + summary["rows_without_direction"] == 64
    for part in PARTS:
        spread = summary[part]["variance"]
        assert 0 <= spread["lower_quartile"] <= spread["median"] <= spread["upper_quartile"]
    assert not list((run.folder / FEATURES).glob(".*"))


def test_nothing_changes_and_twice_is_the_same(tmp_path):
    run = make_run(tmp_path / "run", "bayesncl")
    branch = build_branch(run.recipe)
    before = {name: value.clone() for name, value in branch.state_dict().items()}
    torch.manual_seed(1)
    first = gradient_conflict(run, branch, some_images(), batches=2)
    torch.manual_seed(2)
    assert gradient_conflict(run, branch, some_images(), batches=2) == first
    after = branch.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert all(parameter.grad is None for parameter in branch.parameters())


def test_the_scale_does_not_depend_on_the_batch_size(tmp_path):
    branch = Branch(Pool(), nn.Linear(12, 8), Signed())
    spread = [
        gradient_conflict(make_run(tmp_path / str(b), batch=b), branch, some_images(480))[
            "gradient"
        ]["variance"]["median"]
        for b in (20, 60)
    ]
    assert spread[0] == pytest.approx(spread[1], rel=0.5)  # 3 and 9 times apart if it did


def test_rows_with_every_gate_closed_are_counted_and_left_out(tmp_path):
    class HalfShut(nn.Module):
        def forward(self, h):
            return torch.where(h[:, :1] > h[:, :1].median(), 5.0, -5.0).expand(-1, 8)

    run = make_run(tmp_path / "run", batch=20)
    projector = nn.Linear(12, 8)
    nn.init.constant_(projector.bias, 3.0)
    branch = Branch(Pool(), projector, BayesGate(NonNegative(), HalfShut(), prior=0.5))
    summary = gradient_conflict(run, branch, some_images(), batches=2)
    assert summary["rows_without_direction"] == 40
    assert summary["rows"] == 40
    # A zero row's own gradient is 1e6 times too long: 1 / sqrt(1e-12) of the normalisation.
    assert summary["gradient"]["variance"]["upper_quartile"] < 1e3


def test_a_dead_branch_and_a_single_image_give_reasons(tmp_path):
    run = make_run(tmp_path / "run")
    projector = nn.Linear(12, 8)
    nn.init.zeros_(projector.weight)
    nn.init.constant_(projector.bias, -1.0)
    branch = Branch(Pool(), projector, NonNegative("relu"))
    assert "zero on all images" in gradient_conflict(run, branch, some_images())["reason"]
    assert "needs two" in gradient_conflict(run, branch, some_images(1))["reason"]


def test_fewer_images_than_a_batch_make_one_smaller_batch(tmp_path):
    run = make_run(tmp_path / "run", batch=64)
    branch = Branch(Pool(), nn.Linear(12, 8), Signed())
    summary = gradient_conflict(run, branch, some_images(40))
    assert (summary["batches"], summary["batch"], summary["rows"]) == (1, 40, 80)


def test_a_framework_without_a_temperature_has_a_reason(tmp_path):
    run = make_run(tmp_path / "run")
    framework = dataclasses.replace(run.recipe.framework, settings={})
    run = dataclasses.replace(run, recipe=dataclasses.replace(run.recipe, framework=framework))
    summary = gradient_conflict(run, build_branch(run.recipe), some_images())
    assert summary == {"reason": "the framework simclr has no temperature"}
    assert not (run.folder / FEATURES).exists()


def test_views_are_the_recipes(tmp_path):
    run, encoder = make_run(tmp_path / "run", batch=10), Recorder()
    images = some_images(10)
    gradient_conflict(run, Branch(encoder, nn.Linear(12, 8), Signed()), images, batches=1)
    views = build_views(run.recipe)
    query, key = encoder.seen
    assert query.shape == (10, 3, 16, 16)
    assert not torch.equal(query, key)
    pixels = next(images.batches([torch.arange(10)]))
    expected = views(pixels, 0, slice(0, 10))[0]
    # The order of images is drawn, so only sizes and the range of colours can be compared.
    assert query.mean().item() == pytest.approx(expected.mean().item(), abs=0.5)
