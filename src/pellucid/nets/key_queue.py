"""The queue of keys that MoCo contrasts with."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from pellucid.losses import unit_rows


class KeyQueue(nn.Module):
    """The newest keys as unit rows, at most `size` of them; empty at the start.

    Random keys in place of no keys would be free negatives for non-negative queries, so nothing is
    given out that was not put in.

    Args:
        size: rows that are kept.
        dimensions: K, the width of a key.

    Raises:
        ValueError: either is below 1.
    """

    rows: Tensor

    def __init__(self, size: int, dimensions: int) -> None:
        super().__init__()
        if size < 1 or dimensions < 1:
            raise ValueError(f"a queue needs sizes of at least 1, got {size} x {dimensions}")
        self.size = size
        self.seen = 0  # keys ever put in: a plain number, so that no device is waited for
        self.register_buffer("rows", torch.zeros(size, dimensions))

    def __len__(self) -> int:
        """How many keys there are now."""
        return min(self.seen, self.size)

    def keys(self) -> Float[Tensor, "m k"]:
        """The keys so far, in no order: a view of the queue, which the next `put` overwrites."""
        return self.rows[: len(self)]

    @torch.no_grad()
    def put(self, keys: Float[Tensor, "n k"]) -> None:
        """Add keys, the oldest giving way; of more than `size` the last stay."""
        newest = unit_rows(keys[-self.size :]).to(self.rows.dtype)
        first = self.seen + len(keys) - len(newest)
        places = (torch.arange(len(newest), device=self.rows.device) + first) % self.size
        self.rows.index_copy_(0, places, newest)
        self.seen += len(keys)

    def get_extra_state(self) -> Tensor:
        """What a checkpoint keeps beside the rows."""
        return torch.tensor(self.seen)

    def set_extra_state(self, state: Tensor) -> None:
        """Take up what `get_extra_state` gave."""
        self.seen = int(state)

    def extra_repr(self) -> str:
        return f"{self.size}, {self.rows.shape[1]}"
