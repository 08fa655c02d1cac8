"""Simulated populations with a known energy."""

from stitchflow.datasets._double_well import double_well, double_well_potential
from stitchflow.datasets._potentials import POTENTIALS, wavy_valley_potential
from stitchflow.datasets._simulated import (
    Simulated,
    chiral,
    chiral_energy,
    chiral_kernel,
    cis_energy,
    line_wells,
    synthetic,
    wavy_valley,
)

__all__ = [
    "POTENTIALS",
    "Simulated",
    "chiral",
    "chiral_energy",
    "chiral_kernel",
    "cis_energy",
    "double_well",
    "double_well_potential",
    "line_wells",
    "synthetic",
    "wavy_valley",
    "wavy_valley_potential",
]
