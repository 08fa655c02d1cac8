"""Learn the energy behind population snapshots, and the curve that joins them."""

import logging as _logging
from importlib.metadata import version as _version

from stitchflow import datasets, metrics, pl, report, tl, tracking
from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._energy.terms import Entropy, InternalEnergy, Potential, Term
from stitchflow._energy.vector_field import VectorField
from stitchflow._judging.crossval import CrossValidation, cross_validate
from stitchflow._judging.diagnose import diagnose
from stitchflow._judging.diagnosis import Diagnosis
from stitchflow._judging.evaluate import evaluate
from stitchflow._judging.scores import Row, Scores
from stitchflow._measure.curve import Curve
from stitchflow._measure.kde import KDE, silverman
from stitchflow._measure.spline import Spline, SplineCurve
from stitchflow._method.contract import METHODS, Fit, Method, Packed
from stitchflow._method.flow import Flow
from stitchflow._objective.consistency import Consistency
from stitchflow._objective.density_residual import DensityResidual
from stitchflow._objective.dissipation import DissipationResidual
from stitchflow._objective.divergence import (
    KL,
    MMD,
    DenoisingScoreMatching,
    Divergence,
    ScoreMatching,
    SinkhornDivergence,
)
from stitchflow._objective.growth import Growth, growth_prior
from stitchflow._objective.intervals import Backward, Forward, Midpoint, Trapezoid
from stitchflow._objective.residual import Residual, VelocityResidual
from stitchflow._status import DataWarning, ExtrapolationWarning, NotAvailable, Status
from stitchflow._stitching.ensemble import Ensemble, fit_ensemble
from stitchflow._stitching.stitching import Stitching, fit
from stitchflow._storage.save import load
from stitchflow._training.checkpoint import Checkpoint
from stitchflow._training.cluster import run_all
from stitchflow._training.optimise import Optimiser
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
