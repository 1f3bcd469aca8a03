"""What every metric asks of its input, refused by name when it is something else."""

import torch
from torch import Tensor

ROWS = 512
"""Images handled at a time; it bounds memory and changes no result. Few, as blocks of more than
some 32 MB would be new pages from the kernel every time."""

COSINES = 2**24
"""Cosines of queries with all images that are held at a time: 64 MB however many images there
are, which changes no result."""


def checked_features(features: Tensor, name: str = "features") -> Tensor:
    """The same features without gradient, once they are a finite, floating-point [N, K].

    Raises:
        TypeError: they are not floating point.
        ValueError: they are not [N, K], empty, or hold a NaN or an infinity.
    """
    if features.ndim != 2:
        raise ValueError(f"{name} must be [N, K], one row an image; got {tuple(features.shape)}")
    if 0 in features.shape:
        raise ValueError(
            f"{name} need at least one image and one dimension; got {tuple(features.shape)}"
        )
    if not features.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {features.dtype}: use {name}.float()")
    features = features.detach()
    if not torch.stack(features.aminmax()).isfinite().all():  # one pass; a NaN shows in both
        image = int(features.isfinite().all(dim=1).int().argmin())
        raise ValueError(f"{name} must be finite: image {image} has a NaN or an infinity")
    return features


def checked_labels(labels: Tensor, features: Tensor) -> Tensor:
    """The same labels as int64 beside the features, once they are one class number an image.

    Raises:
        TypeError: they are not integers.
        ValueError: they are not [N] with the N of the features, or one is negative.
    """
    if labels.ndim != 1 or len(labels) != len(features):
        raise ValueError(
            f"labels must be [{len(features)}], one for each row of features; "
            f"got {tuple(labels.shape)}"
        )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(
            f"labels must be integers 0..C-1, got {labels.dtype}: "
            "class numbers in another type convert with labels.long()"
        )
    labels = labels.to(features.device, torch.int64)
    if (labels < 0).any():
        image = int((labels < 0).int().argmax())
        raise ValueError(
            f"labels must be 0..C-1, but image {image} has label {int(labels[image])}: "
            "leave images without a label out of features and labels"
        )
    return labels
