import math

import pytest
import torch
from scipy.stats import ks_2samp
from torchvision import transforms as tv
from torchvision.transforms import v2

from pellucid.data.view_parameters import ViewDraws, ViewSettings, draw_views, take_rows
from pellucid.randomness import seeded

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


def test_draws_are_a_function_of_the_generator_and_the_place_in_the_batch() -> None:
    def draw(count: int, step: int) -> ViewDraws:
        return draw_views(count, 40, 30, ViewSettings(solarise=0.5), seeded(10, "views", step))

    for mine, shorter, other in zip(draw(16, 3), draw(8, 3), draw(16, 4), strict=True):
        assert torch.equal(mine[:8], shorter)
        assert not torch.equal(mine, other)


def test_rows_are_those_of_the_whole_batch() -> None:
    draws = draw_views(16, 40, 30, ViewSettings(), seeded(10))
    for whole, first, last in zip(
        draws, take_rows(draws, slice(0, 8)), take_rows(draws, slice(8, 16)), strict=True
    ):
        assert torch.equal(torch.cat([first, last]), whole)


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


def test_a_batch_or_an_image_of_nothing_is_refused() -> None:
    for sizes, name in (((0, 32, 32), "count"), ((1, 0, 32), "height"), ((1, 32, 0), "width")):
        with pytest.raises(ValueError, match=f"{name} = 0"):
            draw_views(*sizes, ViewSettings(), seeded(19))
