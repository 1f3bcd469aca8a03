"""What brings a prediction to a target without negatives."""

import torch
from jaxtyping import Float
from torch import Tensor

from pellucid.losses.contrastive import unit_rows


def cosine_regression(
    prediction: Float[Tensor, "n k"], target: Float[Tensor, "n k"]
) -> Float[Tensor, ""]:
    """Squared distance of unit rows, 2 - 2 cos, averaged over images: 0 to 4.

    Rows need no normalisation; a zero row counts as orthogonal to everything. Gradients reach
    whatever was not detached.

    Source: BYOL (Grill et al., 2020, arXiv 2006.07733), equation 2, one of its two directions.

    Raises:
        ValueError: shapes differ, or there is no row.
    """
    if prediction.shape != target.shape or prediction.ndim != 2 or len(prediction) < 1:
        raise ValueError(
            "prediction and target must be [N, K] with at least one row, row i of one belonging to "
            f"row i of the other, got shapes {tuple(prediction.shape)} and {tuple(target.shape)}"
        )
    with torch.autocast(prediction.device.type, enabled=False):
        cosine = (unit_rows(prediction) * unit_rows(target)).sum(dim=1)
        return (2 - 2 * cosine).mean()
