"""What a fit uses where the user left the choice to the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import VectorKernel
from stitchflow._stitching import defaults
from stitchflow._stitching.anchor import ByAverages, NoAnchor
from stitchflow._stitching.plan import Specification
from stitchflow._stitching.shrinkage import ByHeldOut, NoShrinkage, is_few

AnySpecification = TypeVar("AnySpecification", bound=Specification)


class Regime(NamedTuple):
    """Sizes that depend on how the energy moves individuals, and in how many dimensions."""

    particles: int
    steps: int
    batch: int
    alpha: float
    draws: int | None
    stations: int
    learn: bool  # whether the curve's parameters are trained

    @staticmethod
    def of(energy: Energy, data: Snapshots) -> Regime:
        if not energy.needs_density:
            return Regime._paths(energy, float(np.mean(data.counts)))
        n, high = float(np.mean(data.counts)), data.dim >= defaults.MANY_DIMENSIONS
        share = float(np.clip(data.dim / defaults.MANY_DIMENSIONS, defaults.PARTICLE_SHARE, 1.0))
        # Many small snapshots share their individuals with their neighbours.
        enough = defaults.FEWEST_PARTICLES
        everybody = len(data.x) / defaults.INDIVIDUALS_PER_PARTICLE
        fewest = max(min(n, enough), min(everybody, enough))
        wanted, most = share * n, defaults.MOST_PARTICLES
        if data.paired:  # a particle is the path of an individual, and none is left out
            wanted = n
        if high:
            wanted, most = n, defaults.MOST_FIXED_PARTICLES
        return Regime(
            round(min(max(wanted, fewest), most)),
            defaults.STEPS,
            defaults.BATCH_OF_FIXED if high else defaults.BATCH,
            defaults.ALPHA,
            defaults.DRAWS,
            defaults.STATIONS,
            learn=not high,
        )

    @staticmethod
    def _paths(energy: Energy, n: float) -> Regime:
        """Without diffusion particles are characteristics: exact where no kernel blurs them."""
        kernel = bool(energy.only(VectorKernel))
        most = round(min(n, defaults.MOST_PAIRED_PATHS if kernel else defaults.MOST_PATHS))
        few = defaults.FEWEST_STATIONS
        stations = (
            few if kernel else max(few, min(defaults.STATIONS, defaults.PLACES_OF_PATHS // most))
        )
        return Regime(
            most,
            defaults.STEPS_OF_PATHS,
            defaults.BATCH_OF_PATHS,
            defaults.ALPHA_OF_PATHS,
            None,
            stations,
            learn=True,
        )


def residual_weight(data: Snapshots) -> float:
    """The residual's weight, stricter for fewer individuals, for more times and for slower data."""
    n = float(np.mean(data.counts))
    weight = float(np.clip(defaults.RESIDUAL_INDIVIDUALS / n, *defaults.RESIDUAL_WEIGHTS))
    weight *= max(1.0, len(data) / defaults.FEW_TIMES) ** 0.5
    return weight / min(1.0, data.motion.distance**2)


def _either(given: Any, default: Any) -> Any:
    return default if given is None else given


def resolve(method: AnySpecification, data: Snapshots) -> AnySpecification:
    """The settings of `method` with every None replaced by what suits the data."""
    regime = Regime.of(method.energy, data)
    learns = {
        name: _either(getattr(method, name), regime.learn)
        for name in ("learn_particles", "learn_weights", "learn_bandwidth")
    }
    believed = isinstance(method.shrinkage, NoShrinkage) or not method.energy.needs_density
    usual = regime.steps if believed or not is_few(data) else defaults.STEPS_OF_FEW
    steps = _either(method.optimiser.steps, usual)
    # A static potential seldom explains all of the curve, so it is also trained on where it
    # carries individuals.
    static = method.energy.needs_density and not method.energy.time_varying
    long = static and steps >= defaults.FEWEST_STEPS
    more = round(defaults.CONSISTENCY_SHARE * steps) if long else 0
    more = _either(method.consistency.steps, more)
    settling = defaults.SETTLING * more if any(learns.values()) else 0
    carried = defaults.CARRIED_SHARE * float(np.mean(data.counts))
    carried = round(np.clip(carried, defaults.FEWEST_CARRIED, defaults.MOST_CARRIED))
    # A short fit is a sketch, for which averages would take longer than all its steps.
    sketch = steps < defaults.FEWEST_STEPS
    nodes = min(defaults.MOST_NODES, defaults.NODES_PER_SNAPSHOT * len(data))
    nodes = _either(method.nodes, max(defaults.FEWEST_NODES, nodes))
    curve = method.curve
    if curve is not None and curve.knots is None:
        curve = replace(curve, knots=min(nodes, defaults.KNOTS_PER_SNAPSHOT * len(data)))
    return replace(
        method,
        **learns,
        particles=_either(method.particles, regime.particles),
        nodes=nodes,
        batch=_either(method.batch, regime.batch),
        residual=method.residual.filled_in(
            {
                "alpha": regime.alpha,
                "weight": residual_weight(data),
                "stations": regime.stations,
                "ridge": data.motion.noise,
                "draws": regime.draws,
            }
        ),
        curve=curve,
        consistency=replace(
            method.consistency,
            steps=more,
            settling=_either(method.consistency.settling, settling),
            individuals=_either(method.consistency.individuals, carried),
        ),
        optimiser=replace(method.optimiser, steps=steps),
        anchor=_either(method.anchor, NoAnchor() if sketch else ByAverages()),
        shrinkage=_either(method.shrinkage, NoShrinkage() if sketch else ByHeldOut()),
    )
