"""What `evaluate`, `explore` and `embed` write is whole or absent, and comes out the same."""

import json
import random
import shutil

import pytest

from pellucid.embed.shard import shard_facts
from pellucid.evaluate.store import read_features
from pellucid.locks import exclusively
from pellucid.run import RunError, open_run

KINDS = ("kill", "full", "readonly", "short")


@pytest.fixture(scope="module")
def run(tmp_path_factory, commands, photographs, tiny):
    folder = tmp_path_factory.mktemp("run") / "run"
    settings = [*tiny, "train.epochs=1", "head.hidden=16"]
    ended = commands(
        "pretrain", "bayesncl", photographs, "small", *settings, "--out", folder, folder=folder
    )
    assert ended.status == 0, ended.said
    return folder


def files_below(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(".lock")
    }


def check_evaluation(folder):
    """Scores and features are absent or can be read, and belong together."""
    if (folder / "scores.json").exists():
        json.loads((folder / "scores.json").read_text("utf-8"))
    if (folder / "features" / "test.json").exists():
        assert len(read_features(open_run(folder)).names) == 10
    else:
        assert not (folder / "scores.json").exists()
        with pytest.raises(RunError, match="run `pellucid evaluate"):
            read_features(open_run(folder))


def check_page(folder):
    if (folder / "explore.html").exists():
        assert (folder / "explore.html").read_text("utf-8").rstrip().endswith("</html>")


def check_embedding(folder):
    for path in folder.glob("out/*.parquet"):
        assert shard_facts(path) is not None
    if (folder / "out" / "manifest.json").exists():
        manifest = json.loads((folder / "out" / "manifest.json").read_text("utf-8"))
        assert not manifest["complete"] or manifest["rows"] == 10


COMMANDS = {
    "evaluate": (lambda folder, _: ["evaluate", folder, "--device=cpu"], check_evaluation),
    "explore": (lambda folder, _: ["explore", folder], check_page),
    "embed": (
        lambda folder, data: [
            "embed",
            folder,
            "--data",
            data,
            "--out",
            folder / "out",
            "--device=cpu",
        ],
        check_embedding,
    ),
}


@pytest.mark.parametrize("verb", COMMANDS)
def test_interrupted_at_any_change_of_its_directory_it_is_whole_or_absent(
    tmp_path, commands, run, photographs, tries, figure, verb
):
    command, check = COMMANDS[verb]
    whole = tmp_path / "run"  # of one name, which scores and pages bear
    shutil.copytree(run, whole)
    if verb == "explore":
        assert commands("evaluate", whole, "--device=cpu", folder=whole).status == 0
    start = tmp_path / "start"
    shutil.copytree(whole, start)
    undisturbed = commands(*command(whole, photographs), folder=whole)
    assert undisturbed.status == 0, undisturbed.said
    expected = files_below(whole)

    dice, interrupted = random.Random(verb), 0
    moments = [(change + 1, kind) for change in range(undisturbed.changes) for kind in KINDS]
    for change, kind in dice.sample(moments, min(tries(2, 24), len(moments))):
        shutil.rmtree(whole)
        shutil.copytree(start, whole)
        fault = {"kind": kind, "change": change, "bytes": dice.randint(0, 3000)}
        outcome = commands(*command(whole, photographs), folder=whole, fault=fault)
        if outcome.status != 0:
            interrupted += 1
            assert outcome.status == -9 if kind == "kill" else "error: " in outcome.said, outcome
            check(whole)
        last = commands(*command(whole, photographs), folder=whole)
        assert last.status == 0, last.said
        again = files_below(whole)
        assert again.keys() == expected.keys()
        for name, content in expected.items():
            assert again[name] == content, name
    figure(f"interrupted {verb}", moments=interrupted, identical=interrupted)


@pytest.mark.parametrize("verb", ["pretrain", "evaluate", "embed"])
def test_a_second_process_on_one_directory_is_refused(
    commands, run, photographs, tiny, tmp_path, verb
):
    settings = [*tiny, "train.epochs=1", "head.hidden=16"]
    folder = tmp_path / "out" if verb == "embed" else run
    arguments = {
        "pretrain": ["bayesncl", photographs, "small", *settings, "--out", run],
        "evaluate": [run],
        "embed": [run, "--data", photographs, "--out", folder],
    }[verb]
    folder.mkdir(exist_ok=True)
    before = files_below(folder)
    with exclusively(folder, verb):
        refused = commands(verb, *arguments, folder=folder)
    assert refused.status == 1
    assert f"error: another process runs `pellucid {verb}` on {folder}" in " ".join(
        refused.said.split()
    )
    assert files_below(folder) == before
    assert commands(verb, *arguments, folder=folder).status == 0
