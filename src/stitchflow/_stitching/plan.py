"""Two kinds of settings: what a user asks for, and what a fit to certain data uses."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from stitchflow._data.scaling import Scaling, Standardised
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.per_condition import PerCondition
from stitchflow._energy.terms import Entropy, Potential, Term
from stitchflow._measure.spacing import ByAction, Spacing
from stitchflow._measure.spline import Spline
from stitchflow._measure.weights import DataWeights, Weights
from stitchflow._measure.widths import BoundedKernel, Kernel
from stitchflow._objective.consistency import Consistency
from stitchflow._objective.divergence import KL, Divergence
from stitchflow._objective.growth import Growth
from stitchflow._objective.residual import Residual, VelocityResidual
from stitchflow._parts import LATER
from stitchflow._status import BadInput, BadInputType
from stitchflow._stitching.anchor import Anchor
from stitchflow._stitching.first_paths import SmoothStart, Start
from stitchflow._stitching.shrinkage import Shrinkage
from stitchflow._training.optimise import Optimiser
from stitchflow._types import check_count
from stitchflow._weak_form.method import WeakFlow


@dataclass(frozen=True)
class Specification:
    """What a user asks of stitching; None leaves a choice to the data (`resolve`)."""

    energy: Energy = field(default_factory=lambda: Potential() + Entropy())
    particles: int | None = None
    nodes: int | None = None
    residual: Residual = field(default_factory=VelocityResidual)
    divergence: Divergence = field(default_factory=KL)
    consistency: Consistency = field(default_factory=Consistency)
    growth: Growth | None = None
    optimiser: Optimiser = field(default_factory=Optimiser)
    batch: int | None = None
    learn_particles: bool | None = None
    learn_weights: bool | None = None
    learn_bandwidth: bool | None = None
    curve: Spline | None = field(default=None, metadata=LATER)
    init: Start = field(default_factory=SmoothStart, metadata=LATER)
    spacing: Spacing = field(default_factory=ByAction, metadata=LATER)
    kernel: Kernel = field(default_factory=BoundedKernel, metadata=LATER)
    weights: Weights = field(default_factory=DataWeights, metadata=LATER)
    scaling: Scaling = field(default_factory=Standardised, metadata=LATER)
    anchor: Anchor | None = field(default=None, metadata=LATER)
    shrinkage: Shrinkage | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        # A single term is an energy too.
        energy = Energy((self.energy,)) if isinstance(self.energy, Term) else self.energy
        kinds = {"energy": Energy, "residual": Residual}
        kinds |= {"divergence": Divergence, "optimiser": Optimiser, "consistency": Consistency}
        kinds |= {"growth": Growth, "curve": Spline, "init": Start, "spacing": Spacing}
        kinds |= {"kernel": Kernel, "weights": Weights, "scaling": Scaling, "anchor": Anchor}
        kinds |= {"shrinkage": Shrinkage}
        object.__setattr__(self, "energy", energy)
        if isinstance(energy, Energy) and energy.only(PerCondition):
            raise BadInput(f"energy: only WeakForm learns a PerCondition so far, got {energy!r}")
        for name, kind in kinds.items():
            value = getattr(self, name)
            absent = name in ("growth", "curve", "anchor", "shrinkage") and value is None
            if not absent and not isinstance(value, kind):
                raise BadInputType(f"{name} must be a {kind.__name__}, got {value!r}")
        for name, least in (("particles", 1), ("nodes", 2), ("batch", 1)):
            if getattr(self, name) is not None:
                check_count(getattr(self, name), name, least)


@dataclass(frozen=True)
class Plan:
    """A specification with every choice made: what the start and the stages of a fit read.

    Plans are compared by their settings, so that fits of the same plan share compiled programs.
    """

    energy: Energy
    particles: int
    nodes: int
    residual: Residual
    divergence: Divergence
    consistency: Consistency
    growth: Growth | None
    optimiser: Optimiser
    batch: int
    learn_particles: bool
    learn_weights: bool
    learn_bandwidth: bool
    curve: Spline | None
    init: Start
    spacing: Spacing
    kernel: Kernel
    weights: Weights
    scaling: Scaling
    anchor: Anchor
    shrinkage: Shrinkage

    def told_by_averages(self, data: Snapshots) -> WeakFlow | None:
        """The weak form's flow where it tells the energy; None where networks have to learn it."""
        if self.growth is not None:  # averages of individuals that multiply tell another energy
            return None
        return self.anchor.estimate(self.energy, data, self.scaling.units(data))

    @staticmethod
    def of(resolved: Specification) -> Plan:
        """The plan of settings that were resolved for the data at hand."""
        settings = {entry.name: getattr(resolved, entry.name) for entry in fields(Plan)}
        optional = ("growth", "curve")
        if left := [n for n, value in settings.items() if value is None and n not in optional]:
            raise BadInput(f"settings are left to the data, resolve them first: {', '.join(left)}")
        return Plan(**settings)
