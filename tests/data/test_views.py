import math

import pytest
import torch
import torchvision.transforms.v2.functional as reference
from scipy.stats import ks_2samp
from sklearn.datasets import load_sample_images
from torchvision import transforms as tv
from torchvision.transforms import v2

from pellucid.data.views import (
    ViewDraws,
    ViewSettings,
    draw_views,
    make_views,
    normalise,
    plain_views,
    take_rows,
)
from pellucid.randomness import seeded

NOTHING = {"crop": (1.0, 1.0), "flip": 0.0, "jitter": 0.0, "grey": 0.0, "blur": 0.0}
"""Settings of a view that is its image."""


def photographs(side: int, count: int) -> torch.Tensor:
    """Tiles of two photographs, from the dark to the saturated."""
    tiles = []
    for photograph in load_sample_images().images:
        x = torch.from_numpy(photograph.copy()).permute(2, 0, 1)
        x = x[:, : x.shape[1] // side * side, : x.shape[2] // side * side]
        tiles.append(x.reshape(3, -1, side, x.shape[2] // side, side).permute(1, 3, 0, 2, 4))
    every = torch.cat([t.reshape(-1, 3, side, side) for t in tiles])
    return every[torch.randperm(len(every), generator=seeded(0, "tiles"))[:count]].contiguous()


def fixed_draws(count: int, height: int, width: int, **values: torch.Tensor) -> ViewDraws:
    """Draws that change nothing, but for the given columns."""
    draws = draw_views(count, height, width, ViewSettings(**NOTHING), seeded(0, "fixed"))
    whole = torch.zeros(count, dtype=torch.long)
    box = {"top": whole, "left": whole, "height": whole + height, "width": whole + width}
    return draws._replace(**(box | values))


def every(count: int) -> torch.Tensor:
    return torch.ones(count, dtype=torch.bool)


# --- each operation against torchvision ------------------------------------------------------


@pytest.mark.parametrize(("height", "width", "size"), [(32, 32, 32), (40, 25, 32), (96, 70, 20)])
def test_crop_resize_and_flip_equal_torchvision(height: int, width: int, size: int) -> None:
    images = torch.randint(0, 256, (24, 3, height, width), dtype=torch.uint8)
    settings = ViewSettings(size=size, **(NOTHING | {"crop": (0.08, 1.0), "flip": 0.5}))
    draws = draw_views(24, height, width, settings, seeded(1))
    views = make_views(images, draws, settings)
    for i, image in enumerate(images.float() / 255):
        box = [int(getattr(draws, side)[i]) for side in ("top", "left", "height", "width")]
        expected = reference.resized_crop(image, *box, [size, size], antialias=True)
        if draws.flip[i]:
            expected = reference.horizontal_flip(expected)
        torch.testing.assert_close(views[i], expected, atol=1e-5, rtol=0)
    assert 0 < draws.flip.sum() < 24


def jittered_by_torchvision(image: torch.Tensor, order: list[int], factors: list[float]):
    operations = [
        reference.adjust_brightness,
        reference.adjust_contrast,
        reference.adjust_saturation,
        reference.adjust_hue,
    ]
    for operation in order:
        image = operations[operation](image, factors[operation])
    return image


def test_jitter_equals_torchvision_in_each_images_order() -> None:
    images = photographs(32, 200)
    settings = ViewSettings(**(NOTHING | {"jitter": 0.7}))
    draws = draw_views(200, 32, 32, settings, seeded(2))
    assert len({tuple(order) for order in draws.order.tolist()}) == 24  # all that there are
    views = make_views(images, draws, settings)
    for i, image in enumerate(images.float() / 255):
        expected = image
        if draws.jitter[i]:
            expected = jittered_by_torchvision(
                image, draws.order[i].tolist(), draws.factors[i].tolist()
            )
        torch.testing.assert_close(views[i], expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("name", "factors"),
    [
        ("brightness", [0.0, 0.3, 1.0, 1.8]),
        ("contrast", [0.0, 0.3, 1.0, 1.8]),
        ("saturation", [0.0, 0.3, 1.0, 1.8]),
        ("hue", [-0.5, -0.1, 0.0, 0.25, 0.5]),
    ],
)
def test_one_operation_of_the_jitter_equals_torchvision(name: str, factors: list[float]) -> None:
    place = ["brightness", "contrast", "saturation", "hue"].index(name)
    images = torch.cat([photographs(32, 3), torch.randint(0, 256, (2, 3, 32, 32)).byte()])
    images = torch.cat([images, torch.full((1, 3, 32, 32), 90, dtype=torch.uint8)])  # no colour
    for factor in factors:
        strength = torch.tensor([1.0, 1.0, 1.0, 0.0]).repeat(6, 1)
        strength[:, place] = factor
        draws = fixed_draws(6, 32, 32, jitter=every(6), factors=strength)
        views = make_views(images, draws, ViewSettings())
        expected = getattr(reference, f"adjust_{name}")(images.float() / 255, factor)
        torch.testing.assert_close(views, expected, atol=2e-5, rtol=0)


def test_grey_and_solarise_equal_torchvision() -> None:
    images = photographs(32, 8)
    grey = every(8) & (torch.arange(8) % 2 == 0)
    views = make_views(images, fixed_draws(8, 32, 32, grey=grey), ViewSettings())
    expected = reference.rgb_to_grayscale(images.float() / 255, num_output_channels=3)
    torch.testing.assert_close(views[::2], expected[::2], atol=1e-6, rtol=0)
    torch.testing.assert_close(views[1::2], images[1::2].float() / 255, atol=1e-6, rtol=0)

    # Away from the threshold, where the last bit decides.
    images = images.where((images != 127) & (images != 128), 0)
    views = make_views(images, fixed_draws(8, 32, 32, solarise=every(8)), ViewSettings())
    expected = reference.solarize(images.float() / 255, 0.5)
    torch.testing.assert_close(views, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("size", [32, 5, 2])
def test_blur_equals_torchvision(size: int) -> None:
    images = photographs(size, 12)
    sigma = torch.linspace(0.1, 2.0, 12)
    settings = ViewSettings(size=size)
    draws = fixed_draws(12, size, size, blur=every(12), sigma=sigma)
    views = make_views(images, draws, settings)
    taps = 2 * settings.blur_radius + 1
    assert taps == {32: 13, 5: 9, 2: 3}[size]
    for image, view, s in zip(images.float() / 255, views, sigma.tolist(), strict=True):
        expected = reference.gaussian_blur(image, [taps, taps], [s, s])
        torch.testing.assert_close(view, expected, atol=1e-5, rtol=0)


def test_the_kernel_of_the_blur_covers_the_largest_sigma() -> None:
    settings = ViewSettings(size=32)
    image = torch.zeros(1, 3, 32, 32, dtype=torch.uint8)
    image[:, :, 16, 16] = 255
    sigma = torch.tensor([settings.blur_sigma[1]])
    draws = fixed_draws(1, 32, 32, blur=every(1), sigma=sigma)
    share = make_views(image, draws, settings)[0, 0].sum(dim=0)
    variance = (share * (torch.arange(32) - 16) ** 2).sum()
    assert variance.sqrt().item() == pytest.approx(2.0, rel=0.02)


def test_operations_follow_one_another_as_in_torchvision() -> None:
    settings = ViewSettings(solarise=0.3)
    images = photographs(40, 60)
    draws = draw_views(60, 40, 40, settings, seeded(3))
    views = make_views(images, draws, settings)
    for i, image in enumerate(images.float() / 255):
        box = [int(getattr(draws, side)[i]) for side in ("top", "left", "height", "width")]
        x = reference.resized_crop(image, *box, [32, 32], antialias=True)
        x = reference.horizontal_flip(x) if draws.flip[i] else x
        if draws.jitter[i]:
            x = jittered_by_torchvision(x, draws.order[i].tolist(), draws.factors[i].tolist())
        x = reference.rgb_to_grayscale(x, num_output_channels=3) if draws.grey[i] else x
        s = float(draws.sigma[i])
        x = reference.gaussian_blur(x, [13, 13], [s, s]) if draws.blur[i] else x
        x = reference.solarize(x, 0.5) if draws.solarise[i] else x
        wrong = (views[i] - x).abs() > 1e-3  # a value at the threshold of solarise may jump
        assert wrong.float().mean() < 0.002


# --- the draws against torchvision's ---------------------------------------------------------

DRAWN = 4000


def agree(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Two-sample Kolmogorov-Smirnov on fixed seeds; 0.04 at this size is a p of about 0.003."""
    return float(ks_2samp(ours.double().numpy(), theirs.double().numpy()).statistic) < 0.04


@pytest.mark.parametrize(
    ("height", "width", "ratio"),
    [(32, 32, (3 / 4, 4 / 3)), (40, 25, (3 / 4, 4 / 3)), (20, 64, (3 / 4, 4 / 3))],
)
def test_boxes_are_distributed_as_torchvisions(
    height: int, width: int, ratio: tuple[float, float]
) -> None:
    settings = ViewSettings(crop=(0.08, 1.0), ratio=ratio)
    ours = draw_views(DRAWN, height, width, settings, seeded(4))
    image = torch.zeros(3, height, width)
    torch.manual_seed(4)
    theirs = torch.tensor(
        [tv.RandomResizedCrop.get_params(image, [0.08, 1.0], list(ratio)) for _ in range(DRAWN)]
    )
    assert agree(ours.height * ours.width, theirs[:, 2] * theirs[:, 3])
    assert agree(ours.width / ours.height, theirs[:, 3] / theirs[:, 2])
    assert agree(ours.top, theirs[:, 0])
    assert agree(ours.left, theirs[:, 1])
    assert agree((ours.top + ours.height), theirs[:, 0] + theirs[:, 2])


def test_the_comparison_of_boxes_notices_a_fault() -> None:
    def area(**changes: tuple[float, float]) -> torch.Tensor:
        draws = draw_views(DRAWN, 32, 32, ViewSettings(**changes), seeded(4))
        return draws.height * draws.width

    def shape(**changes: tuple[float, float]) -> torch.Tensor:
        draws = draw_views(DRAWN, 32, 32, ViewSettings(**changes), seeded(5))
        return draws.width / draws.height

    assert not agree(area(), area(crop=(0.15, 1.0)))
    assert not agree(shape(), shape(ratio=(0.8, 4 / 3)))


def test_the_fallback_of_a_crop_is_torchvisions() -> None:
    # Nearly the whole area of a long image in an almost square shape never fits.
    for height, width in ((20, 64), (64, 20), (20, 24)):
        settings = ViewSettings(crop=(0.99, 1.0), ratio=(3 / 4, 4 / 3))
        if (height, width) == (20, 24):
            settings = ViewSettings(crop=(1.0, 1.0), ratio=(0.5, 0.51))
        ours = draw_views(50, height, width, settings, seeded(6))
        theirs = tv.RandomResizedCrop.get_params(
            torch.zeros(3, height, width), list(settings.crop), list(settings.ratio)
        )
        box = torch.stack([ours.top, ours.left, ours.height, ours.width], dim=1)
        assert box.unique(dim=0).tolist() == [list(theirs)]


def test_jitter_coins_and_sigma_are_distributed_as_torchvisions() -> None:
    settings = ViewSettings(brightness=0.8, contrast=1.5, saturation=0.4, hue=0.2, solarise=0.1)
    ours = draw_views(DRAWN, 32, 32, settings, seeded(7))
    jitter = v2.ColorJitter(0.8, 1.5, 0.4, 0.2)
    blur = tv.GaussianBlur(13, settings.blur_sigma)
    torch.manual_seed(7)
    drawn = [
        tv.ColorJitter.get_params(jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue)
        for _ in range(DRAWN)
    ]
    for place in range(4):
        assert agree(ours.factors[:, place], torch.tensor([d[place + 1] for d in drawn]))
    # Each of the 24 orders has the same chance; 66.2 is the 99.999th percentile of chi-squared.
    for orders in (ours.order, torch.stack([d[0] for d in drawn])):
        code = (orders * torch.tensor([64, 16, 4, 1])).sum(dim=1)
        counts = code.unique(return_counts=True)[1].double()
        assert len(counts) == 24
        assert ((counts - DRAWN / 24) ** 2 / (DRAWN / 24)).sum() < 66.2
    sigma = torch.tensor([blur.get_params(*settings.blur_sigma) for _ in range(DRAWN)])
    assert agree(ours.sigma, sigma)
    for name in ("flip", "jitter", "grey", "blur", "solarise"):
        chance = getattr(settings, name)
        spread = math.sqrt(chance * (1 - chance) / DRAWN)
        assert abs(getattr(ours, name).double().mean() - chance) < 4 * spread, name


def test_draws_of_an_image_do_not_depend_on_one_another() -> None:
    draws = draw_views(DRAWN, 64, 64, ViewSettings(), seeded(8))
    columns = [
        (draws.height * draws.width).double(),
        (draws.width / draws.height).double().log(),
        (draws.top + 0.5) / (64 - draws.height + 1).double(),  # within the room that is left
        *(getattr(draws, name).double() for name in ("flip", "jitter", "grey", "blur", "sigma")),
        *draws.factors.double().T,
        *draws.order.double().T[:3],
    ]
    correlation = torch.corrcoef(torch.stack(columns))
    ordered = correlation[-3:, -3:]  # places of one order exclude one another
    assert torch.allclose(ordered, torch.full((3, 3), -1 / 3).fill_diagonal_(1).double(), atol=0.06)
    correlation[-3:, -3:] = 0
    assert (correlation - torch.eye(len(columns)))[:-3].abs().max() < 0.07


def test_pixels_are_distributed_as_after_torchvisions_transforms() -> None:
    images = photographs(32, 500)
    settings = ViewSettings()
    ours = torch.cat(
        [
            make_views(images, draw_views(500, 32, 32, settings, seeded(9, i)), settings)
            for i in range(6)
        ]
    )
    compose = v2.Compose(
        [
            v2.RandomResizedCrop(32, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8),
            v2.RandomGrayscale(0.2),
            v2.RandomApply([v2.GaussianBlur(13, (0.1, 2.0))], 0.5),
        ]
    )
    torch.manual_seed(9)
    theirs = torch.stack([compose(image) for image in images.float() / 255])

    def figures(x: torch.Tensor) -> list[torch.Tensor]:
        colour = (x.amax(dim=1) - x.amin(dim=1)).mean(dim=(1, 2))
        edges = (x[..., 1:] - x[..., :-1]).abs().mean(dim=(1, 2, 3))
        return [x.mean(dim=(1, 2, 3)), x.std(dim=(1, 2, 3)), colour, edges, *x.mean(dim=(2, 3)).T]

    for mine, other in zip(figures(ours), figures(theirs), strict=True):
        assert float(ks_2samp(mine.numpy(), other.numpy()).statistic) < 0.08


# --- invariants ------------------------------------------------------------------------------


def test_draws_are_a_function_of_the_generator_and_the_place_in_the_batch() -> None:
    settings = ViewSettings(solarise=0.5)
    whole = draw_views(16, 40, 30, settings, seeded(10, "views", 3))
    shorter = draw_views(8, 40, 30, settings, seeded(10, "views", 3))
    for mine, first, other in zip(
        whole, shorter, draw_views(16, 40, 30, settings, seeded(10, "views", 4)), strict=True
    ):
        assert torch.equal(mine[:8], first)
        assert not torch.equal(mine, other)
    images = torch.randint(0, 256, (16, 3, 40, 30), dtype=torch.uint8)
    together = make_views(images, whole, settings)
    for rows in (slice(0, 8), slice(8, 16)):
        apart = make_views(images[rows], take_rows(whole, rows), settings)
        torch.testing.assert_close(apart, together[rows], atol=1e-6, rtol=0)


def test_every_image_has_its_own_draw() -> None:
    settings = ViewSettings()
    images = photographs(32, 1).expand(64, -1, -1, -1)
    views = make_views(images, draw_views(64, 32, 32, settings, seeded(11)), settings)
    distance = torch.cdist(views.flatten(1), views.flatten(1)) + torch.eye(64) * 100
    assert distance.min() > 0.1


def test_views_are_contiguous_floats_in_0_to_1_and_leave_the_images_alone() -> None:
    settings = ViewSettings(solarise=0.5, brightness=3.0)
    images = torch.randint(0, 2, (40, 3, 32, 32), dtype=torch.uint8) * 255
    before = images.clone()
    strided = images.permute(0, 1, 3, 2)
    views = make_views(strided, draw_views(40, 32, 32, settings, seeded(13)), settings)
    assert views.dtype == torch.float32
    assert views.shape == (40, 3, 32, 32)
    assert views.is_contiguous()
    assert views.min() >= 0
    assert views.max() <= 1
    assert torch.equal(images, before)
    copied = make_views(
        strided.contiguous(), draw_views(40, 32, 32, settings, seeded(13)), settings
    )
    assert torch.equal(views, copied)


def test_autocast_does_not_make_views_coarse() -> None:
    settings = ViewSettings()
    images = photographs(32, 16)
    draws = draw_views(16, 32, 32, settings, seeded(14))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        views = make_views(images, draws, settings)
    assert torch.equal(views, make_views(images, draws, settings))


# --- edges -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width", "size"), [(2, 2, 32), (1, 1, 4), (20, 20, 32)])
def test_small_images_make_views(height: int, width: int, size: int) -> None:
    settings = ViewSettings(size=size)
    images = torch.randint(0, 256, (50, 3, height, width), dtype=torch.uint8)
    views = make_views(images, draw_views(50, height, width, settings, seeded(15)), settings)
    assert views.shape == (50, 3, size, size)
    assert views.isfinite().all()


def test_a_view_of_one_pixel_is_not_blurred() -> None:
    images = torch.randint(0, 256, (9, 3, 8, 8), dtype=torch.uint8)
    settings = ViewSettings(size=1, **(NOTHING | {"blur": 1.0}))
    views = make_views(images, draw_views(9, 8, 8, settings, seeded(16)), settings)
    expected = images.float().mean(dim=(2, 3), keepdim=True) / 255
    assert (views - expected).abs().max() < 0.1


def test_images_without_colour_stay_so() -> None:
    images = photographs(32, 20)[:, :1].expand(-1, 3, -1, -1)
    settings = ViewSettings(hue=0.5)
    views = make_views(images, draw_views(20, 32, 32, settings, seeded(17)), settings)
    torch.testing.assert_close(views.amax(dim=1), views.amin(dim=1), atol=2e-4, rtol=0)


def test_no_images_make_no_views() -> None:
    settings = ViewSettings()
    draws = take_rows(draw_views(4, 32, 32, settings, seeded(18)), slice(0, 0))
    views = make_views(torch.zeros(0, 3, 32, 32, dtype=torch.uint8), draws, settings)
    assert views.shape == (0, 3, 32, 32)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("flip", 1.2),
        ("jitter", -0.1),
        ("grey", math.nan),
        ("blur", 2.0),
        ("solarise", -1.0),
        ("hue", 0.6),
        ("brightness", -0.1),
        ("contrast", math.inf),
        ("saturation", math.nan),
        ("size", 0),
        ("crop", (0.0, 1.0)),
        ("crop", (0.5, 1.1)),
        ("crop", (0.9, 0.2)),
        ("ratio", (0.0, 1.0)),
        ("ratio", (2.0, 1.0)),
        ("blur_sigma", (0.0, 1.0)),
        ("blur_sigma", (0.1, math.inf)),
    ],
)
def test_impossible_settings_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        ViewSettings(**{name: value})


def test_draws_for_other_images_are_refused() -> None:
    settings = ViewSettings(**NOTHING)
    images = torch.zeros(4, 3, 32, 32, dtype=torch.uint8)
    with pytest.raises(ValueError, match="3 draws for 4 images"):
        make_views(images, draw_views(3, 32, 32, settings, seeded(19)), settings)
    with pytest.raises(ValueError, match="32 x 32"):
        make_views(images, draw_views(4, 40, 40, settings, seeded(19)), settings)
    with pytest.raises(ValueError, match="count = 0"):
        draw_views(0, 32, 32, settings, seeded(19))


# --- plain views -----------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width", "size"), [(40, 40, 32), (50, 37, 32), (20, 31, 24)])
def test_plain_views_equal_torchvisions_preprocessing(height: int, width: int, size: int) -> None:
    images = torch.randint(0, 256, (3, 3, height, width), dtype=torch.uint8)
    x = reference.resize(images.float() / 255, [size], antialias=True)
    expected = reference.center_crop(x, [size, size])
    torch.testing.assert_close(plain_views(images, size), expected, atol=1e-6, rtol=0)


def test_plain_views_of_the_right_size_are_the_images() -> None:
    images = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8)
    assert torch.equal((plain_views(images, 32) * 255).round().byte(), images)


def test_normalise_equals_torchvision() -> None:
    x = torch.rand(2, 3, 4, 4)
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    torch.testing.assert_close(normalise(x, mean, std), reference.normalize(x, mean, std))
