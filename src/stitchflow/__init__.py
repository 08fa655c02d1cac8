"""Learn the energy behind population snapshots, and the curve that joins them."""

# Importing a name as itself makes it public, for type checkers and editors too. Every public name
# has an entry in docs/api.md.

import logging as _logging
from importlib.metadata import version as _version

from stitchflow import datasets as datasets
from stitchflow import metrics as metrics
from stitchflow import pl as pl
from stitchflow import report as report
from stitchflow import tl as tl
from stitchflow import tracking as tracking
from stitchflow._data.scaling import Scaling as Scaling
from stitchflow._data.scaling import Standardised as Standardised
from stitchflow._data.scaling import UnitTime as UnitTime
from stitchflow._data.scaling import Unscaled as Unscaled
from stitchflow._data.snapshots import Snapshots as Snapshots
from stitchflow._data.units import Units as Units
from stitchflow._energy.energy import Energy as Energy
from stitchflow._energy.networks import PlainNetwork as PlainNetwork
from stitchflow._energy.pair_terms import Interaction as Interaction
from stitchflow._energy.pair_terms import VectorKernel as VectorKernel
from stitchflow._energy.per_condition import PerCondition as PerCondition
from stitchflow._energy.terms import Entropy as Entropy
from stitchflow._energy.terms import InternalEnergy as InternalEnergy
from stitchflow._energy.terms import Potential as Potential
from stitchflow._energy.terms import Term as Term
from stitchflow._energy.vector_field import VectorField as VectorField
from stitchflow._judging.compare import Comparison as Comparison
from stitchflow._judging.compare import Difference as Difference
from stitchflow._judging.compare import compare as compare
from stitchflow._judging.crossval import CrossValidation as CrossValidation
from stitchflow._judging.crossval import cross_validate as cross_validate
from stitchflow._judging.diagnose import diagnose as diagnose
from stitchflow._judging.diagnosis import Diagnosis as Diagnosis
from stitchflow._judging.evaluate import evaluate as evaluate
from stitchflow._judging.identifiability import Identifiability as Identifiability
from stitchflow._judging.scores import Row as Row
from stitchflow._judging.scores import Scores as Scores
from stitchflow._judging.select import select as select
from stitchflow._judging.selection import Selection as Selection
from stitchflow._judging.selection import Support as Support
from stitchflow._measure.curve import Curve as Curve
from stitchflow._measure.kde import KDE as KDE
from stitchflow._measure.kde import silverman as silverman
from stitchflow._measure.spacing import ByAction as ByAction
from stitchflow._measure.spacing import Even as Even
from stitchflow._measure.spacing import Spacing as Spacing
from stitchflow._measure.spline import Spline as Spline
from stitchflow._measure.spline import SplineCurve as SplineCurve
from stitchflow._measure.weights import DataWeights as DataWeights
from stitchflow._measure.weights import JointWeights as JointWeights
from stitchflow._measure.weights import Weights as Weights
from stitchflow._measure.widths import BoundedKernel as BoundedKernel
from stitchflow._measure.widths import FreeKernel as FreeKernel
from stitchflow._measure.widths import Kernel as Kernel
from stitchflow._method.contract import METHODS as METHODS
from stitchflow._method.contract import Fit as Fit
from stitchflow._method.contract import Method as Method
from stitchflow._method.contract import Packed as Packed
from stitchflow._method.flow import Flow as Flow
from stitchflow._method.spread import Spread as Spread
from stitchflow._objective.consistency import Consistency as Consistency
from stitchflow._objective.density_residual import DensityResidual as DensityResidual
from stitchflow._objective.dissipation import DissipationResidual as DissipationResidual
from stitchflow._objective.divergence import KL as KL
from stitchflow._objective.divergence import MMD as MMD
from stitchflow._objective.divergence import DenoisingScoreMatching as DenoisingScoreMatching
from stitchflow._objective.divergence import Divergence as Divergence
from stitchflow._objective.divergence import ScoreMatching as ScoreMatching
from stitchflow._objective.divergence import SinkhornDivergence as SinkhornDivergence
from stitchflow._objective.growth import Growth as Growth
from stitchflow._objective.growth import growth_prior as growth_prior
from stitchflow._objective.intervals import Backward as Backward
from stitchflow._objective.intervals import Forward as Forward
from stitchflow._objective.intervals import Midpoint as Midpoint
from stitchflow._objective.intervals import Trapezoid as Trapezoid
from stitchflow._objective.residual import Residual as Residual
from stitchflow._objective.residual import VelocityResidual as VelocityResidual
from stitchflow._objective.weak_residual import WeakResidual as WeakResidual
from stitchflow._status import BadInput as BadInput
from stitchflow._status import DataWarning as DataWarning
from stitchflow._status import ExtrapolationWarning as ExtrapolationWarning
from stitchflow._status import NotAvailable as NotAvailable
from stitchflow._status import Status as Status
from stitchflow._stitching.anchor import Anchor as Anchor
from stitchflow._stitching.anchor import ByAverages as ByAverages
from stitchflow._stitching.anchor import NoAnchor as NoAnchor
from stitchflow._stitching.ensemble import Ensemble as Ensemble
from stitchflow._stitching.ensemble import fit_ensemble as fit_ensemble
from stitchflow._stitching.first_paths import SmoothStart as SmoothStart
from stitchflow._stitching.first_paths import Start as Start
from stitchflow._stitching.first_paths import StraightStart as StraightStart
from stitchflow._stitching.published import PaperStitching as PaperStitching
from stitchflow._stitching.shrinkage import ByHeldOut as ByHeldOut
from stitchflow._stitching.shrinkage import NoShrinkage as NoShrinkage
from stitchflow._stitching.shrinkage import Shrinkage as Shrinkage
from stitchflow._stitching.stitching import Stitching as Stitching
from stitchflow._stitching.stitching import fit as fit
from stitchflow._storage.save import load as load
from stitchflow._training.checkpoint import Checkpoint as Checkpoint
from stitchflow._training.cluster import run_all as run_all
from stitchflow._training.history import StageHistory as StageHistory
from stitchflow._training.optimise import Optimiser as Optimiser
from stitchflow._weak_form.basis import Basis as Basis
from stitchflow._weak_form.method import WeakForm as WeakForm
from stitchflow.rivals import *  # noqa: F403

__version__ = _version("stitchflow")
# A program that wants to see the messages adds a handler of its own.
_logging.getLogger(__name__).addHandler(_logging.NullHandler())
