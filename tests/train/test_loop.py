"""The loop on a tiny net: resumed runs equal undisturbed ones, bit for bit."""

import json
import signal
import time
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from pellucid.branch import Branch
from pellucid.data.image_set import ImageSet
from pellucid.data.views import ViewSettings
from pellucid.frameworks import SimCLR
from pellucid.heads import BayesGate, InverseFrequency, NonNegative
from pellucid.learner import Learner
from pellucid.nets.mlp import mlp
from pellucid.randomness import seed_noise
from pellucid.train import checkpoint
from pellucid.train.batches import TwoViews, epoch_order
from pellucid.train.device import autocast
from pellucid.train.finite import TrainingError
from pellucid.train.log import read_lines
from pellucid.train.loop import layout, train
from pellucid.train.optimisers import OPTIMISERS, parameter_groups
from pellucid.train.plan import Plan
from pellucid.train.stopping import InterruptedTrainingError

IMAGES, EPOCHS, STEPS_EACH = 18, 10, 2
STEPS = EPOCHS * STEPS_EACH
WEIGHTS = {"contrast": 1.0, "gate_kl": 0.1}
PLAN = Plan(
    seed=4, epochs=EPOCHS, batch=8, accumulate=2, warmup_epochs=2.0, precision="fp32", log_every=3
)


class Disturbed(TwoViews):
    """Views that do something before the micro-step of their n-th call."""

    def __init__(self, size, at, act):
        settings = ViewSettings(size=size, jitter=0.0, blur=0.0)  # crops and flips are enough
        super().__init__(settings, (0.5,) * 3, (0.25,) * 3, PLAN.seed, PLAN.batch)
        self.at, self.act, self.calls = at, act, 0

    def __call__(self, images, step, rows):
        query, key = super().__call__(images, step, rows)
        self.calls += 1
        if self.calls - 1 == self.at:
            query = self.act(query)
        return query, key


def calm(size=8):
    return Disturbed(size, -1, None)


def terminate(query):
    signal.raise_signal(signal.SIGTERM)
    return query


def die(query):
    raise OSError("the power went")


def spoil(query):
    return query * float("nan")


def images(size=8):
    generator = torch.Generator().manual_seed(0)
    return ImageSet.from_pixels(
        torch.randint(0, 256, (IMAGES, 3, size, size), dtype=torch.uint8, generator=generator)
    )


