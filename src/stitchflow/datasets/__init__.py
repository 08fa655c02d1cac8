"""Example data: populations simulated with a known energy, and recorded ones."""

from stitchflow.datasets._double_well import double_well as double_well
from stitchflow.datasets._double_well import double_well_potential as double_well_potential
from stitchflow.datasets._potentials import POTENTIALS as POTENTIALS
from stitchflow.datasets._potentials import wavy_valley_potential as wavy_valley_potential
from stitchflow.datasets._recorded import Recorded as Recorded
from stitchflow.datasets._recorded import chiral_recorded as chiral_recorded
from stitchflow.datasets._recorded import cis as cis
from stitchflow.datasets._recorded import embryoid as embryoid
from stitchflow.datasets._simulated import Simulated as Simulated
from stitchflow.datasets._simulated import chiral as chiral
from stitchflow.datasets._simulated import chiral_energy as chiral_energy
from stitchflow.datasets._simulated import chiral_kernel as chiral_kernel
from stitchflow.datasets._simulated import cis_energy as cis_energy
from stitchflow.datasets._simulated import line_wells as line_wells
from stitchflow.datasets._simulated import synthetic as synthetic
from stitchflow.datasets._simulated import three_marginals as three_marginals
from stitchflow.datasets._simulated import wavy_valley as wavy_valley
from stitchflow.datasets._small_populations import populations as populations
from stitchflow.datasets._small_populations import populations_energy as populations_energy
