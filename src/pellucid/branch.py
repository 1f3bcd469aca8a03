"""The branch: what is trained, copied, saved and evaluated."""

from jaxtyping import Float
from torch import Tensor, nn

from pellucid.heads.head import Head
from pellucid.types import Embedding


class Branch(nn.Module):
    """Encoder, projector and head as one object: images [B, 3, H, W] -> `Embedding`.

    The same object is trained, momentum-copied, saved and, in eval mode, evaluated, so no second
    copy of the head can disagree with the one that was trained.
    """

    def __init__(self, encoder: nn.Module, projector: nn.Module, head: Head) -> None:
        super().__init__()
        self.encoder = encoder
        self.projector = projector
        self.head = head

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Embedding:
        h = self.encoder(images)
        u = self.projector(h)
        z, terms, gate = self.head(u, h)
        return Embedding(h=h, u=u, z=z, gate=gate, terms=terms)
