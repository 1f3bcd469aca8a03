"""Scores of a representation: functions of features [N, K] and labels [N]."""

from pellucid.metrics import as_published
from pellucid.metrics.activity import active_entries, unit_rows
from pellucid.metrics.conflict import Conflict, Forces, gradient_conflict, nt_xent_forces
from pellucid.metrics.consistency import (
    Consistency,
    DimensionConsistency,
    dimension_consistency,
    semantic_consistency,
)
from pellucid.metrics.entropy import SemanticEntropy, semantic_entropy
from pellucid.metrics.matching import Matching, match_dimensions
from pellucid.metrics.monosemanticity import Monosemanticity, monosemanticity
from pellucid.metrics.rank import Orthogonality, effective_rank, orthogonality
from pellucid.metrics.retrieval import Retrieval, rank_dimensions, retrieval_precision
from pellucid.metrics.sparsity import activation_rate, density
from pellucid.metrics.volume import (
    EntropyGain,
    Volume,
    entropy_gain,
    estimate_log_abs_det,
    feature_volume,
    log_abs_det,
)

__all__ = [
    "Conflict",
    "Consistency",
    "DimensionConsistency",
    "EntropyGain",
    "Forces",
    "Matching",
    "Monosemanticity",
    "Orthogonality",
    "Retrieval",
    "SemanticEntropy",
    "Volume",
    "activation_rate",
    "active_entries",
    "as_published",
    "density",
    "dimension_consistency",
    "effective_rank",
    "entropy_gain",
    "estimate_log_abs_det",
    "feature_volume",
    "gradient_conflict",
    "log_abs_det",
    "match_dimensions",
    "monosemanticity",
    "nt_xent_forces",
    "orthogonality",
    "rank_dimensions",
    "retrieval_precision",
    "semantic_consistency",
    "semantic_entropy",
    "unit_rows",
]
