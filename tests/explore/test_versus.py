import json
from pathlib import Path

import numpy as np
import pytest
import torch

from pellucid.explore import versus as module
from pellucid.explore.versus import CHANGED, EXAMPLES, NEIGHBOURS, matched, versus
from pellucid.representation.representation import Representation
from pellucid.run import RunError


def representation(z, **more):
    names = more.pop("names", [f"{i}.png" for i in range(len(z))])
    return Representation("made", more.pop("origin", Path("made.npy")), z, names, **more)


def codes(seed, images=60, k=6, signed=False):
    z = torch.randn(images, k, generator=torch.Generator().manual_seed(seed))
    return z if signed else (z - 0.4).relu()


def compare(a, b, images=None, **more):
    first, other = representation(a), representation(b, **more)
    images = torch.arange(len(a)) if images is None else torch.tensor(images)
    found = versus(first, other, matched(first, other), images)
    json.dumps(found, allow_nan=False)  # as the page will hold it
    return found


def test_partners_are_found_again_in_any_order():
    a = codes(0, images=300)
    a[:, 3] = 0  # dead
    order = [4, 0, 5, 3, 2, 1]
    found = compare(a, a[:, order])
    for k in (0, 1, 2, 4, 5):
        assert order[found["partner"][k]] == k
        assert found["recurs"][k]
        assert found["cosine"][k] == found["agreement"][k] == 1
    assert found["partner"][3] == -1
    assert found["agreement"][3] is None
    assert not found["recurs"][3]
    assert found["live"] == [True, True, True, False, True, True]
    assert all(level < 1 for k, level in enumerate(found["luck"]) if k != 3)


def test_a_signed_partner_may_point_the_other_way():
    a = codes(1, images=300, signed=True)
    found = compare(a, -a.flip(1))
    assert found["partner"] == [5, 4, 3, 2, 1, 0]
    assert found["sign"] == [-1] * 6


def test_an_unrelated_second_has_little_in_common():
    found = compare(codes(2, images=400), codes(3, images=400))
    assert not any(found["recurs"])
    assert found["neighbours"]["common"] < 2


def nearest(z, allowed, row, at):
    """Images by cosine; a zero row is near nothing."""
    unit = z.double().numpy()
    order = []
    for j in allowed:
        both = np.linalg.norm(unit[j]) * np.linalg.norm(unit[row])
        if j != row and both > 0:
            order.append((-(unit[j] @ unit[row]) / both, j))
    return [j for _, j in sorted(order)[:at]]


@pytest.mark.parametrize("queries", [512, 7])
@pytest.mark.parametrize("held", [None, range(5, 55, 2)])
def test_neighbours_are_those_of_loops_over_the_images_of_the_page(queries, held, monkeypatch):
    monkeypatch.setattr(module, "QUERIES", queries)
    a, b = codes(4, k=12, signed=True), codes(5, k=12, signed=True)
    b[:, :10] = a[:, :10]
    images = list(range(60) if held is None else held)
    found = compare(a, b, images)["neighbours"]
    assert (found["at"], found["tried"]) == (NEIGHBOURS, len(images))
    common = {}
    for row in images:
        ours, theirs = (nearest(z, images, row, NEIGHBOURS) for z in (a, b))
        common[row] = (len(set(ours) & set(theirs)), ours, theirs)
    assert found["common"] == pytest.approx(
        sum(c for c, _, _ in common.values()) / len(images), abs=1e-4
    )
    assert len(found["changed"]) == CHANGED
    expected = sorted(images, key=lambda row: (common[row][0], row))[:CHANGED]
    assert [one["image"] for one in found["changed"]] == expected
    for one in found["changed"]:
        count, ours, theirs = common[one["image"]]
        assert (one["common"], one["first"], one["other"]) == (count, ours, theirs)


def test_zero_rows_have_no_neighbours_and_are_none():
    a, b = codes(6, images=30, signed=True), codes(7, images=30, signed=True)
    a[3] = b[3] = 0  # in neither
    a[4], b[5] = 0, 0  # in one
    found = compare(a, b)["neighbours"]
    assert found["tried"] == 27
    shown = {one["image"] for one in found["changed"]}
    assert not shown & {3, 4, 5}
    for one in found["changed"]:
        assert one["first"] == nearest(a, range(30), one["image"], NEIGHBOURS)
        assert one["other"] == nearest(b, range(30), one["image"], NEIGHBOURS)


def test_all_the_same_is_all_in_common():
    a = codes(8, signed=True)
    found = compare(a, a * 3)["neighbours"]
    assert found["common"] == NEIGHBOURS


@pytest.mark.parametrize("left", [0, 1, 2, 4])
def test_few_images_have_few_neighbours(left):
    a, b = codes(9, images=20, signed=True), codes(10, images=20, signed=True)
    a[left:] = 0
    a[0] += 1e-30
    found = compare(a, b)["neighbours"]
    assert found["at"] == max(0, left - 1)
    if left:
        assert all(len(one["first"]) == len(one["other"]) == left - 1 for one in found["changed"])


def test_of_many_images_a_fixed_choice_is_compared(monkeypatch):
    monkeypatch.setattr(module, "TRIED", 25)
    a, b = codes(11, signed=True), codes(12, signed=True)
    a[:10] = 0
    first, again = compare(a, b), compare(a, b)
    assert first == again
    assert first["neighbours"]["tried"] == 25
    assert all(one["image"] >= 10 for one in first["neighbours"]["changed"])


def test_examples_are_random_active_images_of_the_page():
    b = codes(13, images=80)
    b[:, 2] = 0
    b[:, 4] = torch.where(torch.arange(80) < 3, 1.0, 0.0)
    images = list(range(0, 80, 2))
    found = compare(codes(14, images=80), b, images)["random"]
    for k, chosen in enumerate(found):
        on = [i for i in images if b[i, k] > 0]
        assert set(chosen) <= set(on)
        assert len(chosen) == len(set(chosen)) == min(EXAMPLES, len(on))
    assert found[4] != []
    assert found[0] != sorted(found[0])
    strongest = sorted(images, key=lambda i: -(b[i, 0] / b[i].norm().clamp(min=1e-9)).item())
    assert set(found[0]) != set(strongest[:EXAMPLES])


def test_names_of_its_dimensions_come_along(tmp_path):
    (tmp_path / "b.npy.names.json").write_text('{"2": "stripes"}')
    found = compare(codes(15), codes(16), origin=tmp_path / "b.npy")
    assert found["names"] == {"2": "stripes"}


def test_other_images_are_refused():
    z = codes(17)
    first = representation(z, hashes=[str(i) for i in range(60)])
    with pytest.raises(RunError, match="60 and 59"):
        matched(first, representation(z[:59]))
    names = [f"{i if i not in (4, 9) else 13 - i}.png" for i in range(60)]
    with pytest.raises(RunError, match=r"2 of 60 differ in name, first '4\.png', '9\.png'"):
        matched(first, representation(z, names=names))
    with pytest.raises(RunError, match="1 of 60 differ in content"):
        matched(first, representation(z, hashes=[*(str(i) for i in range(59)), "x"]))
    # The same pixels under other names are the same images.
    other = representation(z, names=[f"n{i}" for i in range(60)], hashes=first.hashes)
    assert matched(first, other).partner.tolist() == list(range(6))
