"""Example data: populations simulated with a known energy, and recorded ones."""

from stitchflow.datasets._double_well import double_well, double_well_potential
from stitchflow.datasets._potentials import POTENTIALS, wavy_valley_potential
from stitchflow.datasets._recorded import Recorded, chiral_recorded, cis, embryoid
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
    "Recorded",
    "Simulated",
    "chiral",
    "chiral_energy",
    "chiral_kernel",
    "chiral_recorded",
    "cis",
    "cis_energy",
    "double_well",
    "double_well_potential",
    "embryoid",
    "line_wells",
    "synthetic",
    "wavy_valley",
    "wavy_valley_potential",
]
