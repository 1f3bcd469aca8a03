"""Readable image representations without labels."""

from importlib.metadata import version

from pellucid.branch import Branch
from pellucid.learner import Learner, weigh
from pellucid.run import load
from pellucid.types import Embedding, Step

__all__ = ["Branch", "Embedding", "Learner", "Step", "load", "weigh"]
__version__ = version("pellucid")
