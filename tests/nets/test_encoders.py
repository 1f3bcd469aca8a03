"""Encoders by name, and their small-image stems."""

import pytest
import torch
from torch import nn

from pellucid.nets.encoders import THIN, feature_width, make_encoder


def block_ends(net):
    """The last batch norm of every residual block."""
    stages = (net.layer1, net.layer2, net.layer3, net.layer4)
    return [getattr(b, "bn3", None) or b.bn2 for stage in stages for b in stage]


@pytest.fixture(scope="module")
def thin():
    return make_encoder(THIN, 32)


def test_the_thin_resnet_is_a_resnet18_a_quarter_as_wide(thin):
    assert feature_width(thin, 32) == 128
    assert thin(torch.randn(2, 3, 32, 32)).shape == (2, 128)
    wide = dict(make_encoder("resnet18", 32).named_parameters())
    narrow = dict(thin.named_parameters())
    assert narrow.keys() == wide.keys()
    for name, parameter in narrow.items():
        quarter = [n // 4 if n >= 64 else n for n in wide[name].shape]
        assert list(parameter.shape) == quarter, name


def test_the_small_stem_keeps_small_images_whole(thin):
    assert thin.conv1.kernel_size == (3, 3)
    assert isinstance(thin.maxpool, nn.Identity)
    assert thin.conv1(torch.randn(1, 3, 32, 32)).shape[-2:] == (32, 32)
    padded = make_encoder(THIN, 32, stem_padding=2)
    assert padded.conv1(torch.randn(1, 3, 32, 32)).shape[-2:] == (34, 34)
    strided = make_encoder(THIN, 32, stem_stride=2)
    assert strided.conv1(torch.randn(1, 3, 32, 32)).shape[-2:] == (16, 16)


@pytest.mark.parametrize(
    ("size", "stem", "kernel"),
    [(96, "auto", 3), (97, "auto", 7), (32, "large", 7), (224, "small", 3)],
)
def test_auto_takes_the_small_stem_up_to_96_pixels(size, stem, kernel):
    net = make_encoder("resnet18", size, stem)
    assert net.conv1.kernel_size == (kernel, kernel)
    assert isinstance(net.maxpool, nn.Identity) == (kernel == 3)


@pytest.mark.parametrize(
    ("name", "width", "blocks"), [(THIN, 128, 8), ("resnet18", 512, 8), ("resnet50", 2048, 16)]
)
def test_no_residual_block_starts_switched_off(name, width, blocks):
    net = make_encoder(name, 32)
    ends = block_ends(net)
    assert len(ends) == blocks
    assert all(bool((norm.weight == 1).all()) for norm in ends)
    assert feature_width(net, 8) == width


def test_a_vit_takes_small_patches_of_small_images():
    net = make_encoder("vit_tiny_patch16_224", 32)
    assert net.patch_embed.proj.kernel_size == (4, 4)
    assert net.patch_embed.num_patches == 64
    assert net.eval()(torch.randn(2, 3, 32, 32)).shape == (2, feature_width(net, 32)) == (2, 192)


def test_a_dry_run_for_the_width_changes_nothing(thin):
    before = {name: t.clone() for name, t in thin.state_dict().items()}
    thin.train()
    feature_width(thin, 32)
    assert thin.training
    assert all(torch.equal(t, before[name]) for name, t in thin.state_dict().items())


def test_an_encoder_of_maps_is_refused():
    with pytest.raises(ValueError, match=r"must give \[B, F\], this one gives \[1, 4, 8, 8\]"):
        feature_width(nn.Conv2d(3, 4, 1), 8)


def test_an_unknown_name_is_answered_with_the_near_ones():
    with pytest.raises(
        ValueError, match=r"unknown encoder 'resnet18-thn'.*near names: resnet18-thin"
    ):
        make_encoder("resnet18-thn", 32)
    with pytest.raises(ValueError, match=r"unknown encoder 'qqqqqq'; valid: resnet18-thin or"):
        make_encoder("qqqqqq", 32)


def test_no_small_stem_is_guessed_for_other_architectures():
    with pytest.raises(ValueError, match=r"no small-image stem.*encoder\.stem=large"):
        make_encoder("mobilenetv3_small_050", 32, "small")
