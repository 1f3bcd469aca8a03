import csv
import io
import json
import re

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from pellucid.compare.compare import compare
from pellucid.compare.comparison import COLUMNS, OPTIONAL, Cell, Row, differences, leader
from pellucid.compare.evaluated import Evaluated, read_evaluated
from pellucid.evaluate.extract import Features
from pellucid.evaluate.interpretability import interpretability
from pellucid.evaluate.score import score
from pellucid.recipe import compose
from pellucid.representation.representation import Representation
from pellucid.run import RunError, start_run


def scores(consistency, probe, reach=0.02):
    """Scores of one branch, the names being those of evaluation.py."""
    between = {"low": consistency - reach, "high": consistency + reach}
    probed = {"low": probe - reach, "high": probe + reach, "dimensions": 128, "support": 2000}
    live = {"dimensions": 256, "support": 1}
    scored = {"dimensions": 250, "support": 12}
    return {
        "semantic_consistency": score(consistency, chance=0.112, **between, **scored),
        "semantic_consistency_published": score(consistency + 0.1, chance=0.2, **live),
        "semantic_entropy_mass": score(1.9, chance=2.2, **scored),
        "activation_rate": score(0.98, **live),
        "density": score(0.31, **live),
        "monosemanticity": score(0.4, chance=0.21, **scored),
        "linear_probe_top1": score(probe, chance=0.1, **probed),
        "knn": score(probe - 0.1, chance=0.1, **probed),
        "retrieval_at_1": score(0.37, chance=0.1, dimensions=256, support=2000),
    }


def make_run(root, name, method="ncl", consistency=0.3, probe=0.7, *, data="scenes", **settings):
    overrides = [f"train.seed={settings.pop('seed', 0)}", *settings.pop("overrides", ())]
    run = start_run(root / name, compose(method, "scenes", "small", overrides))
    tree = {
        "settings": {"data": data, "scored_images": 2000, "dimensions": 256, "min_support": 10},
        "trained": scores(consistency, probe),
        "untrained": scores(0.15, 0.3),
        "cost": {"parameters": {"total": 941_234}},
        "timing": {"seconds": 71.3},
    } | settings
    (run.folder / "scores.json").write_text(json.dumps(tree))
    return run.folder


def printed(folders, out=None, width=400, **of_files):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    compare(folders, console, out, **of_files)
    return console.file.getvalue()


