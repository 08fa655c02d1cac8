"""Single-cell tools with scverse's conventions: results are written to the AnnData."""

from stitchflow._reading.cells import representation, times
from stitchflow.tl._cellrank import to_cellrank
from stitchflow.tl._dynamics import interpolate, simulate
from stitchflow.tl._fates import ancestors, fate
from stitchflow.tl._fit import fit
from stitchflow.tl._genes import genes
from stitchflow.tl._perturb import perturb
from stitchflow.tl._score import report, score
from stitchflow.tl._store import load

__all__ = [
    "ancestors",
    "fate",
    "fit",
    "genes",
    "interpolate",
    "load",
    "perturb",
    "report",
    "representation",
    "score",
    "simulate",
    "times",
    "to_cellrank",
]
