"""A run's features of any images, on disk: shards that are whole or absent, and a manifest."""

from pellucid.embed.embedding import embed
from pellucid.embed.subject import Wanted

__all__ = ["Wanted", "embed"]
