"""metrics.jsonl, timing.jsonl, and values that are not finite."""

import json
import math

import pytest
import torch

from pellucid.train.finite import NotFiniteError
from pellucid.train.log import Log, read_lines

STEPS = 10


def value(number):
    return torch.tensor(float(number))


def lines(run, name="metrics.jsonl"):
    return read_lines(run / name)


def take(log, step, values, extra=None, gradient=0.25):
    """A step from its forward pass to its end."""
    norms = {"gradient of encoder": value(gradient), "gradient of head": value(0)}
    log.add(step, {name: value(number) for name, number in values.items()}, norms)
    log.end_step(step, {n: value(number) for n, number in (extra or {}).items()}, {"lr": 0.1})


def written(run, start, stop, log_every=4, restored=None, writes=True):
    """Add steps start to stop - 1 of values that tell their step; the still open window."""
    with Log(run, log_every, start, STEPS, batch=8, writes=writes) as log:
        log.restore(restored or {})
        for step in range(start, stop):
            take(log, step, {"loss": step, "contrast": step**2}, {"density": 0.5}, gradient=2)
        return log.state()


def test_a_collapse_is_told_once_and_not_before_the_warm_up_is_over(tmp_path, capsys):
    with Log(tmp_path, 2, 0, STEPS, batch=8, writes=True, settled=5) as log:
        for step in range(STEPS):
            closed = {"images_closed": 1, "alive": 0} if step > 7 else {}
            take(log, step, {"loss": 1}, {"z_std": 0, "z_rank": 1, **closed})
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("the representation has collapsed") == 1
    assert said.count("the gates are closed") == 1  # another kind, later
    assert "warning: step 6: the representation has collapsed: z_std 0 " in said


def test_what_is_measured_every_few_lines_falls_due_then_and_at_the_end(tmp_path):
    log = Log(tmp_path, 2, 0, 11, batch=8, writes=False)
    assert [step + 1 for step in range(11) if log.due(step)] == [2, 4, 6, 8, 10, 11]
    assert [step + 1 for step in range(11) if log.due(step, 2)] == [4, 8, 11]
    assert not [step for step in range(11) if log.due(step, 0)]


def test_a_line_is_the_mean_of_its_window(tmp_path):
    written(tmp_path, 0, STEPS)
    assert lines(tmp_path) == [
        {"step": 4, "loss": 1.5, "contrast": 14 / 4, "grad_norm": 2.0, "density": 0.5, "lr": 0.1},
        {"step": 8, "loss": 5.5, "contrast": 126 / 4, "grad_norm": 2.0, "density": 0.5, "lr": 0.1},
        {"step": 10, "loss": 8.5, "contrast": 145 / 2, "grad_norm": 2.0, "density": 0.5, "lr": 0.1},
    ]


def test_the_clock_is_in_a_file_of_its_own(tmp_path):
    written(tmp_path, 0, STEPS)
    timing = lines(tmp_path, "timing.jsonl")
    assert [line["step"] for line in timing] == [4, 8, 10]
    for line in timing:
        assert line.keys() == {"step", "seconds", "images_per_second"}
        assert line["seconds"] > 0
    taken = [4, 4, 2]
    for line, steps in zip(timing, taken, strict=True):
        assert line["images_per_second"] * line["seconds"] == pytest.approx(steps * 8)


@pytest.mark.parametrize("cut", range(1, STEPS))
def test_the_open_window_survives_a_resume(tmp_path, cut):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    written(whole, 0, STEPS)
    state = written(parts, 0, cut)
    assert all(name.startswith("log/") for name in state)
    written(
        parts,
        cut,
        STEPS,
        restored=dict(sorted((state | {"learner/0.weight": torch.zeros(2)}).items())),
    )
    assert (parts / "metrics.jsonl").read_bytes() == (whole / "metrics.jsonl").read_bytes()


def test_lines_after_the_checkpoint_are_dropped_when_training_starts_again(tmp_path):
    written(tmp_path, 0, 9)
    assert [line["step"] for line in lines(tmp_path)] == [4, 8]
    written(tmp_path, 5, 6)
    assert [line["step"] for line in lines(tmp_path)] == [4]
    assert [line["step"] for line in lines(tmp_path, "timing.jsonl")] == [4]


@pytest.mark.parametrize("end", ['{"step": 8, "lo', '{"step": 8}{"st', "\x00\x00"])
def test_a_half_written_last_line_is_left_out(tmp_path, end):
    written(tmp_path, 0, 5)
    path = tmp_path / "metrics.jsonl"
    with path.open("a") as file:
        file.write(end)
    assert [line["step"] for line in lines(tmp_path)] == [4]
    written(tmp_path, 4, 8)
    assert [line["step"] for line in lines(tmp_path)] == [4, 8]


def test_a_run_without_the_file_has_no_lines(tmp_path):
    assert read_lines(tmp_path / "metrics.jsonl") == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_stops_before_its_step_is_taken_with_all_its_values(tmp_path, bad):
    with Log(tmp_path, 4, 0, STEPS, 8, writes=True) as log:
        take(log, 0, {"loss": 1, "contrast": 3})
        with pytest.raises(NotFiniteError) as caught:
            take(log, 1, {"loss": bad, "contrast": 3})
    assert caught.value.step == 1
    assert str(caught.value.values["loss"]) == str(bad)
    assert caught.value.values["contrast"] == 3
    assert not (tmp_path / "metrics.jsonl").exists()


def test_a_gradient_that_is_not_finite_stops_too_though_the_loss_is(tmp_path):
    with Log(tmp_path, 4, 0, STEPS, 8, writes=True) as log, pytest.raises(NotFiniteError) as caught:
        take(log, 0, {"loss": 1}, gradient=math.inf)
    assert caught.value.values["gradient of encoder"] == math.inf
    assert caught.value.values["gradient of head"] == 0


def test_on_another_device_values_are_looked_at_when_the_window_ends(tmp_path, monkeypatch):
    """As on a GPU, where each look waits for it: here, with the look itself held back."""
    with Log(tmp_path, 4, 0, STEPS, 8, writes=True) as log:
        with monkeypatch.context() as patch:
            patch.setattr(log, "check", lambda: None)
            for step in range(3):
                take(log, step, {"loss": math.nan if step == 1 else 1})
        with pytest.raises(NotFiniteError) as caught:
            take(log, 3, {"loss": 1})
    assert caught.value.step == 1
    assert not (tmp_path / "metrics.jsonl").exists()


def test_other_ranks_check_and_write_nothing(tmp_path):
    written(tmp_path, 0, STEPS, writes=False)
    assert list(tmp_path.iterdir()) == []


def test_lines_are_json_without_the_clock(tmp_path):
    written(tmp_path, 0, STEPS)
    for text in (tmp_path / "metrics.jsonl").read_text().splitlines():
        assert json.loads(text).keys() == {"step", "loss", "contrast", "grad_norm", "density", "lr"}


def test_without_a_terminal_the_last_step_is_printed(tmp_path, capsys):
    written(tmp_path, 0, STEPS)
    said = capsys.readouterr().err
    assert "step 10/10" in said
    assert "loss 8.5" in said
    assert "step 4/10" not in said  # half a minute has not passed
