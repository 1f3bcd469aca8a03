"""SAIB against its equations in explicit loops, and what it does to images of any size."""

import math

import pytest
import torch
import torch.nn.functional as F

from pellucid.metrics import log_abs_det
from pellucid.query_transforms import QUERY_TRANSFORMS, MonotoneSaib, Saib
from pellucid.query_transforms.patches import PatchGrid

BOTH = [Saib, MonotoneSaib]


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def rough(transform):
    """Weights far from zero, so that every part shows."""
    for parameter in transform.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return transform


def gelu(value):
    return value * (1 + torch.erf(value / math.sqrt(2))) / 2


def loop_saib(saib, image):
    """x' of one image, place by place: t, e, e', P', x' as the docstring names them."""
    side = saib.patches.patch
    expand, mix, project = saib.expand, saib.mix, saib.project
    places = [(y, x) for y in range(image.shape[1] // side) for x in range(image.shape[2] // side)]
    t, e, changed = {}, {}, image.clone()
    for y, x in places:
        patch = image[:, y * side : (y + 1) * side, x * side : (x + 1) * side].flatten()
        t[y, x] = patch + saib.patches.codes[0, :, y, x]
        e[y, x] = gelu(expand.weight[:, :, 0, 0] @ t[y, x] + expand.bias)
    for y, x in places:
        mixed = mix.bias.clone()
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                if (y + dy, x + dx) in e:  # nothing beyond the edge
                    mixed = mixed + mix.weight[:, :, dy + 1, dx + 1] @ e[y + dy, x + dx]
        e_skip = e[y, x] + gelu(mixed)
        p = t[y, x] + project.weight[:, :, 0, 0] @ e_skip + project.bias
        changed[:, y * side : (y + 1) * side, x * side : (x + 1) * side] += p.view(3, side, side)
    return changed


@pytest.mark.parametrize(("patch", "grid", "expansion"), [(2, 3, 2), (1, 4, 3), (3, 1, 1)])
@torch.no_grad()
def test_saib_is_its_equations_in_loops(patch, grid, expansion):
    saib = rough(Saib(patch, expansion, grid)).double()
    images = torch.randn(2, 3, patch * grid, patch * grid, dtype=torch.float64)
    changed, terms = saib(images)
    assert terms == {}
    torch.testing.assert_close(changed, torch.stack([loop_saib(saib, x) for x in images]))


@pytest.mark.parametrize(
    ("height", "width", "patch"), [(8, 8, 4), (4, 12, 2), (6, 3, 3), (5, 7, 1)]
)
def test_joining_undoes_cutting(height, width, patch):
    images = torch.randn(2, 3, height, width)
    patches = PatchGrid(patch, 2)
    cut = patches.cut(images)
    assert cut.shape == (2, 3 * patch**2, height // patch, width // patch)
    assert torch.equal(patches.join(cut), images)
    columns = F.unfold(images, patch, stride=patch)  # a second way to cut
    assert torch.equal(cut.flatten(2), columns)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(("height", "width"), [(8, 8), (4, 12), (16, 4), (20, 24)])
def test_images_of_any_size_that_the_patch_divides_pass(kind, height, width):
    images = torch.randn(2, 3, height, width)
    changed, _ = kind(patch=4, expansion=1, grid=2)(images)
    assert changed.shape == images.shape
    assert changed.isfinite().all()


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("height", "width", "patch", "fits"),
    [(8, 8, 3, "1, 2, 4, 8"), (12, 18, 4, "1, 2, 3, 6"), (7, 5, 5, "1")],
)
def test_other_images_are_refused_with_the_patches_that_fit(kind, height, width, patch, fits):
    words = f"patches of {patch} do not divide .* {height}x{width}; .* to one of {fits}$"
    with pytest.raises(ValueError, match=words):
        kind(patch=patch)(torch.randn(1, 3, height, width))


def test_position_codes_are_interpolated_to_another_grid_and_kept_on_their_own():
    patches = PatchGrid(1, 2)
    with torch.no_grad():
        patches.codes[0, :, :, 0] = 0.0
        patches.codes[0, :, :, 1] = 8.0
    codes = patches.codes_of(torch.zeros(5, 3, 3, 4))
    assert codes.shape == (1, 3, 3, 4)
    assert torch.equal(codes, torch.tensor([0.0, 2.0, 6.0, 8.0]).expand(1, 3, 3, 4))
    assert patches.codes_of(torch.zeros(5, 3, 2, 2)) is patches.codes


@pytest.mark.parametrize("kind", BOTH)
def test_no_image_leaks_into_another(kind):
    transform = rough(kind(patch=2, expansion=2, grid=2)).double()
    images = torch.randn(3, 3, 4, 4, dtype=torch.float64, requires_grad=True)
    changed, _ = transform(images)
    for index in range(3):
        torch.testing.assert_close(changed[index], transform(images[index : index + 1])[0][0])
    gradient = torch.autograd.grad(changed[1].square().sum(), images)[0]
    assert (gradient[[0, 2]] == 0).all()
    assert (gradient[1] != 0).all()


@pytest.mark.parametrize("kind", BOTH)
def test_every_parameter_learns(kind):
    transform = kind(patch=2, expansion=2, grid=3)
    transform(torch.randn(2, 3, 6, 6))[0].square().sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in transform.parameters())


def test_bf16_autocast_is_close_and_gives_fp32():
    saib, images = rough(Saib(patch=2, expansion=2, grid=4)), torch.randn(2, 3, 8, 8)
    exact, _ = saib(images)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = saib(images)
    assert found.dtype == torch.float32
    assert not torch.equal(found, exact)
    assert (found - exact).norm() / exact.norm() < 0.02


def test_a_fresh_saib_gains_about_d_log_2():
    saib = Saib(patch=4, expansion=2, grid=2)
    gains = log_abs_det(lambda x: saib(x)[0], torch.randn(2, 3, 8, 8))
    assert gains.tolist() == pytest.approx([192 * math.log(2)] * 2, rel=0.01)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"patch": 0}, "patch and grid must be at least 1, got 0 and 8"),
        ({"grid": 0}, "patch and grid must be at least 1, got 4 and 0"),
        ({"expansion": 0}, "expansion must be at least 1, got 0"),
    ],
)
def test_impossible_settings_are_refused_by_name(kind, settings, words):
    with pytest.raises(ValueError, match=words):
        kind(**settings)


@pytest.mark.parametrize(("name", "kind"), [("saib", Saib), ("monotone-saib", MonotoneSaib)])
def test_builders_make_codes_for_the_patches_of_their_images(name, kind):
    transform = QUERY_TRANSFORMS[name](12, patch=3, expansion=2)
    assert isinstance(transform, kind)
    assert transform.patches.codes.shape == (1, 27, 4, 4)
    assert transform.expand.out_channels == 54
    # What does not fit is refused by the transform, in its words, and not by the grid's.
    assert QUERY_TRANSFORMS[name](3, patch=4).patches.codes.shape == (1, 48, 1, 1)
    with pytest.raises(ValueError, match="patch and grid"):
        QUERY_TRANSFORMS[name](12, patch=0)
