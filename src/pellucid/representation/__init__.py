"""Images in a representation, wherever it was made: runs, folders of `embed`, files of features."""

from pellucid.representation.representation import (
    Representation,
    open_representation,
    same_images,
)

__all__ = ["Representation", "open_representation", "same_images"]
