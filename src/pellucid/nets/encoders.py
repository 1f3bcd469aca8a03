"""Encoders by timm name, with a stem that small images survive."""

import inspect
from difflib import get_close_matches
from typing import Any, Literal

import timm
import torch
from jaxtyping import Float
from timm.models import resnet, vision_transformer
from timm.models.resnet import BasicBlock, ResNet
from torch import Tensor, nn

Stem = Literal["auto", "small", "large"]

SMALL_IMAGE = 96
"""Up to this side, in pixels, `stem="auto"` takes the small-image stem."""

THIN = "resnet18-thin"
"""ResNet-18 with 16, 32, 64 and 128 channels in place of 64 to 512, for machines without a GPU."""


def make_encoder(
    name: str,
    image_size: int,
    stem: Stem = "auto",
    stem_padding: int = 1,
    stem_stride: int = 1,
) -> nn.Module:
    """An untrained encoder, [B, 3, H, W] -> [B, F].

    Args:
        name: `resnet18-thin` or any name of `timm.list_models()`.
        image_size: side of the images in pixels.
        stem: `small` is a 3x3 convolution of stride 1 without max-pool (ResNets) or patches of 4
            pixels (ViTs), as usual at 32 px; `large` is timm's own; `auto` takes `small` up to
            96 px.
        stem_padding: padding of the small 3x3 stem. 1 keeps the image size; the code published
            with NCL and BayesNCL pads by 2.
        stem_stride: stride of the small 3x3 stem. 1 as usual; 2 quarters the work of a step, for
            machines that would otherwise not finish.

    Raises:
        ValueError: the name is unknown, or no small stem is known for this architecture.
    """
    small = stem == "small" or (stem == "auto" and image_size <= SMALL_IMAGE)
    if name == THIN:
        net: nn.Module = ResNet(
            BasicBlock,  # type: ignore[arg-type]  # timm takes the class and says an instance
            (2, 2, 2, 2),
            channels=(16, 32, 64, 128),
            stem_type="deep",  # timm ignores stem_width otherwise: 64 channels at full size
            stem_width=8,  # 16 channels out
            num_classes=0,
            zero_init_last=False,
        )
        return _with_small_stem(net, stem_padding, stem_stride) if small else net
    if not timm.is_model(name):
        near = get_close_matches(name, [THIN, *timm.list_models()], n=5)
        raise ValueError(
            f"unknown encoder {name!r}; "
            + (f"near names: {', '.join(near)}; " if near else "")
            + f"valid: {THIN} or any name of timm.list_models()"
        )
    family = inspect.getmodule(timm.model_entrypoint(name))
    if family is resnet:
        # The last batch norm of a block starts at 1, as in torchvision and both papers.
        net = timm.create_model(name, num_classes=0, zero_init_last=False)
        return _with_small_stem(net, stem_padding, stem_stride) if small else net
    if family is vision_transformer:
        patch: dict[str, Any] = {"patch_size": 4} if small else {}
        return timm.create_model(name, num_classes=0, img_size=image_size, **patch)
    if stem == "small":
        raise ValueError(
            f"no small-image stem is known for {name!r}; "
            "set encoder.stem=large, or take a ResNet or a ViT"
        )
    return timm.create_model(name, num_classes=0)


def _with_small_stem(net: nn.Module, padding: int, stride: int) -> nn.Module:
    width = net.get_submodule("bn1").get_parameter("weight").numel()
    stem = nn.Conv2d(3, width, 3, stride=stride, padding=padding, bias=False)
    nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")
    net.conv1 = stem
    net.maxpool = nn.Identity()
    return net


@torch.no_grad()
def feature_width(encoder: nn.Module, image_size: int) -> int:
    """The number of features F of an encoder, read off a dry run in eval mode."""
    training = encoder.training
    features: Float[Tensor, "1 f"] = encoder.eval()(torch.zeros(1, 3, image_size, image_size))
    encoder.train(training)
    if features.ndim != 2:
        raise ValueError(f"an encoder must give [B, F], this one gives {list(features.shape)}")
    return features.shape[1]
