"""The command line: help, errors in words, and the whole way from images to a table."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from pellucid import pretraining
from pellucid.cli import compare as compare_verb
from pellucid.cli import evaluate, listing, main
from pellucid.recipe import compose, names

VERBS = ("pretrain", "preview", "evaluate", "compare", "embed", "why", "search", "list")
TINY = [
    "small", "data.stored_size=8", "views.size=8", "projector.hidden=16", "projector.dimensions=8",
    "data.limit=16", "train.batch=8", "train.epochs=1", "train.warmup_epochs=0",
    "evaluation.train_limit=100",
]  # fmt: skip


def usage(arguments):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return stop.value.code


def test_help_names_every_verb_and_a_first_command(capsys):
    assert usage(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(verb in said for verb in VERBS)
    assert "pellucid pretrain bayesncl scenes --out runs/bayesncl" in said


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_help_with_an_example(capsys, verb):
    assert usage([verb, "--help"]) == 0
    said = capsys.readouterr().out
    assert f"pellucid {verb}" in said
    assert "example" in said


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["train"],
        ["pretrain", "ncl"],
        ["pretrain", "ncl", "scenes", "--outt", "x"],
        ["evaluate", "a", "b"],
        ["list", "dogs"],
        ["compare"],
    ],
)
def test_bad_usage_ends_with_2(capsys, arguments):
    assert usage(arguments) == 2
    assert "usage: pellucid" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pretrain", "bayesnlc", "scenes"], "unknown method 'bayesnlc'. Did you mean bayesncl"),
        (["pretrain", "ncl", "scens"], "unknown data set or path 'scens'. Did you mean scenes?"),
        (["pretrain", "ncl", "scenes", "smal"], "unknown size 'smal'. Did you mean small?"),
        (["pretrain", "ncl", "scenes", "train.epoch=1"], "unknown key 'train.epoch'"),
        (["pretrain", "ncl", "scenes", "lr=1", "small"], "'small' is no setting"),
        (["preview", "ncl", "scenes", "views.crop=[0, 1]"], "views: crop = (0.0, 1.0)"),
    ],
)
def test_an_error_ends_with_1_and_a_line_without_a_trace(tmp_path, capsys, arguments, words):
    assert main([*arguments, "--out", str(tmp_path / "run")]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("error: ")
    assert words in said.err
    assert "Traceback" not in said.err + said.out
    assert not (tmp_path / "run").exists()


def asked(monkeypatch, arguments):
    """What `pretrain` is called with."""
    calls = []
    monkeypatch.setattr(pretraining, "pretrain", lambda *given, **_: calls.append(given))
    assert main(["pretrain", *arguments]) == 0
    [(recipe, folder)] = calls
    return recipe, folder


@pytest.mark.parametrize(
    "arguments",
    [
        ["ncl", "scenes", "small", "lr=0.3", "train.seed=2", "--out", "a"],
        ["ncl", "scenes", "small", "--out", "a", "lr=0.3", "train.seed=2"],
        ["--out", "a", "ncl", "scenes", "--device", "cpu", "small", "lr=0.3", "train.seed=2"],
        ["ncl", "scenes", "small", "lr=0.3", "--out", "a", "train.seed=2"],
    ],
)
def test_settings_may_stand_anywhere(monkeypatch, arguments):
    recipe, folder = asked(monkeypatch, arguments)
    assert recipe == compose("ncl", "scenes", "small", ["lr=0.3", "train.seed=2"])
    assert folder == Path("a")


def test_a_run_directory_is_named_after_what_is_in_it(monkeypatch, tmp_path):
    for arguments, name in (
        (["ncl", "scenes"], "ncl-scenes-paper-0"),
        (["bayesncl", "cifar10", "small", "train.seed=3"], "bayesncl-cifar10-small-3"),
        (["ncl", str(tmp_path / "..")], f"ncl-{tmp_path.parent.name}-paper-0"),
    ):
        assert asked(monkeypatch, arguments)[1] == Path("runs") / name


def test_brackets_of_a_message_are_not_taken_for_markup(tmp_path, capsys):
    assert main(["pretrain", "ncl", "scenes", "train.[red]=1", "--out", str(tmp_path / "a")]) == 1
    assert "train.[red]" in capsys.readouterr().err


def test_a_folder_that_is_no_run_ends_with_1(tmp_path, capsys):
    assert main(["evaluate", str(tmp_path)]) == 1
    assert "is no run directory" in capsys.readouterr().err


def test_a_traceback_is_shown_when_asked_for():
    with pytest.raises(ValueError, match="unknown method"):
        main(["--traceback", "pretrain", "nlc", "scenes", "--out", "runs/none"])


def test_ctrl_c_ends_with_130(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "run", interrupted)
    assert main(["list", "heads"]) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "name", "about"),
    [
        ("heads", "bayes-gate", "variant=ste|gumbel|soft"),
        ("frameworks", "simclr", "NT-Xent"),
        ("transforms", "unchanged", "as it is"),
        ("optimisers", "lars", "trust=0.02"),
        ("encoders", "resnet18-thin", "ResNet-18"),
        ("methods", "ncl", "NCL"),
        ("data", "scenes", "handwritten digits"),
        ("sizes", "small", "two CPU cores"),
    ],
)
def test_what_can_be_named_is_listed_with_a_line_about_it(capsys, kind, name, about):
    assert main(["list", kind]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert about in lines[name]
    if kind in ("methods", "data", "sizes"):
        assert list(lines) == names(kind)


def test_from_images_to_a_table(tmp_path, capsys, monkeypatch):
    wide = Console(width=200, record=True)
    for verb in (evaluate, compare_verb):
        monkeypatch.setattr(verb, "Console", lambda: wide)
    runs = [str(tmp_path / name) for name in ("simclr", "ncl")]
    for method, run in zip(("simclr", "ncl"), runs, strict=True):
        assert main(["pretrain", method, "scenes", *TINY, "--out", run, "--device", "cpu"]) == 0
        assert main(["evaluate", run, "--device", "cpu"]) == 0
        scores = json.loads((tmp_path / method / "scores.json").read_text())
        assert scores["step"] == 2
        assert scores["method"] == method
        assert 0 <= scores["trained"]["knn"]["value"] <= 1
    out = tmp_path / "comparison"
    assert main(["compare", *runs, "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} >= {"compare.md", "compare.csv", "compare.png"}
    assert (out / "compare.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    table = (out / "compare.md").read_text("utf-8")
    assert "simclr" in table
    assert "ncl" in table
    assert "knn" in wide.export_text().lower()


def test_a_preview_shows_what_a_query_transform_does(tmp_path, capsys):
    out = tmp_path / "views.png"
    settings = [*TINY, "query_transform.patch=2"]
    assert main(["preview", "ie-simclr", "scenes", *settings, "--out", str(out)]) == 0
    assert (tmp_path / "views-transform.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    said = capsys.readouterr()
    assert "views-transform.png" in said.err
    assert "query transform" in said.out


def test_a_preview_is_a_png_and_an_estimate(tmp_path, capsys):
    out = tmp_path / "sheets" / "views.png"
    assert main(["preview", "ncl", "scenes", *TINY, "--out", str(out), "--device", "cpu"]) == 0
    assert out.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    said = capsys.readouterr()
    assert "s a step" in said.err
    assert "2 steps of 8 images" in said.err
    assert "encoder" in said.out
    assert [path.name for path in out.parent.iterdir()] == ["views.png"]
