"""Single-cell tools with scverse's conventions: results are written to the AnnData."""

from stitchflow._reading.cells import representation as representation
from stitchflow._reading.cells import times as times
from stitchflow.tl._cellrank import to_cellrank as to_cellrank
from stitchflow.tl._compare_cells import compare as compare
from stitchflow.tl._drivers import drivers as drivers
from stitchflow.tl._dynamics import interpolate as interpolate
from stitchflow.tl._dynamics import simulate as simulate
from stitchflow.tl._fates import ancestors as ancestors
from stitchflow.tl._fates import fate as fate
from stitchflow.tl._fit import fit as fit
from stitchflow.tl._genes import genes as genes
from stitchflow.tl._perturb import perturb as perturb
from stitchflow.tl._score import report as report
from stitchflow.tl._score import score as score
from stitchflow.tl._store import load as load
from stitchflow.tl._terminal import terminal_states as terminal_states
