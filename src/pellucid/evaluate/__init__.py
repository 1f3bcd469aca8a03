"""A run becomes scores: features once, then interpretability, neighbours, probe, cost."""

from pellucid.evaluate.evaluation import evaluate
from pellucid.evaluate.extract import Features, extract
from pellucid.evaluate.store import read_features, read_thumbnails
from pellucid.evaluate.table import print_scores

__all__ = ["Features", "evaluate", "extract", "print_scores", "read_features", "read_thumbnails"]
