"""Simulated populations with a known energy."""

from stitchflow.datasets._double_well import double_well, double_well_potential

__all__ = ["double_well", "double_well_potential"]