def drawn_z(n=90, k=6, seed=0):
    """Non-negative features; dimension c of the first three is strongest on class c."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.rand(n, k, generator=generator) * (torch.rand(n, k, generator=generator) < 0.4)
    z[torch.arange(n), torch.arange(n) % 3] += 1
    return z


def write_file(path, z, **others):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, z=z.numpy(), **{name: value.numpy() for name, value in others.items()})
    return path


def write_labels(path, n=90):
    path.write_text("\n".join(str(i % 3) for i in range(n)))
    return path


def read_csv(out):
    with (out / "compare.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def line_of(text, name):
    return next(line for line in text.splitlines() if line.split()[:1] == [name])


def test_one_row_a_run_with_interval_chance_and_cost_and_an_untrained_one(tmp_path):
    text = printed(
        [make_run(tmp_path, "a-run", "ncl", 0.3, 0.7), make_run(tmp_path, "b-run", "simclr")]
    )
    for shown in (
        "0.300",
        "0.400",
        "1.90",
        "0.980",
        "0.310",
        "0.700",
        "0.600",
        "0.370",
        "0.94",
        "71",
    ):
        assert shown in line_of(text, "a-run").split()
    assert "[0.280, 0.320]" in text
    assert "chance 0.112" in text
    assert "chance 0.210" in text
    assert "untrained (a-run)" in text
    assert "a-run 250 (from 12)" in text
    assert "probe @1 0.100" in text
    assert "by object" not in text  # these runs are not of scenes


def test_scenes_add_consistency_by_object_and_background(tmp_path):
    sides = {"object": score(0.31, chance=0.12), "background": score(0.77, chance=0.25)}
    planted = {"consistency": sides, "gate": None}
    text = printed([make_run(tmp_path, "a-run", planted=planted)])
    assert {"0.310", "0.770"} <= set(line_of(text, "a-run").split())
    assert "by object 0.120, by background 0.250" in text


def test_a_query_transform_adds_what_it_does(tmp_path):
    without = {"query_entropy": -614.9, "entropy_gain": None, "drift": None}
    kept = {"same_image": 0.987, "same_class": 0.991, "chance": 0.001}
    with_it = {"query_entropy": -447.1, "entropy_gain": 2135.4, "drift": kept}
    runs = [
        make_run(tmp_path, name, query_view=view)
        for name, view in {"plain": without, "saib": with_it}.items()
    ]
    text = printed(runs)
    assert {"-447.1", "2135", "0.987"} <= set(line_of(text, "saib").split())
    assert "-614.9" in line_of(text, "plain")
    assert "same image" in text
    assert "same image" not in printed(runs[:1])


def test_seeds_become_mean_and_standard_deviation(tmp_path):
    values = [0.3, 0.34, 0.41]
    folders = [
        make_run(tmp_path, f"ncl-seed{i}", consistency=value, seed=i)
        for i, value in enumerate(values)
    ]
    folders.append(make_run(tmp_path, "simclr", "simclr", 0.11))
    out = tmp_path / "out"
    text = printed(folders, out)
    mean = sum(values) / 3
    std = (sum((value - mean) ** 2 for value in values) / 2) ** 0.5
    assert f"{mean:.3f} ± {std:.3f}" in text
    first, second, _ = read_csv(out)
    assert (first["run"], first["runs"]) == ("ncl (3 seeds)", "3")
    assert float(first["consistency"]) == pytest.approx(mean)
    assert float(first["consistency_std"]) == pytest.approx(std)
    assert (second["run"], second["consistency_std"]) == ("simclr", "")


def test_other_settings_or_equal_seeds_are_no_sample_of_seeds(tmp_path):
    folders = [
        make_run(tmp_path, "one", "bayesncl", overrides=["head.prior=0.3"]),
        make_run(tmp_path, "two", "bayesncl", overrides=["head.prior=0.8"], seed=1),
        make_run(tmp_path, "three", "bayesncl", overrides=["head.prior=0.8"], seed=1),
    ]
    text = printed(folders)
    assert "seeds)" not in text
    assert all(line_of(text, name) for name in ("one", "two", "three"))


def test_a_run_given_twice_counts_once_and_equal_names_get_their_folders(tmp_path):
    folder = make_run(tmp_path, "x/same")
    out = tmp_path / "out"
    printed([folder, tmp_path / "x" / ".." / "x" / "same"], out)
    assert [row["run"] for row in read_csv(out)] == ["same", "untrained (same)"]
    printed([folder, make_run(tmp_path, "y/same", "simclr")], out)
    assert [row["run"] for row in read_csv(out)][:2] == ["x/same", "y/same"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([(0.50, 0.02), (0.30, 0.02), (0.40, 0.02)], "run 0"),
        ([(0.50, 0.06), (0.30, 0.02), (0.40, 0.05)], None),  # leads by less than 0.06 + 0.05
        ([(0.50, None), (0.30, 0.02)], None),  # nobody knows how sure the first is
        ([(0.50, 0.02), (0.30, None)], None),
        ([(0.50, 0.02)], None),  # nothing to lead
        ([(0.50, 0.02), (None, None), (0.30, 0.02)], "run 0"),
    ],
)
def test_the_best_is_marked_only_when_it_leads_by_more_than_both_uncertainties(values, expected):
    def cell(value, reach):
        ends = (None, None) if None in (value, reach) else (value - reach, value + reach)
        return Cell(value=value, low=ends[0], high=ends[1])

    column = next(c for c in COLUMNS if c.key == "consistency")
    rows = [
        Row(f"run {i}", "ncl", 1, {"consistency": cell(*pair)}) for i, pair in enumerate(values)
    ]
    assert leader(rows, column) == expected
    lowest = column._replace(better=-1)
    mirrored = [
        row._replace(cells={"consistency": c._replace(value=None if c.value is None else -c.value)})
        for row in rows
        for c in row.cells.values()
    ]
    assert leader(mirrored, lowest) == expected
    assert leader(rows, column._replace(better=0)) is None


def test_seeds_that_agree_by_luck_do_not_shrink_the_uncertainty(tmp_path):
    folders = [make_run(tmp_path, f"ncl-{i}", consistency=0.3, seed=i) for i in range(2)]
    folders.append(make_run(tmp_path, "simclr", "simclr", 0.28))
    out = tmp_path / "out"
    printed(folders, out)
    assert "**" not in line_markdown(out, "ncl (2 seeds)").split("|")[2]
    printed([*folders[:2], make_run(tmp_path, "far", "simclr", 0.2)], out)
    assert "**0.300**" in line_markdown(out, "ncl (2 seeds)").split("|")[2]


def line_markdown(out, name):
    text = (out / "compare.md").read_text("utf-8")
    return next(line for line in text.splitlines() if line.startswith(f"| {name} "))


def test_runs_on_other_images_are_never_ranked(tmp_path):
    folders = [
        make_run(tmp_path, "a-run", consistency=0.6),
        make_run(tmp_path, "b-run", "simclr", 0.1, data="cifar10"),
    ]
    text = printed(folders, tmp_path / "out")
    assert "Not comparable" in text
    assert "data (a-run: scenes, b-run: cifar10)" in text
    assert "**" not in (tmp_path / "out" / "compare.md").read_text("utf-8")


def test_what_an_old_file_lacks_shows_as_missing(tmp_path):
    folder = make_run(tmp_path, "a-run", untrained=None, cost=None, timing={}, settings={})
    tree = json.loads((folder / "scores.json").read_text())
    for name in ("knn", "monosemanticity", "semantic_consistency"):
        del tree["trained"][name]
    (folder / "scores.json").write_text(json.dumps(tree))
    out = tmp_path / "out"
    text = printed([folder], out)
    assert line_of(text, "a-run").split().count("–") == 5
    assert read_csv(out)[0]["knn"] == ""
    assert not (out / "compare.png").exists()
    assert "no figure" in text


def test_a_narrow_console_gets_a_column_a_run_and_no_number_is_cut(tmp_path):
    folders = [make_run(tmp_path, "a-run"), make_run(tmp_path, "b-run", "simclr")]
    text = printed(folders, width=80)
    table = text.split("Dimensions scored")[0]
    assert {"a-run", "b-run"} <= set(table.splitlines()[1].split())
    assert max(len(line) for line in table.splitlines()) <= 80
    assert line_of(table, "P@1").split() == ["P@1", "0.370", "0.370", "0.370"]
    for width in (20, 80, 400):
        assert "[0.280, 0.320]" in printed(folders, width=width)
        assert "…" not in printed(folders, width=width)


def test_files_hold_the_table_the_numbers_and_a_figure(tmp_path):
    folders = [make_run(tmp_path, "a-run", consistency=0.41), make_run(tmp_path, "b-run", "simclr")]
    out = tmp_path / "new" / "out"
    printed(folders, out)
    assert {path.name for path in out.iterdir()} == {"compare.md", "compare.csv", "compare.png"}
    lines = (out / "compare.md").read_text("utf-8").splitlines()
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines[:5]}) == 1
    assert "**0.410**, [0.390, 0.430], chance 0.112" in line_markdown(out, "a-run")
    first = read_csv(out)[0]
    assert float(first["consistency_low"]) == pytest.approx(0.39)
    assert float(first["parameters_millions"]) == pytest.approx(0.941234)
    assert (first["method"], first["consistency_dimensions"]) == ("ncl", "250")
    with Image.open(out / "compare.png") as picture:
        assert picture.size == (1200, 750)
        colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 20)}
    assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x9E, 0x73)} <= colours


@pytest.mark.parametrize(
    "name", ["=1+2", "+1", "-1", "@SUM(A1)", "[bold]x", "a|b", "$x^$", "_x", "画像", "a,b\n=c"]
)
def test_hostile_names_are_data_everywhere(tmp_path, name):
    out = tmp_path / "out"
    text = printed([make_run(tmp_path, name)], out)
    shown = name.replace("\n", "\\n")
    assert shown in text
    cell = read_csv(out)[0]["run"]
    assert cell == (f"'{shown}" if name[0] in "=+-@" else shown)
    row = (out / "compare.md").read_text("utf-8").splitlines()[2]
    assert len(re.findall(r"(?<!\\)\|", row)) == len(COLUMNS) - len(OPTIONAL) + 2
    assert (out / "compare.png").stat().st_size > 0


def test_errors_name_the_run_and_what_to_do(tmp_path):
    unscored = start_run(tmp_path / "fresh", compose("ncl", "scenes", "small")).folder
    with pytest.raises(
        RunError, match=r"fresh has no scores.json yet: run `pellucid evaluate .*fresh`"
    ):
        printed([make_run(tmp_path, "a-run"), unscored])
    (unscored / "scores.json").write_text("{")
    with pytest.raises(RunError, match=r"fresh.scores.json cannot be read .*evaluate .* again"):
        printed([unscored])
    (unscored / "scores.json").write_text("[]")
    with pytest.raises(RunError, match="holds no scores of a trained branch"):
        printed([unscored])
    with pytest.raises(RunError, match="is no run directory"):
        printed([tmp_path])
    with pytest.raises(RunError, match="nothing to compare"):
        printed([])
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="file is a file; --out takes a folder"):
        printed([make_run(tmp_path, "c-run")], tmp_path / "file")


def test_a_file_has_the_scores_that_z_labels_and_h_can_give(tmp_path):
    z, h = drawn_z(), torch.randn(90, 4, generator=torch.Generator().manual_seed(1))
    path = write_file(tmp_path / "some.npz", z, h=h)
    out, labels = tmp_path / "out", write_labels(tmp_path / "labels.txt")
    printed([make_run(tmp_path, "a-run"), path], out, labels=labels)
    row = next(row for row in read_csv(out) if row["run"] == "some")
    expected = interpretability(
        Features(h, z, z, None, z, torch.arange(90) % 3), torch.arange(6), min_support=10, seed=0
    )
    for key, name in {
        "consistency": "semantic_consistency",
        "consistency_published": "semantic_consistency_published",
        "entropy": "semantic_entropy_mass",
        "activation_rate": "activation_rate",
        "density": "density",
        "monosemanticity": "monosemanticity",
        "retrieval": "retrieval_at_1",
    }.items():
        assert float(row[key]) == pytest.approx(expected[name]["value"]), key
    assert float(row["consistency_low"]) == pytest.approx(expected["semantic_consistency"]["low"])
    assert (row["method"], row["runs"]) == ("", "1")
    for key in ("probe", "knn", "parameters_millions", "training_seconds"):
        assert row[key] == ""
    assert line_markdown(out, "some").count("–") == 4


def test_what_a_file_cannot_say_is_missing_with_the_reason(tmp_path):
    text = printed([write_file(tmp_path / "bare.npz", drawn_z())])
    assert line_of(text, "bare").count("–") == 9
    assert (
        "bare: no consistency, as published, entropy, nats, P@1, "
        "since the images have no labels." in text
    )
    assert "bare: no monosem., since h is not known." in text
    assert "untrained" not in text


def test_files_alone_make_a_table_and_no_figure(tmp_path):
    paths = [write_file(tmp_path / f"{name}.npz", drawn_z(seed=i)) for i, name in enumerate("ab")]
    out = tmp_path / "out"
    text = printed(paths, out, labels=write_labels(tmp_path / "labels.txt"))
    assert [row["run"] for row in read_csv(out)] == ["a", "b"]
    assert "no figure" in text
    assert "Not comparable" not in text  # numbered rows, as many in both


def test_files_of_one_name_are_told_apart(tmp_path):
    z = drawn_z()
    paths = [write_file(tmp_path / place / "z.npz", z) for place in ("x", "y")]
    assert [one.label for one in read_evaluated(paths)] == ["x/z.npz", "y/z.npz"]
    np.save(tmp_path / "x" / "z.npy", z.numpy())
    labels = [one.label for one in read_evaluated([paths[0], tmp_path / "x" / "z.npy"])]
    assert labels == ["x/z.npz", "x/z.npy"]
    assert read_evaluated([paths[0], make_run(tmp_path, "q/z", "ncl")])[1].label == "q/z"


def test_a_file_is_ranked_only_beside_images_that_it_is_of(tmp_path):
    folder = make_run(tmp_path, "a-run", consistency=0.9)
    path = write_file(tmp_path / "b.npz", drawn_z())
    labels = write_labels(tmp_path / "labels.txt")
    run, file = read_evaluated([folder, path], labels=labels)
    names = [f"{i}.png" for i in range(90)]

    def of(names):
        return lambda: Representation("x", folder, drawn_z(), names)

    settings = file.settings | {"data": "scenes", "scored_split": "test"}
    run = run._replace(scores=run.scores | {"settings": settings}, representation=of(names))
    assert differences([run, file._replace(representation=of(names))]) == []
    (warning,) = differences([run, file._replace(representation=of(names[::-1]))])
    assert warning.startswith("Not comparable, and so nothing is marked: x and x are of different")
    (warning,) = differences([file, run._replace(representation=of(names[1:] + names[:1]))])
    assert "b does not name the images that it is of" in warning
    (warning,) = differences([run, file._replace(scores={"settings": {"min_support": 3}})])
    assert "min_support" in warning
    assert "data (" not in warning  # a file has no name for its images
    assert isinstance(file, Evaluated)


def test_labels_and_images_are_for_files(tmp_path):
    folder = make_run(tmp_path, "a-run")
    for option in ("labels", "images"):
        with pytest.raises(RunError, match=f"--{option} .*only runs are compared"):
            printed([folder], **{option: tmp_path / "there"})
    path, labels = write_file(tmp_path / "b.npz", drawn_z()), write_labels(tmp_path / "labels.txt")
    assert "b: no consistency" not in printed([folder, path], labels=labels)


def test_an_untrained_branch_neither_leads_nor_follows():
    column = next(c for c in COLUMNS if c.key == "consistency")
    rows = [
        Row(name, "ncl", 1, {"consistency": Cell(value, low=value - 0.01, high=value + 0.01)}, on)
        for name, value, on in (("a", 0.3, True), ("b", 0.2, True), ("u", 0.9, False))
    ]
    assert leader(rows, column) == "a"
    assert leader([rows[0], rows[2]], column) is None
