"""Sources of images, decoding, the memory cache, batched views and the built-in scenes."""

from pellucid.data.image_set import ImageSet, open_images
from pellucid.data.known import KNOWN, open_source
from pellucid.data.source import DataError, Source

__all__ = ["KNOWN", "DataError", "ImageSet", "Source", "open_images", "open_source"]