def parts(optimiser="lars", seed=0, dimensions=8):
    """A learner with batch norm, a sampled gate and a running frequency; and its optimiser."""
    torch.manual_seed(seed)
    encoder = nn.Sequential(
        nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip
    inner = InverseFrequency(NonNegative(), dimensions, momentum=0.9)
    head = BayesGate(inner, mlp(6, 8, dimensions), prior=0.3, variant="gumbel", isolation="none")
    learner = Learner(SimCLR(Branch(encoder, mlp(6, 8, dimensions), head)))
    learner.to(memory_format=torch.channels_last)
    lr_of = {"framework.online.head.gate": 0.02}
    return learner, OPTIMISERS[optimiser](parameter_groups(learner, 0.05, 1e-4, lr_of))


def run(folder, views=None, optimiser="lars", seed=0, plan=PLAN):
    folder.mkdir(exist_ok=True)
    learner, built = parts(optimiser, seed)
    train(learner, images(), views or calm(), built, WEIGHTS, plan, folder)
    return learner, built


def traces(learner, optimiser, folder):
    state = {f"model {name}": t for name, t in learner.state_dict().items()}
    for group in optimiser.param_groups:
        for name, parameter in zip(group["names"], group["params"], strict=True):
            state |= {f"{name} {k}": v for k, v in optimiser.state[parameter].items()}
    return state, (folder / "metrics.jsonl").read_bytes()


def assert_same(one, other):
    (state, metrics), (state_again, metrics_again) = one, other
    assert state.keys() == state_again.keys()
    for name, value in state.items():
        assert torch.equal(value, state_again[name]), name
    assert metrics == metrics_again


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    made = {}

    def of(optimiser):
        if optimiser not in made:
            folder = tmp_path_factory.mktemp(optimiser)
            made[optimiser] = traces(*run(folder, optimiser=optimiser), folder)
        return made[optimiser]

    return of


@pytest.mark.parametrize(
    ("optimiser", "step", "micro"),
    [
        ("lars", 9, 1),  # the last of epoch five
        ("lars", 12, 1),  # amid an epoch, an accumulation and a window
        ("lars", 0, 0),
        ("lars", STEPS - 1, 0),
        ("adamw", 12, 0),
        ("sgd", 12, 0),
    ],
)
def test_a_stopped_and_resumed_run_equals_an_undisturbed_one(
    tmp_path, undisturbed, optimiser, step, micro
):
    stopping = Disturbed(8, 2 * step + micro, terminate)
    with pytest.raises(
        InterruptedTrainingError, match=rf"stopped by SIGTERM and saved at step {step + 1} of 20"
    ):
        run(tmp_path, stopping, optimiser)
    assert checkpoint.newest(tmp_path)[0] == step + 1
    resumed = run(tmp_path, optimiser=optimiser, seed=1)  # other weights, to be replaced
    assert_same(traces(*resumed, tmp_path), undisturbed(optimiser))


@pytest.mark.parametrize("step", [3, 12, 13])
def test_a_run_that_died_repeats_what_was_not_saved(tmp_path, undisturbed, step):
    with pytest.raises(OSError, match="power"):
        run(tmp_path, Disturbed(8, 2 * step, die))
    assert checkpoint.newest(tmp_path)[0] == step // STEPS_EACH * STEPS_EACH
    assert_same(traces(*run(tmp_path, seed=1), tmp_path), undisturbed("lars"))


def test_a_run_cut_off_many_times_still_arrives(tmp_path, undisturbed):
    for _ in range(3):
        with pytest.raises(InterruptedTrainingError):
            run(tmp_path, Disturbed(8, 9, terminate))
    assert_same(traces(*run(tmp_path, seed=1), tmp_path), undisturbed("lars"))


def test_a_finished_run_is_left_as_it_is(tmp_path, undisturbed):
    run(tmp_path)
    views = calm()
    assert_same(traces(*run(tmp_path, views, seed=1), tmp_path), undisturbed("lars"))
    assert views.calls == 0


def test_the_damaged_newest_checkpoint_costs_an_epoch_and_no_more(tmp_path, undisturbed, capsys):
    with pytest.raises(OSError, match="power"):
        run(tmp_path, Disturbed(8, 2 * 12, die))
    (checkpoint.written(tmp_path)[-1] / "tensors.safetensors").write_bytes(b"")
    assert_same(traces(*run(tmp_path, seed=1), tmp_path), undisturbed("lars"))
    assert "00000012/tensors.safetensors is damaged" in capsys.readouterr().out


def test_two_trainings_in_one_process_leave_each_other_alone(tmp_path, undisturbed):
    other = tmp_path / "other"
    other.mkdir()
    learner, optimiser = parts("adamw", dimensions=12)
    train(learner, images(12), calm(12), optimiser, WEIGHTS, replace(PLAN, epochs=2), other)
    second = tmp_path / "second"
    assert_same(traces(*run(second), second), undisturbed("lars"))


def test_what_is_not_finite_stops_the_run_and_is_never_saved(tmp_path):
    with pytest.raises(TrainingError, match=r"not finite at step 7 of 20: loss=nan, contrast=nan"):
        run(tmp_path, Disturbed(8, 2 * 7, spoil))
    step, tensors = checkpoint.newest(tmp_path)
    assert step == 6
    assert all(bool(t.isfinite().all()) for t in tensors.values())
    assert all(line["step"] <= 6 for line in read_lines(tmp_path / "metrics.jsonl"))


def test_not_even_when_a_checkpoint_falls_due_within_the_window(tmp_path):
    plan = replace(PLAN, log_every=1000, checkpoint_minutes=0.0)
    with pytest.raises(TrainingError, match="at step 7 of 20"):
        run(tmp_path, Disturbed(8, 2 * 7, spoil), plan=plan)
    assert checkpoint.newest(tmp_path)[0] == 7


def test_a_gradient_that_is_not_finite_stops_before_the_step_though_the_loss_is(tmp_path):
    learner, optimiser = parts("sgd")
    before = {name: value.clone() for name, value in learner.named_parameters()}
    weight = learner.framework.online.projector[0].weight
    weight.register_hook(lambda gradient: gradient / 0)  # as an overflow on the way back
    plan = replace(PLAN, warmup_epochs=0.0, checkpoint_minutes=0.0)
    with pytest.raises(TrainingError) as caught:
        train(learner, images(), calm(), optimiser, WEIGHTS, plan, tmp_path)
    said = str(caught.value)
    assert "not finite at step 0 of 20: loss=" in said
    assert "gradient of the weights of all other parts=nan" in said
    assert "gradient of the biases and norms of framework.online.head.gate=nan" not in said
    assert "No finite gradient have framework.online.projector.0.weight." in said
    order = epoch_order(IMAGES, PLAN.seed, 0).tolist()
    assert f"Images of the step: {order[0]}, {order[1]}, {order[2]} and 5 more." in said
    assert checkpoint.newest(tmp_path) is None
    for name, value in learner.named_parameters():
        assert torch.equal(value, before[name])


def test_weights_that_a_step_has_ruined_are_never_saved_though_loss_and_gradient_were_finite(
    tmp_path,
):
    learner, optimiser = parts("sgd")
    optimiser.param_groups[0]["peak_lr"] = 3e38
    for parameter in optimiser.param_groups[0]["params"]:
        parameter.register_hook(lambda gradient: 1e6 * gradient)
    plan = replace(PLAN, warmup_epochs=0.0, checkpoint_minutes=0.0)
    with pytest.raises(TrainingError, match=r"at step 0 of 20: framework\.\S+weight after it=nan"):
        train(learner, images(), calm(), optimiser, WEIGHTS, plan, tmp_path)
    assert checkpoint.newest(tmp_path) is None


def test_what_is_known_of_a_step_that_went_wrong_is_kept(tmp_path):
    spoilt = {}

    def spoil_one(query):
        query = query.clone()
        query[2, :, 0, 0] = float("nan")  # the third image of the second micro-step
        spoilt["view"] = query.clone()
        return query

    with pytest.raises(TrainingError, match=r"kept in .*failure\."):
        run(tmp_path, Disturbed(8, 2 * 7 + 1, spoil_one))
    facts = json.loads((tmp_path / "failure" / "state.json").read_text())
    tensors = load_file(tmp_path / "failure" / "tensors.safetensors")
    order = epoch_order(IMAGES, PLAN.seed, 3).tolist()[8:16]
    assert facts["step"] == 7
    assert facts["values"]["loss"] == "nan"
    assert facts["images"] == [str(i) for i in order]
    assert "framework.online.projector.0.weight" in facts["gradients_not_finite"]
    # Weights are those before the step: a run that is stopped there has the same.
    with pytest.raises(InterruptedTrainingError):
        run(tmp_path / "twin", Disturbed(8, 2 * 6, terminate))
    _, twin = checkpoint.newest(tmp_path / "twin")
    parameters = [n for n, _ in parts()[0].named_parameters()]
    assert parameters
    for name in parameters:
        assert torch.equal(tensors[f"learner/{name}"], twin[f"learner/{name}"])
        assert f"gradient/{name}" in tensors
    assert tensors["views/0/query"].shape == (4, 3, 8, 8)
    # The views are made again from seed and step; what spoilt this one was put in by the test.
    clean = ~spoilt["view"].isnan()
    assert torch.equal(tensors["views/1/query"][clean], spoilt["view"][clean])


def test_an_image_whose_features_are_not_finite_by_themselves_is_named(tmp_path):
    learner, optimiser = parts("sgd")

    class Brittle(nn.Module):
        """Divides by zero on the one image that begins with this pixel."""

        def forward(self, x):
            odd = ((x[:, :, 0, 0] - pixel).abs() < 1e-4).all(dim=1)
            return x / (~odd).float().view(-1, 1, 1, 1)

    pixel = (images().pixels[11][:, 0, 0] / 255 - 0.5) / 0.25
    learner.framework.online.encoder.insert(0, Brittle())
    still = ViewSettings(
        size=8, jitter=0.0, blur=0.0, grey=0.0, flip=0.0, crop=(1.0, 1.0), ratio=(1.0, 1.0)
    )
    views = TwoViews(still, (0.5,) * 3, (0.25,) * 3, PLAN.seed, PLAN.batch)
    with pytest.raises(TrainingError):
        train(learner, images(), views, optimiser, WEIGHTS, PLAN, tmp_path)
    facts = json.loads((tmp_path / "failure" / "state.json").read_text())
    assert facts["images_not_finite"] == ["11"]


def test_a_failure_that_cannot_be_kept_is_still_told(tmp_path):
    (tmp_path / ".failure.writing").write_text("a file where a folder must be made")
    with pytest.raises(TrainingError, match=r"not finite at step 7 .*could not be kept: .*failure"):
        run(tmp_path, Disturbed(8, 2 * 7, spoil))


def test_a_line_is_the_mean_over_micro_steps(tmp_path):
    plan = replace(PLAN, log_every=1)
    with pytest.raises(InterruptedTrainingError):
        run(tmp_path, Disturbed(8, 0, terminate), plan=plan)
    learner, _ = parts()
    order = epoch_order(IMAGES, PLAN.seed, 0)
    seen = []
    for micro in range(2):
        rows = slice(4 * micro, 4 * micro + 4)
        query, key = calm()(images().pixels[order[rows]], 0, rows)
        seed_noise(PLAN.seed, 0, micro)
        seen.append(learner.train()(query, key).terms)
    line = read_lines(tmp_path / "metrics.jsonl")[0]
    for name in ("contrast", "gate_kl"):
        assert line[name] == pytest.approx((seen[0][name] + seen[1][name]).item() / 2, rel=1e-5)
    assert line["loss"] == pytest.approx(line["contrast"] + 0.1 * line["gate_kl"], rel=1e-6)


def test_moments_between_epochs_are_saved_when_they_are_due(tmp_path):
    with pytest.raises(OSError, match="power"):
        run(tmp_path, Disturbed(8, 2 * 5, die), plan=replace(PLAN, checkpoint_minutes=0.0))
    assert checkpoint.newest(tmp_path)[0] == 5


def test_what_gradients_do_not_move_is_moved_once_an_optimiser_step(tmp_path):
    learner, _ = run(tmp_path)
    assert learner.framework.online.head.inner.updates.item() == STEPS
    batches = IMAGES // (PLAN.batch // PLAN.accumulate)  # of plain images, at the end
    assert learner.framework.online.encoder[1].num_batches_tracked.item() == batches


def test_accumulated_gradients_are_those_of_the_mean_over_micro_steps(tmp_path):
    """A step of plain SGD against the loss written out, from the same weights and views."""
    plan = replace(PLAN, epochs=1, warmup_epochs=0.0, log_every=1)
    weights = {"contrast": 2.0, "gate_kl": 0.5}
    learner, optimiser = parts("sgd")
    with pytest.raises(InterruptedTrainingError):
        train(learner, images(), Disturbed(8, 0, terminate), optimiser, weights, plan, tmp_path)

    expected, _ = parts("sgd")
    order = epoch_order(IMAGES, PLAN.seed, 0)
    losses = []
    for micro in range(2):
        rows = slice(4 * micro, 4 * micro + 4)
        query, key = calm()(images().pixels[order[rows]], 0, rows)
        seed_noise(PLAN.seed, 0, micro)
        step = expected.train()(query, key)
        losses.append(2.0 * step.terms["contrast"] + 0.5 * step.terms["gate_kl"])
    (sum(losses) / 2).backward()
    for name, parameter in expected.named_parameters():
        rate = 0.02 if ".head.gate." in name else 0.05
        decay = 1e-4 if parameter.ndim > 1 else 0.0
        moved = parameter - rate * (parameter.grad + decay * parameter)
        torch.testing.assert_close(learner.get_parameter(name), moved, atol=1e-6, rtol=1e-4)
    line = read_lines(tmp_path / "metrics.jsonl")[0]
    assert line["lr"] == pytest.approx(0.05)


def test_signal_handlers_are_given_back(tmp_path):
    before = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)]
    with pytest.raises(InterruptedTrainingError):
        run(tmp_path, Disturbed(8, 0, terminate))
    assert [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)] == before


