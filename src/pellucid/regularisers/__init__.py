"""Regularisers: what a step should also keep to, whatever its framework."""

from pellucid.regularisers.regulariser import Regulariser

__all__ = ["Regulariser"]
