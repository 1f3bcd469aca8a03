import pytest
import torch
import torchvision.transforms.v2.functional as reference
from scipy.stats import ks_2samp
from sklearn.datasets import load_sample_images
from torchvision.transforms import v2

from pellucid.data.views import (
    ViewDraws,
    ViewSettings,
    draw_views,
    finish_views,
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


def cropped_by_torchvision(x: torch.Tensor, draws: ViewDraws, i: int, size: int) -> torch.Tensor:
    box = [int(getattr(draws, side)[i]) for side in ("top", "left", "height", "width")]
    x = reference.resized_crop(x, *box, [size, size], antialias=True)
    return reference.horizontal_flip(x) if draws.flip[i] else x


def jittered_by_torchvision(x: torch.Tensor, draws: ViewDraws, i: int) -> torch.Tensor:
    names = ["brightness", "contrast", "saturation", "hue"]
    for place in draws.order[i].tolist() if draws.jitter[i] else []:
        x = getattr(reference, f"adjust_{names[place]}")(x, float(draws.factors[i, place]))
    return x


# --- each operation against torchvision ------------------------------------------------------


@pytest.mark.parametrize(("height", "width", "size"), [(32, 32, 32), (40, 25, 32), (96, 70, 20)])
def test_crop_resize_and_flip_equal_torchvision(height: int, width: int, size: int) -> None:
    images = torch.randint(0, 256, (24, 3, height, width), dtype=torch.uint8)
    settings = ViewSettings(size=size, **(NOTHING | {"crop": (0.08, 1.0), "flip": 0.5}))
    draws = draw_views(24, height, width, settings, seeded(1))
    views = make_views(images, draws, settings)
    for i, image in enumerate(images.float() / 255):
        expected = cropped_by_torchvision(image, draws, i, size)
        torch.testing.assert_close(views[i], expected, atol=1e-5, rtol=0)
    assert 0 < draws.flip.sum() < 24


def test_jitter_equals_torchvision_in_each_images_order() -> None:
    images = photographs(32, 200)
    settings = ViewSettings(**(NOTHING | {"jitter": 0.7}))
    draws = draw_views(200, 32, 32, settings, seeded(2))
    assert len({tuple(order) for order in draws.order.tolist()}) == 24  # all that there are
    views = make_views(images, draws, settings)
    for i, image in enumerate(images.float() / 255):
        expected = jittered_by_torchvision(image, draws, i)
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
        x = cropped_by_torchvision(image, draws, i, 32)
        x = jittered_by_torchvision(x, draws, i)
        x = reference.rgb_to_grayscale(x, num_output_channels=3) if draws.grey[i] else x
        s = float(draws.sigma[i])
        x = reference.gaussian_blur(x, [13, 13], [s, s]) if draws.blur[i] else x
        x = reference.solarize(x, 0.5) if draws.solarise[i] else x
        wrong = (views[i] - x).abs() > 1e-3  # a value at the threshold of solarise may jump
        assert wrong.float().mean() < 0.002


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


def test_views_of_a_share_of_the_batch_are_those_of_the_whole() -> None:
    settings = ViewSettings(solarise=0.5)
    images = torch.randint(0, 256, (16, 3, 40, 30), dtype=torch.uint8)
    draws = draw_views(16, 40, 30, settings, seeded(10))
    together = make_views(images, draws, settings)
    for rows in (slice(0, 8), slice(8, 16)):
        apart = make_views(images[rows], take_rows(draws, rows), settings)
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
    assert (views.dtype, views.shape) == (torch.float32, (40, 3, 32, 32))
    assert views.is_contiguous()
    assert 0 <= views.min() <= views.max() <= 1
    assert torch.equal(images, before)
    draws = draw_views(40, 32, 32, settings, seeded(13))
    assert torch.equal(views, make_views(strided.contiguous(), draws, settings))


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


def test_draws_for_other_images_are_refused() -> None:
    settings = ViewSettings(**NOTHING)
    images = torch.zeros(4, 3, 32, 32, dtype=torch.uint8)
    with pytest.raises(ValueError, match="3 draws for 4 images"):
        make_views(images, draw_views(3, 32, 32, settings, seeded(19)), settings)
    with pytest.raises(ValueError, match="32 x 32"):
        make_views(images, draw_views(4, 40, 40, settings, seeded(19)), settings)


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


def test_blocks_that_stay_in_the_cache_change_no_view(monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.randint(0, 256, (11, 3, 40, 40), dtype=torch.uint8)
    settings = ViewSettings(size=32, solarise=0.5)
    draws = draw_views(11, 40, 40, settings, seeded(0))
    at_once = make_views(images, draws, settings)
    for rows in (1, 4):
        monkeypatch.setattr("pellucid.data.views.CACHED", rows * 12 * 32**2)
        torch.testing.assert_close(make_views(images, draws, settings), at_once)


def test_views_of_crops_equal_those_of_images_that_are_cropped_whole() -> None:
    images = torch.randint(0, 256, (16, 3, 24, 24), dtype=torch.uint8)
    settings = ViewSettings(size=24, crop=(1.0, 1.0), ratio=(1.0, 1.0), solarise=0.5)
    draws = draw_views(16, 24, 24, settings, seeded(1))
    expected = make_views(images, draws, settings)
    last = images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)  # as readers give them
    for crops in (images, last):
        found = finish_views(crops, draws, settings)
        assert found.is_contiguous()
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="15 draws for 16 images"):
        finish_views(images, take_rows(draws, slice(15)), settings)
