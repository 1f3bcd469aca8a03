"""metrics.jsonl, timing.jsonl, and values that are not finite."""

import json
import math

import pytest
import torch

from pellucid.train.log import Log, TrainingError, read_lines

STEPS = 10


def value(number):
    return torch.tensor(float(number))


def lines(run, name="metrics.jsonl"):
    return read_lines(run / name)


def written(run, start, stop, log_every=4, restored=None, writes=True):
    """Add steps start to stop - 1 of values that tell their step; the still open window."""
    with Log(run, log_every, start, STEPS, batch=8, writes=writes) as log:
        log.restore(restored or {})
        for step in range(start, stop):
            log.add(
                step,
                {"loss": value(step), "contrast": value(step**2)},
                {"density": value(0.5)},
                {"lr": 0.1},
            )
        return log.state()


def test_a_collapse_is_told_once_and_not_before_the_warm_up_is_over(tmp_path, capsys):
    with Log(tmp_path, 2, 0, STEPS, batch=8, writes=True, settled=5) as log:
        for step in range(STEPS):
            log.add(step, {"loss": value(1)}, {"z_std": value(0), "z_rank": value(1)}, {"lr": 0.1})
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("the representation has collapsed") == 1
    assert "warning: step 6: the representation has collapsed: z_std 0 " in said


def test_what_is_measured_every_few_lines_falls_due_then_and_at_the_end(tmp_path):
    log = Log(tmp_path, 2, 0, 11, batch=8, writes=False)
    assert [step + 1 for step in range(11) if log.due(step)] == [2, 4, 6, 8, 10, 11]
    assert [step + 1 for step in range(11) if log.due(step, 2)] == [4, 8, 11]
    assert not [step for step in range(11) if log.due(step, 0)]


def test_a_line_is_the_mean_of_its_window(tmp_path):
    written(tmp_path, 0, STEPS)
    assert lines(tmp_path) == [
        {"step": 4, "loss": 1.5, "contrast": 14 / 4, "density": 0.5, "lr": 0.1},
        {"step": 8, "loss": 5.5, "contrast": 126 / 4, "density": 0.5, "lr": 0.1},
        {"step": 10, "loss": 8.5, "contrast": 145 / 2, "density": 0.5, "lr": 0.1},
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
def test_what_is_not_finite_stops_with_the_step_and_the_terms(tmp_path, bad):
    with Log(tmp_path, 4, 0, STEPS, 8, writes=True) as log:
        for step in range(3):
            loss = bad if step == 2 else 1
            log.add(step, {"loss": value(loss), "contrast": value(3)}, {}, {"lr": 0.1})
        last = {"loss": value(1), "contrast": value(3)}
        with pytest.raises(TrainingError, match=r"at step 2 of 10: .*contrast=3") as caught:
            log.add(3, last, {}, {"lr": 0.1})
    assert f"loss={bad:.6g}" in str(caught.value)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_a_check_between_lines_finds_it_too_and_loses_no_values(tmp_path):
    with Log(tmp_path, 4, 0, STEPS, 8, writes=True) as log:
        log.add(0, {"loss": value(1)}, {}, {"lr": 0.1})
        log.flush()
        log.flush()
        for step in (1, 2, 3):
            log.add(step, {"loss": value(3)}, {}, {"lr": 0.1})
        assert lines(tmp_path) == [{"step": 4, "loss": 2.5, "lr": 0.1}]
        log.add(4, {"loss": value(math.nan)}, {}, {"lr": 0.1})
        with pytest.raises(TrainingError, match="at step 4"):
            log.flush()


def test_other_ranks_check_and_write_nothing(tmp_path):
    written(tmp_path, 0, STEPS, writes=False)
    assert list(tmp_path.iterdir()) == []


def test_lines_are_json_without_the_clock(tmp_path):
    written(tmp_path, 0, STEPS)
    for text in (tmp_path / "metrics.jsonl").read_text().splitlines():
        assert json.loads(text).keys() == {"step", "loss", "contrast", "density", "lr"}


def test_without_a_terminal_the_last_step_is_printed(tmp_path, capsys):
    written(tmp_path, 0, STEPS)
    said = capsys.readouterr().err
    assert "step 10/10" in said
    assert "loss 8.5" in said
    assert "step 4/10" not in said  # half a minute has not passed
