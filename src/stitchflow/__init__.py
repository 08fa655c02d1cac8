"""Learn the energy behind population snapshots, and the curve that joins them."""

import logging as _logging
from importlib.metadata import version as _version

from stitchflow import datasets, metrics, pl, report, tl, tracking
from stitchflow._checkpoint import Checkpoint
from stitchflow._cluster import run_all
from stitchflow._consistency import Consistency
from stitchflow._crossval import CrossValidation, cross_validate
from stitchflow._curve import Curve
from stitchflow._density_residual import DensityResidual
from stitchflow._diagnose import diagnose
from stitchflow._diagnosis import Diagnosis
from stitchflow._dissipation import DissipationResidual
from stitchflow._divergence import (
    KL,
    MMD,
    DenoisingScoreMatching,
    Divergence,
    ScoreMatching,
    SinkhornDivergence,
)
from stitchflow._energy import Energy
from stitchflow._ensemble import Ensemble, fit_ensemble
from stitchflow._evaluate import evaluate
from stitchflow._flow import Flow
from stitchflow._growth import Growth, growth_prior
from stitchflow._intervals import Backward, Forward, Midpoint, Trapezoid
from stitchflow._io import load
from stitchflow._kde import KDE, silverman
from stitchflow._method import Fit, Method, Packed
from stitchflow._methods import METHODS
from stitchflow._optimise import Optimiser
from stitchflow._pair_terms import Interaction, VectorKernel
from stitchflow._residual import Residual, VelocityResidual
from stitchflow._scores import Row, Scores
from stitchflow._snapshots import Snapshots
from stitchflow._spline import Spline, SplineCurve
from stitchflow._status import DataWarning, ExtrapolationWarning, NotAvailable, Status
from stitchflow._stitching import Stitching, fit
from stitchflow._terms import Entropy, InternalEnergy, Potential, Term
from stitchflow._units import Units
from stitchflow._vector_field import VectorField
from stitchflow.rivals import (
    CNF,
    OTCFM,
    ActionMatching,
    IJKOnet,
    JKOnet,
    JKOnetStar,
    JKOnetStarLinear,
    LagrangianBridge,
    LagrangianOT,
    Nearest,
    NeuralSDE,
    OTLinear,
    OTSpline,
    PathFlow,
    SchrodingerBridge,
)

__version__ = _version("stitchflow")
_logging.getLogger(__name__).addHandler(_logging.NullHandler())  # whoever listens says where to

__all__ = [
    "CNF",
    "KDE",
    "KL",
    "METHODS",
    "MMD",
    "OTCFM",
    "ActionMatching",
    "Backward",
    "Checkpoint",
    "Consistency",
    "CrossValidation",
    "Curve",
    "DataWarning",
    "DenoisingScoreMatching",
    "DensityResidual",
    "Diagnosis",
    "DissipationResidual",
    "Divergence",
    "Energy",
    "Ensemble",
    "Entropy",
    "ExtrapolationWarning",
    "Fit",
    "Flow",
    "Forward",
    "Growth",
    "IJKOnet",
    "Interaction",
    "InternalEnergy",
    "JKOnet",
    "JKOnetStar",
    "JKOnetStarLinear",
    "LagrangianBridge",
    "LagrangianOT",
    "Method",
    "Midpoint",
    "Nearest",
    "NeuralSDE",
    "NotAvailable",
    "OTLinear",
    "OTSpline",
    "Optimiser",
    "Packed",
    "PathFlow",
    "Potential",
    "Residual",
    "Row",
    "SchrodingerBridge",
    "ScoreMatching",
    "Scores",
    "SinkhornDivergence",
    "Snapshots",
    "Spline",
    "SplineCurve",
    "Status",
    "Stitching",
    "Term",
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
    "report",
    "run_all",
    "silverman",
    "tl",
    "tracking",
]
