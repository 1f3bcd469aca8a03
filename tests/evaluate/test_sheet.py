"""Sheets of images."""

import torch
from matplotlib.image import imread

from pellucid.evaluate import sheet
from pellucid.evaluate.sheet import display, write_sheet, write_transform_sheet

HALF = (0.5, 0.5, 0.5)


def test_a_sheet_has_a_row_for_each_stage_and_at_most_16_columns(tmp_path):
    out = tmp_path / "new" / "sheet.png"
    write_sheet(out, {"a": torch.rand(20, 3, 4, 4), "b": torch.rand(20, 3, 4, 4)})
    pixels = imread(out)
    assert pixels.shape[1] > 5 * pixels.shape[0]
    assert [path.name for path in out.parent.iterdir()] == ["sheet.png"]


def test_normalised_images_are_shown_as_they_were():
    pixels = torch.rand(2, 3, 4, 4)
    torch.testing.assert_close(display((pixels - 0.5) / 0.25, HALF, (0.25,) * 3), pixels)


def rows_of(monkeypatch, tmp_path, images, transformed):
    seen = {}
    monkeypatch.setattr(
        sheet, "write_sheet", lambda out, rows, title: seen.update(rows, title=title)
    )
    write_transform_sheet(tmp_path / "t.png", images, transformed, HALF, HALF)
    return seen


def test_what_a_batch_norm_undoes_is_no_difference(monkeypatch, tmp_path):
    images = torch.randn(5, 3, 4, 4)
    seen = rows_of(monkeypatch, tmp_path, images, 2 * images + 3)
    assert "a gain of 2.00 taken out" in seen["title"]
    assert list(seen)[:3] == ["original", "query view", "|difference|"]
    torch.testing.assert_close(seen["query view"], seen["original"], atol=1e-5, rtol=0)
    assert seen["|difference|"].max() < 1e-5


def test_a_changed_pixel_is_a_difference(monkeypatch, tmp_path):
    images = torch.randn(5, 3, 4, 4)
    changed = images.clone()
    changed[0, 0, 0, 0] += 1
    difference = rows_of(monkeypatch, tmp_path, images, changed)["|difference|"]
    assert difference.argmax() == 0
