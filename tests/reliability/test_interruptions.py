"""A run cut off at any moment, in any of these ways, ends as if nothing had happened."""

import json
import random
import time

import pytest
import torch
from safetensors.torch import load_file

from pellucid.train import checkpoint
from pellucid.train.log import read_lines

GATED = [
    *("head.name=bayes-gate", "head.hidden=16", "head.variant=gumbel", "weights.gate_kl=1e-3"),
]
METHODS = {
    "ie-simclr": GATED,
    "ie-moco": [*GATED, "framework.queue=11", "framework.momentum=0.9"],
    "ie-byol": [*GATED, "framework.predictor_hidden=16", "framework.momentum=0.9"],
}
KINDS = ("kill", "term", "full", "readonly", "short")
NAMES = {-9: "SIGKILL", -15: "SIGTERM", 143: "SIGTERM", 1: "an error"}


def fault_of(dice, changes, seconds):
    """A moment of a run that takes so many changes of its directory, or so many seconds."""
    kind = dice.choice(KINDS)
    if kind in ("kill", "term") and dice.random() < 0.5:
        return {"kind": kind, "after": dice.uniform(0, seconds)}
    fault = {"kind": kind, "change": dice.randint(1, changes)}
    return fault | ({"bytes": dice.randint(0, 200_000)} if kind == "short" else {})


def weights_of(folder):
    return load_file(checkpoint.written(folder)[-1] / "tensors.safetensors")


def assert_nothing_is_half(folder):
    """What a killed start left can all be read."""
    warnings = []
    if folder.exists():
        checkpoint.newest(folder, warnings.append)
    assert warnings == []
    for name in ("recipe.json", "environment.json"):
        if (folder / name).exists():
            json.loads((folder / name).read_text("utf-8"))


def assert_told(outcome, fault):
    """An ending that the command itself chose is explained in a line."""
    assert outcome.status in NAMES, outcome
    if outcome.status == 1:
        assert "error: " in outcome.said, outcome.said
        assert "Traceback" not in outcome.said
        assert fault["kind"] in ("full", "readonly", "short")
    if outcome.status == 143:
        assert "stopped by SIGTERM and saved at step" in outcome.said


@pytest.mark.parametrize("method", METHODS)
def test_a_run_interrupted_at_random_moments_equals_an_undisturbed_one(
    tmp_path, commands, photographs, tiny, tries, figure, method
):
    arguments = ["pretrain", method, photographs, "small", *tiny, *METHODS[method], "--out"]
    began = time.monotonic()
    whole = tmp_path / "whole"
    undisturbed = commands(*arguments, whole, folder=whole)
    seconds = time.monotonic() - began
    assert undisturbed.status == 0, undisturbed.said
    weights = weights_of(whole)
    assert len(read_lines(whole / "metrics.jsonl")) == 3

    dice, moments, runs, seen = random.Random(method), 0, 0, {}
    while moments < tries(3, 34):
        folder = tmp_path / f"run{runs}"
        for _ in range(dice.randint(1, 3)):
            fault = fault_of(dice, undisturbed.changes, seconds)
            outcome = commands(*arguments, folder, folder=folder, fault=fault)
            if outcome.status == 0:
                break  # it came too late
            moments += 1
            assert_told(outcome, fault)
            assert_nothing_is_half(folder)
            seen[fault["kind"]] = seen.get(fault["kind"], 0) + 1
        last = commands(*arguments, folder, folder=folder)
        assert last.status == 0, last.said
        again = weights_of(folder)
        assert again.keys() == weights.keys()
        for name, value in weights.items():
            assert torch.equal(value, again[name]), name
        for name in ("metrics.jsonl", "recipe.json"):
            assert (folder / name).read_bytes() == (whole / name).read_bytes()
        half = [path.name for path in folder.rglob("*.writing")]
        assert not half, "what a killed start left half is cleared away"
        runs += 1
    figure(
        "interrupted pretraining", method=method, moments=moments, runs=runs, identical=runs, **seen
    )
