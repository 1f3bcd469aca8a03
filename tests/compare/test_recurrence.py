import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from torch import Tensor

from pellucid import metrics
from pellucid.compare.compare import compare
from pellucid.compare.evaluated import read_evaluated
from pellucid.compare.recurrence import Recurrence, groups_to_match, recurrence
from pellucid.compare.recurrence_figure import draw_recurrence
from pellucid.compare.recurrence_files import recurrence_csv, recurrence_markdown
from pellucid.data.image_set import ImageSet
from pellucid.evaluate.extract import Features
from pellucid.evaluate.score import score
from pellucid.evaluate.store import write_features
from pellucid.recipe import compose
from pellucid.run import RunError, start_run

N = 400


def sparse(dimensions: int, seed: int) -> Tensor:
    """Non-negative features, each dimension active on a tenth of the images."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.rand(N, dimensions, generator=generator) + 0.5
    return values * (torch.rand(N, dimensions, generator=generator) < 0.1)


def images(seed: int = 0) -> ImageSet:
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(256, (N, 3, 4, 4), generator=generator, dtype=torch.uint8)
    return ImageSet.from_pixels(pixels)


def make_run(
    root: Path, name: str, z: Tensor | None, seed: int = 0, method: str = "ncl", pictures: int = 0
) -> Path:
    """An evaluated run with these z; None for one whose features are not there."""
    run = start_run(root / name, compose(method, "scenes", "small", [f"train.seed={seed}"]))
    trained = {"semantic_consistency": score(0.3), "linear_probe_top1": score(0.7)}
    settings = {"data": "scenes", "scored_split": "test", "scored_images": N}
    (run.folder / "scores.json").write_text(json.dumps({"trained": trained, "settings": settings}))
    if z is not None:
        features = Features(z.clone(), z.clone(), z.clone(), None, z.clone(), None)
        write_features(run, features, images(pictures), step=1)
    return run.folder


def three_seeds(root: Path) -> list[Path]:
    """Of 12 live dimensions 6 are in all three, 3 in the second only, 3 in none; the 13th dead."""
    z = sparse(12, 0)
    second = torch.cat([z[:, :9], sparse(3, 1)], dim=1).roll(1, dims=1)
    third = torch.cat([z[:, :6], sparse(6, 2)], dim=1).flip(1)
    first = torch.cat([z, torch.zeros(N, 1)], dim=1)
    return [
        make_run(root, f"ncl-{seed}", features, seed)
        for seed, features in enumerate((first, second, third))
    ]


def printed(paths: list[Path], out: Path | None = None) -> str:
    file = io.StringIO()
    compare(paths, Console(file=file, width=400, force_terminal=False), out)
    return file.getvalue()


def found_in(paths: list[Path]) -> Recurrence:
    (group,) = groups_to_match(read_evaluated(paths))
    return recurrence(group)


def lines_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_what_is_in_every_seed_recurs(tmp_path: Path) -> None:
    folders = three_seeds(tmp_path)
    found = found_in(folders)
    assert found.recurs.tolist() == [True] * 6 + [False] * 7
    assert found.live == 12
    assert found.by_permuted == 0
    # Rarely a rotation leads the 18 others and reaches a half: more than luck would be a fault.
    assert found.by_rotated < 1
    text = printed(folders)
    assert (
        "6 of 13 dimensions of ncl-0 recur in all 3 seeds (live: 12; by permuted images: 0" in text
    )
    assert "9 of 13 dimensions of ncl-0 recur in both seeds" in printed(folders[:2])
    assert text.index("6 of 13 dimensions") > text.index("ncl (3 seeds)")


def test_the_first_is_whose_dimensions_are_counted(tmp_path: Path) -> None:
    folders = three_seeds(tmp_path)
    assert "6 of 12 dimensions of ncl-2 recur in all 3 seeds" in printed(folders[::-1])


def test_without_seeds_all_representations_are_matched(tmp_path: Path) -> None:
    z = sparse(6, 0)
    folders = [
        make_run(tmp_path, "ncl", z),
        make_run(tmp_path, "simclr", z[:, :4], method="simclr"),
        make_run(tmp_path, "topk", z[:, 1:], method="ncl-topk"),
    ]
    assert "3 of 6 dimensions of ncl recur in all 3 representations (live: 6;" in printed(folders)
    assert "recur in both representations" in printed(folders[:2])


def test_a_group_of_seeds_leaves_other_recipes_out(tmp_path: Path) -> None:
    z = sparse(6, 0)
    folders = [
        make_run(tmp_path, "simclr", sparse(6, 9), method="simclr"),
        make_run(tmp_path, "ncl-0", z, 0),
        make_run(tmp_path, "ncl-1", z, 1),
        make_run(tmp_path, "topk-0", z[:, :5], 0, "ncl-topk"),
        make_run(tmp_path, "topk-1", z[:, :4], 1, "ncl-topk"),
    ]
    text = printed(folders)
    assert "6 of 6 dimensions of ncl-0 recur in both seeds" in text
    assert "4 of 5 dimensions of topk-0 recur in both seeds" in text
    assert "dimensions of simclr" not in text


def test_one_alone_is_matched_with_nothing(tmp_path: Path) -> None:
    folder = make_run(tmp_path, "ncl", sparse(6, 0))
    out = tmp_path / "out"
    assert "recur" not in printed([folder], out)
    assert not (out / "dimensions.csv").exists()
    assert "recur" not in (out / "compare.md").read_text("utf-8")


def test_signed_lookalikes_stand_beside_rotated_axes(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    space = torch.randn(N, 3, generator=generator)
    folders = [
        make_run(tmp_path, f"simclr-{i}", space @ torch.randn(3, 40, generator=generator), i)
        for i in range(2)
    ]
    found = found_in(folders)
    assert found.median(lambda matching: matching.agreement) > 0.8
    assert found.recurs.sum() < 10
    assert 0 < found.by_rotated < 10


def test_other_images_are_no_error_but_a_line(tmp_path: Path) -> None:
    z, out = sparse(6, 0), tmp_path / "out"
    folders = [make_run(tmp_path, f"ncl-{i}", z, i, pictures=i) for i in range(2)]
    out.mkdir()
    for name in ("dimensions.csv", "dimensions.png"):
        (out / name).write_text("of an earlier run")
    text = printed(folders, out)
    line = next(line for line in text.splitlines() if "not matched" in line)
    assert line.startswith("Dimensions of ncl-0 are not matched: ncl-0 and ncl-1 are of different")
    assert "400 of 400 differ in content" in line
    assert "ncl (2 seeds)" in text
    assert not list(out.glob("dimensions.*"))
    assert "not matched" in (out / "compare.md").read_text("utf-8")


def test_missing_features_are_named_with_the_remedy(tmp_path: Path) -> None:
    folders = [make_run(tmp_path, "ncl-0", sparse(6, 0)), make_run(tmp_path, "ncl-1", None, 1)]
    text = printed(folders)
    assert re.search(r"ncl-0 are not matched: .*test\.json is missing: run `pellucid eval", text)
    assert "recur" not in text


def test_a_damaged_file_of_names_is_named(tmp_path: Path) -> None:
    folders = three_seeds(tmp_path)
    (folders[0] / "names.json").write_text('{"99": "x"}')
    assert "names dimension '99'" in printed(folders)


def test_a_line_for_each_dimension(tmp_path: Path) -> None:
    folders = three_seeds(tmp_path)
    (folders[0] / "names.json").write_text('{"2": "=stripes", "12": "dead"}')
    out = tmp_path / "out"
    printed(folders, out)
    lines = lines_of((out / "dimensions.csv").read_text("utf-8"))
    found = found_in(folders)
    assert [line["dimension"] for line in lines] == [str(k) for k in range(13)]
    assert {line["run"] for line in lines} == {"ncl-0"}
    assert [line["name"] for line in lines if line["name"]] == ["'=stripes", "dead"]
    assert [line["recurs"] for line in lines] == [str(r) for r in found.recurs.tolist()]
    first = read_evaluated(folders)[0].representation()
    support = (first.z != 0).sum(dim=0)
    assert [int(line["support"]) for line in lines] == support.tolist()
    assert [float(line["frequency"]) for line in lines] == pytest.approx((support / N).tolist())
    for number, (label, matching) in enumerate(found.matchings.items(), start=1):
        assert {line[f"other_{number}"] for line in lines} == {label}
        for line, partner, cosine, agreement in zip(
            lines, matching.partner, matching.cosine, matching.agreement, strict=True
        ):
            if partner < 0:
                assert line[f"partner_{number}"] == line[f"cosine_{number}"] == ""
                assert line[f"recurs_{number}"] == ""
            else:
                assert int(line[f"partner_{number}"]) == int(partner)
                assert float(line[f"cosine_{number}"]) == pytest.approx(cosine.item())
                assert float(line[f"agreement_{number}"]) == pytest.approx(agreement.item())
    assert lines[0]["partner_1"] == "1"  # rolled by one
    assert lines[0]["partner_2"] == "11"  # turned round
    assert lines[12]["partner_1"] == ""


def test_groups_of_other_sizes_share_the_columns(tmp_path: Path) -> None:
    z = sparse(4, 0)
    pair = found_in(
        [make_run(tmp_path, f"topk-{i}", z, i, "ncl-topk") for i in range(2)],
    )
    lines = lines_of(recurrence_csv([pair, found_in(three_seeds(tmp_path))]))
    assert len(lines) == 4 + 13
    assert lines[0]["other_2"] == lines[0]["agreement_2"] == ""
    assert lines[4]["other_2"] == "ncl-2"


def test_the_section_says_the_numbers(tmp_path: Path) -> None:
    folders, out = three_seeds(tmp_path), tmp_path / "out"
    printed(folders, out)
    text = (out / "compare.md").read_text("utf-8")
    section = text[text.index("## Dimensions that recur") :]
    found = found_in(folders)
    assert f"**{found.sentence()}**" in section
    row = next(line for line in section.splitlines() if line.startswith("| ncl-0 |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:6] == ["3 seeds", "13", "12", "6", "0"]
    both = list(found.matchings.values())
    cosines = torch.cat([m.cosine[m.partner >= 0] for m in both])
    chances = torch.cat([m.chance[m.partner >= 0] for m in both])
    assert cells[7:9] == [f"{cosines.median():.3f}", f"{chances.median():.3f}"]
    table = [line for line in section.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1


def test_the_figure_is_drawn_for_every_group(tmp_path: Path) -> None:
    folders, out = three_seeds(tmp_path), tmp_path / "out"
    printed(folders, out)
    assert not list(out.glob(".*"))
    one = found_in(folders)
    draw_recurrence([one, one], tmp_path / "two.png")
    sizes = []
    for path in (out / "dimensions.png", tmp_path / "two.png"):
        with Image.open(path) as picture:
            sizes.append(picture.size)
            colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 20)}
        assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)} <= colours  # told apart by any eye
    assert sizes[0][0] == sizes[1][0]
    assert sizes[1][1] > 1.7 * sizes[0][1]
    with pytest.raises(ValueError, match="at least one group"):
        draw_recurrence([], tmp_path / "none.png")


def test_nothing_live_is_drawn_and_written_too(tmp_path: Path) -> None:
    dead = torch.zeros(N, 3)
    folders = [make_run(tmp_path, f"ncl-{i}", dead, i) for i in range(2)]
    out = tmp_path / "out"
    text = printed(folders, out)
    assert "0 of 3 dimensions of ncl-0 recur in both seeds (live: 0; by permuted images: 0" in text
    assert (out / "dimensions.png").stat().st_size > 0
    assert "| – |" in recurrence_markdown([found_in(folders)])


@pytest.mark.parametrize("name", ["=1+2", "[bold]x", "a|b", "$x^$", "_x", "画像", "x" * 80])
def test_hostile_names_are_data(tmp_path: Path, name: str) -> None:
    z, out = sparse(4, 0), tmp_path / "out"
    folders = [
        make_run(tmp_path, name, z),
        make_run(tmp_path, f"{name}2", z, method="simclr"),
    ]
    assert f"dimensions of {name} recur" in printed(folders, out)
    line = lines_of((out / "dimensions.csv").read_text("utf-8"))[0]
    assert line["run"] == (f"'{name}" if name.startswith("=") else name)
    text = (out / "compare.md").read_text("utf-8")
    table = text[text.index("| dimensions of") :].split("\n\n")[0].splitlines()
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table}) == 1
    assert (out / "dimensions.png").stat().st_size > 0


def test_files_and_runs_are_matched_alike(tmp_path: Path) -> None:
    z = sparse(6, 0)
    paths = []
    for name, some in (("all", z), ("half", z[:, :3])):
        paths.append(tmp_path / f"{name}.npy")
        np.save(paths[-1], some.numpy())
    assert "3 of 6 dimensions of all recur in both representations" in printed(paths)
    np.save(paths[1], z[1:].numpy())
    assert "are not matched: all and half are of different images: 400 and 399" in printed(paths)


def test_a_group_is_refused_where_one_is_of_other_images(tmp_path: Path) -> None:
    folders = three_seeds(tmp_path)
    other = make_run(tmp_path, "ncl-3", sparse(4, 0), 3, pictures=5)
    with pytest.raises(RunError, match="ncl-0 and ncl-3 are of different images"):
        found_in([*folders, other])


def test_matching_is_that_of_the_metric(tmp_path: Path) -> None:
    folders = three_seeds(tmp_path)
    found = found_in(folders)
    first, second, _ = (one.representation().z for one in read_evaluated(folders))
    expected = metrics.match_dimensions(first, second)
    for one, other in zip(found.matchings["ncl-1"], expected, strict=True):
        assert torch.allclose(one, other, equal_nan=True)
