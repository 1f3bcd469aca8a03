import math

import pytest
import torch
from sklearn.datasets import load_digits, load_sample_images
from torch.nn import functional as F

from pellucid.data.scenes import (
    BACKGROUND_FREQUENCIES,
    BACKGROUNDS,
    CONTRAST,
    CROP_SIDE,
    LUMA,
    REGIONS,
    make_scenes,
)


@pytest.fixture(scope="module")
def train():
    return make_scenes("train", 4000)


@pytest.fixture(scope="module")
def test():
    return make_scenes("test", 2000)


def luminance(pixels):
    return (pixels.float() / 255 * torch.tensor(LUMA)[:, None, None]).sum(1)


def within_binomial(count, total, probability):
    """Five standard deviations: one false alarm in two million."""
    spread = math.sqrt(total * probability * (1 - probability))
    return abs(count - total * probability) <= 5 * spread


def test_objects_are_the_labels_of_their_originals(train, test):
    target = load_digits().target
    for scenes in (train, test):
        assert scenes.objects.tolist() == [target[i] for i in scenes.originals.tolist()]


def test_split_is_every_fifth_original_of_each_class_by_a_plain_loop(train, test):
    seen = [0] * 10
    held_out = set()
    for index, digit in enumerate(load_digits().target):
        seen[digit] += 1
        if seen[digit] % 5 == 0:
            held_out.add(index)
    used = make_scenes("test", 6000, size=8)
    assert set(used.originals.tolist()) == held_out
    assert held_out.isdisjoint(train.originals.tolist())
    for split in (train, test):
        assert split.objects.unique().tolist() == list(range(10))


def test_no_original_is_shared_whatever_the_seeds():
    train = {
        i for s in range(3) for i in make_scenes("train", 3000, size=8, seed=s).originals.tolist()
    }
    test = {
        i for s in range(3) for i in make_scenes("test", 3000, size=8, seed=s).originals.tolist()
    }
    assert not train & test
    assert len(train | test) > 1780  # all but those that 9,000 draws miss by chance


def test_backgrounds_have_their_frequencies_whatever_the_object(train):
    assert sum(BACKGROUND_FREQUENCIES) == pytest.approx(1)
    assert len(BACKGROUNDS) == len(BACKGROUND_FREQUENCIES) == len(REGIONS)
    for background, probability in enumerate(BACKGROUND_FREQUENCIES):
        shown = train.backgrounds == background
        assert within_binomial(int(shown.sum()), len(shown), probability)
        for digit in range(10):
            of_digit = shown[train.objects == digit]
            assert within_binomial(int(of_digit.sum()), len(of_digit), probability)


def test_objects_are_about_balanced(train):
    for digit in range(10):
        assert within_binomial(int((train.objects == digit).sum()), len(train.objects), 0.1)


def test_every_region_is_in_its_photograph_and_holds_the_largest_crop():
    photographs = load_sample_images().images
    for photograph, top, left, bottom, right in REGIONS:
        height, width, _ = photographs[photograph].shape
        assert 0 <= top < bottom <= height
        assert 0 <= left < right <= width
        assert min(bottom - top, right - left) >= CROP_SIDE[1]


def test_background_labels_tell_which_region_is_behind_the_digit(train):
    """The corners' mean colour is mostly nearest to the mean colour of the labelled region."""
    photographs = load_sample_images().images
    means = torch.stack(
        [
            torch.from_numpy(photographs[number][top:bottom, left:right].copy())
            .float()
            .mean((0, 1))
            for number, top, left, bottom, right in REGIONS
        ]
    )
    corners = train.pixels[:, :, [0, 0, -1, -1], [0, -1, 0, -1]].float().mean(2)
    guess = torch.cdist(corners, means).argmin(1)
    for background in range(len(BACKGROUNDS)):
        votes = guess[train.backgrounds == background].bincount(minlength=len(BACKGROUNDS))
        assert votes.argmax() == background
        assert votes[background] > 0.45 * votes.sum()  # a digit may cover some corners


