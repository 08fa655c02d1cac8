"""The published method by name: every part is the paper's choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stitchflow._data.scaling import Scaling, Unscaled
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.networks import PlainNetwork
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._energy.terms import Entropy, Potential, Term
from stitchflow._measure.spacing import Even, Spacing
from stitchflow._measure.weights import JointWeights, Weights
from stitchflow._measure.widths import FreeKernel, Kernel
from stitchflow._method.contract import Method
from stitchflow._objective.consistency import Consistency
from stitchflow._objective.divergence import KL, Divergence
from stitchflow._objective.intervals import Trapezoid
from stitchflow._objective.residual import Residual, VelocityResidual
from stitchflow._parts import LATER
from stitchflow._stitching.anchor import Anchor, NoAnchor
from stitchflow._stitching.first_paths import Start, StraightStart
from stitchflow._stitching.shrinkage import NoShrinkage, Shrinkage
from stitchflow._stitching.stitching import Stitching
from stitchflow._training.optimise import Optimiser

HIDDEN = (64, 64)  # the layers of all published networks


def published_potential(time_varying: bool = False, last_layer: float = 1.0) -> Potential:
    """The paper's V: a plain network of two layers."""
    network = PlainNetwork(last_layer)
    return Potential(hidden=HIDDEN, time_varying=time_varying, network=network)


def published_rule(steps: int | None = None) -> Optimiser:
    """Adam at 5e-3 with a cosine decay to 5 %; gradients as they are; the last parameters."""
    return Optimiser(steps, learning_rate=5e-3, final=0.05, clip=None, last=True, pace=1.0)


@dataclass(frozen=True)
class PaperStitching(Stitching):
    """The published method; `Stitching.paper` makes it, and every setting can be changed.

    The settings are those of `Stitching`, with the paper's choices as defaults.

    Arguments:
        energy: V(x), a plain network of two layers, and an entropy.
        particles: 100.
        nodes: 50.
        residual: the trapezoidal velocity residual at the centres of all intervals, with weight 1.
        divergence: the sum over times of the mean negative log likelihood of individuals.
        consistency: no second and no third stage.
        growth: none.
        optimiser: Adam at 5e-3, with a cosine decay to 5 %; the last parameters are kept.
        batch: everybody in every step.
        learn_particles: True.
        learn_weights: True.
        learn_bandwidth: True.
        curve: paths that are straight between nodes.
        init: straight lines through exact assignments.
        spacing: even.
        kernel: one width for each dimension from Silverman's rule, without bounds.
        weights: data term and residual train them.
        scaling: places and times as they are given.
        anchor: none, networks learn the energy.
        shrinkage: none, everybody is trained on.

    >>> sf.Stitching.paper().name
    'stitching-paper'
    """

    energy: Energy = field(default_factory=lambda: published_potential() + Entropy())
    particles: int | None = 100
    nodes: int | None = 50
    residual: Residual = field(
        default_factory=lambda: VelocityResidual(
            Trapezoid(), alpha=0.0, weight=1.0, ridge=0.0, widening=1.0
        )
    )
    divergence: Divergence = field(default_factory=KL)
    consistency: Consistency = field(default_factory=lambda: Consistency(steps=0, settling=0))
    optimiser: Optimiser = field(default_factory=published_rule)
    learn_particles: bool | None = True
    learn_weights: bool | None = True
    learn_bandwidth: bool | None = True
    init: Start = field(default_factory=StraightStart, metadata=LATER)
    spacing: Spacing = field(default_factory=Even, metadata=LATER)
    kernel: Kernel = field(default_factory=FreeKernel, metadata=LATER)
    weights: Weights = field(default_factory=JointWeights, metadata=LATER)
    scaling: Scaling = field(default_factory=Unscaled, metadata=LATER)
    anchor: Anchor | None = field(default_factory=NoAnchor, metadata=LATER)
    shrinkage: Shrinkage | None = field(default_factory=NoShrinkage, metadata=LATER)

    @classmethod
    def by_name(cls) -> dict[str, Callable[[], Method]]:
        varying = lambda: cls(energy=published_potential(time_varying=True) + Entropy())
        return {"stitching-paper": cls, "stitching-paper-varying": varying}

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "stitching-paper-varying" if self.energy.time_varying else "stitching-paper"

    def resolved(self, data: Snapshots) -> PaperStitching:
        """All intervals and all individuals in every step, where the experiment says nothing."""
        every = {"stations": self.nodes, "alpha": 0.0, "weight": 1.0, "ridge": 0.0}
        whole = replace(
            self,
            batch=self.batch or int(data.counts.max()) * len(data),
            residual=self.residual.filled_in(every),
        )
        return super(PaperStitching, whole).resolved(data)  # pyright: ignore[reportReturnType]

    def learning(self, physics: Energy) -> PaperStitching:
        """The same method for an energy of this form, with the paper's networks."""
        varying = self.energy.time_varying
        return replace(self, energy=Energy(tuple(_published(t, varying) for t in physics.terms)))

    def by_euler_steps(self, data: Snapshots) -> PaperStitching:
        """The published method does not know how the data moved."""
        return self

    def as_published(self, experiment: Mapping[str, Any]) -> PaperStitching:
        return replace(self, **experiment)


def _published(term: Term, varying: bool) -> Term:
    """A term with the paper's network in place of ours."""
    if isinstance(term, Potential) and term.function is None:
        return published_potential(term.time_varying or varying)
    if isinstance(term, Interaction) and term.function is None:
        return Interaction(radial=term.radial, hidden=HIDDEN, network=PlainNetwork())
    if isinstance(term, VectorKernel) and term.function is None:
        return VectorKernel(hidden=HIDDEN, network=PlainNetwork(last_layer=0.01))
    return term
