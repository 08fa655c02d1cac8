"""Learn the energy behind population snapshots, and the curve that joins them."""

from importlib.metadata import version as _version

from stitchflow import datasets, metrics, pl, tl
from stitchflow._consistency import Consistency
from stitchflow._crossval import CrossValidation, cross_validate
from stitchflow._curve import Curve
from stitchflow._diagnose import Diagnosis, diagnose
from stitchflow._divergence import KL, DenoisingScoreMatching, ScoreMatching
from stitchflow._energy import Energy
from stitchflow._ensemble import Ensemble, fit_ensemble
from stitchflow._evaluate import Row, Scores, evaluate
from stitchflow._growth import Growth, growth_prior
from stitchflow._io import load
from stitchflow._kde import KDE, silverman
from stitchflow._method import Fit, Method
from stitchflow._methods import METHODS
from stitchflow._optimise import Checkpoint, Optimiser
from stitchflow._pair_terms import Interaction, VectorKernel
from stitchflow._residual import Backward, Forward, Midpoint, Trapezoid, VelocityResidual
from stitchflow._snapshots import Snapshots
from stitchflow._status import ExtrapolationWarning, NotAvailable, Status
from stitchflow._stitching import Stitching, fit
from stitchflow._terms import Entropy, InternalEnergy, Potential
from stitchflow._units import Units
from stitchflow._vector_field import VectorField
from stitchflow.rivals import IJKOnet, JKOnet, JKOnetStar, JKOnetStarLinear, Nearest, OTLinear

__version__ = _version("stitchflow")

__all__ = [
    "KDE",
    "KL",
    "METHODS",
    "Backward",
    "Checkpoint",
    "Consistency",
    "CrossValidation",
    "Curve",
    "DenoisingScoreMatching",
    "Diagnosis",
    "Energy",
    "Ensemble",
    "Entropy",
    "ExtrapolationWarning",
    "Fit",
    "Forward",
    "Growth",
    "IJKOnet",
    "Interaction",
    "InternalEnergy",
    "JKOnet",
    "JKOnetStar",
    "JKOnetStarLinear",
    "Method",
    "Midpoint",
    "Nearest",
    "NotAvailable",
    "OTLinear",
    "Optimiser",
    "Potential",
    "Row",
    "ScoreMatching",
    "Scores",
    "Snapshots",
    "Status",
    "Stitching",
    "Trapezoid",
    "Units",
    "VectorField",
    "VectorKernel",
    "VelocityResidual",
    "cross_validate",
    "datasets",
    "diagnose",
    "evaluate",
    "fit",
    "fit_ensemble",
    "growth_prior",
    "load",
    "metrics",
    "pl",
    "silverman",
    "tl",
]