def test_background_pixels_are_those_of_a_crop_of_the_photograph():
    """A corner that no stroke touches equals, to rounding, a bilinear resize of some crop.

    Sky is nearly one colour, so that the crop itself need not be known.
    """
    scenes = make_scenes("train", 300)
    sky = BACKGROUNDS.index("sky")
    photograph, top, left, bottom, right = REGIONS[sky]
    region = torch.from_numpy(
        load_sample_images().images[photograph][top:bottom, left:right].copy()
    )
    low, high = region.amin((0, 1)), region.amax((0, 1))
    corner = scenes.pixels[scenes.backgrounds == sky][:, :, 0, 0]
    inside = ((corner >= low) & (corner <= high)).all(1)
    assert inside.float().mean() > 0.9  # the others' corners are strokes


def test_a_person_could_read_the_digit(test):
    """The enlarged original correlates with the luminance at some place and side."""
    pixels, originals = test.pixels[:400], test.originals[:400]
    ink = torch.from_numpy(load_digits().images).float()[originals][:, None] / 16
    grey = luminance(pixels).flatten(1)
    grey = F.normalize(grey - grey.mean(1, keepdim=True))
    best = torch.zeros(len(grey))
    for side in (25, 27, 29):
        enlarged = F.interpolate(ink, (side, side), mode="bilinear")[:, 0]
        for top in range(33 - side):
            for left in range(33 - side):
                placed = F.pad(enlarged, (left, 32 - side - left, top, 32 - side - top)).flatten(1)
                placed = F.normalize(placed - placed.mean(1, keepdim=True))
                best = torch.maximum(best, (placed * grey).sum(1).abs())
    assert best.median() > 0.8
    assert best.quantile(0.02) > 0.3


def test_digit_and_its_surroundings_differ_in_luminance_by_the_stated_contrast():
    """On sky, where the surroundings are one tone, the darkest and the typical pixel tell."""
    scenes = make_scenes("train", 2000)
    grey = luminance(scenes.pixels[scenes.backgrounds == BACKGROUNDS.index("sky")]).flatten(1)
    difference = grey.median(1).values - grey.quantile(0.02, dim=1)
    assert difference.quantile(0.01) > CONTRAST[0] - 0.08
    assert difference.quantile(0.99) < CONTRAST[1] + 0.08


def test_colours_do_not_tell_the_object(train):
    """The mean colours of two digits on one background differ by less than a few levels."""
    strong = (train.backgrounds == 0).nonzero()[:, 0]
    hue = train.pixels[strong].float().flatten(2)
    darkest = hue.sum(1).argmin(1)
    colour = hue[torch.arange(len(hue)), :, darkest]
    for digit in range(10):
        own = train.objects[strong] == digit
        spread = colour.std(0) * (1 / own.sum() + 1 / (~own).sum()).sqrt()
        assert ((colour[own].mean(0) - colour[~own].mean(0)).abs() < 5 * spread).all()


@pytest.mark.parametrize("size", [8, 32, 64])
def test_shapes_types_and_range(size):
    scenes = make_scenes("test", 7, size=size)
    assert scenes.pixels.shape == (7, 3, size, size)
    assert scenes.pixels.dtype == torch.uint8
    for labels in scenes[1:]:
        assert labels.shape == (7,)
        assert labels.dtype == torch.int64


def test_same_arguments_same_images_whatever_was_drawn_before():
    first = make_scenes("train", 50, seed=3)
    torch.manual_seed(1)
    torch.rand(5)
    for a, b in zip(first, make_scenes("train", 50, seed=3), strict=True):
        assert torch.equal(a, b)


def test_seeds_and_splits_differ():
    images = [
        make_scenes("train", 50, seed=0),
        make_scenes("train", 50, seed=1),
        make_scenes("test", 50, seed=0),
    ]
    for i, a in enumerate(images):
        for b in images[:i]:
            assert (a.pixels != b.pixels).flatten(1).any(1).all()
            assert not torch.equal(a.backgrounds, b.backgrounds)


def test_one_image():
    assert make_scenes("train", 1).pixels.shape == (1, 3, 32, 32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("validation", 5, 32), "validation"),  # the type check may find it first
        (("train", 0, 32), "count = 0"),
        (("train", 5, 4), "size = 4"),
    ],
)
def test_impossible_arguments_are_named(arguments, message):
    split, count, size = arguments
    with pytest.raises(Exception, match=message):
        make_scenes(split, count, size=size)