def interrupt_twice(query, pause):
    signal.raise_signal(signal.SIGINT)
    time.sleep(pause)
    signal.raise_signal(signal.SIGINT)
    return query


def test_asked_again_by_hand_it_stops_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("pellucid.train.stopping.IMPATIENT", 0.01)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, Disturbed(8, 0, lambda query: interrupt_twice(query, 0.02)))
    assert checkpoint.newest(tmp_path) is None


@pytest.mark.parametrize(
    "again", [lambda q: interrupt_twice(q, 0), lambda q: terminate(terminate(q))]
)
def test_one_request_that_arrives_twice_is_one(tmp_path, again):
    """As under torchrun, which passes on a Ctrl-C that the terminal has already sent to all."""
    with pytest.raises(InterruptedTrainingError, match="saved at step 1 of 20"):
        run(tmp_path, Disturbed(8, 0, again))
    assert checkpoint.newest(tmp_path)[0] == 1


def test_layout_and_precision():
    views = torch.rand(2, 3, 8, 8)
    assert torch.equal(layout(views), views)
    assert layout(views).is_contiguous(memory_format=torch.channels_last)
    for precision, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        with autocast(torch.device("cpu"), precision):
            assert (torch.rand(2, 2) @ torch.rand(2, 2)).dtype == dtype


def test_bf16_trains_with_the_loss_in_fp32(tmp_path):
    run(tmp_path, plan=replace(PLAN, precision="bf16", epochs=3))
    assert all(line["contrast"] > 0 for line in read_lines(tmp_path / "metrics.jsonl"))
