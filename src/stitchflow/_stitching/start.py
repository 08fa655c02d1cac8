"""Where a fit starts: a curve through matched individuals, and an energy."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._measure.coupling import nearest_chain
from stitchflow._measure.curve import Curve
from stitchflow._measure.drift import Drift
from stitchflow._measure.spline import SplineCurve
from stitchflow._measure.widths import mean_silverman
from stitchflow._stitching import defaults
from stitchflow._stitching.plan import Plan
from stitchflow._types import KeyLike, as_key, as_rng


def start(plan: Plan, data: Snapshots, key: KeyLike, units: Units) -> Curve:
    """Paths through individuals matched by optimal transport, or by id when paired."""
    rng, n = as_rng(key), plan.particles
    if data.counts.max() > defaults.MOST_MATCHED and not data.paired:
        data = data.subsample(defaults.MOST_MATCHED, key)
    clouds = [np.asarray(units.space_in(cloud), np.float64) for cloud in data.clouds]
    weights = [data.cloud_weights(k) for k in range(len(data))]
    observed, drift = units.time_in(data.times), Drift.none(data.dim)
    if data.paired and n <= data.counts[0]:
        paths = data.paths[:, rng.permutation(data.counts[0])[:n]]
        chain = np.asarray(units.space_in(paths), np.float64)
    elif plan.growth is None:
        drift = plan.init.drift(clouds, observed)
        chain = drift.chain(clouds, weights, observed, n, rng)
    else:  # where masses may change nobody has to cross over to balance them
        chain = nearest_chain(clouds, weights, n, rng)
    usual = mean_silverman(chain)
    if n > data.counts.min() or plan.growth is not None:  # particles drawn twice never part
        chain = chain + defaults.JITTER * usual * rng.standard_normal(chain.shape)
    widths = plan.kernel.widths(clouds, usual, rng)
    if plan.curve is None:
        places = nodes = plan.spacing.times(observed, plan.nodes, data.actions)
        kind = Curve
    else:
        places, nodes = plan.curve.times(observed, plan.nodes, data.actions)
        kind = partial(SplineCurve, knots=tuple(places.tolist()))
    return kind(
        particles=jnp.asarray(plan.init.paths(drift, chain, observed, places), float),
        log_weights=jnp.zeros(n),
        raw_bandwidth=widths.raw,
        times=tuple(nodes.tolist()),
        least_bandwidth=jnp.asarray(widths.least, float),
        most_bandwidth=jnp.asarray(widths.most, float),
        learn_particles=plan.learn_particles,
        learn_weights=plan.learn_weights,
        learn_bandwidth=plan.learn_bandwidth,
        growth=None if plan.growth is None else plan.growth.init(data.dim, as_key(key)),
    )


def start_model(
    plan: Plan,
    data: Snapshots,
    start_key: Array,
    energy_key: Array,
    known: Energy | None = None,
) -> tuple[Curve, Energy]:
    """Where a fit starts: a curve through the snapshots, and an energy of the right size.

    Arguments:
        plan: the settings.
        data: the snapshots.
        start_key: the random key of the curve.
        energy_key: the random key of the energy's parameters.
        known: an energy that is known already.
    """
    units = plan.scaling.units(data)
    curve = start(plan, data, start_key, units)
    if known is not None:
        return curve, known
    energy = plan.energy.init(np.asarray(units.space_in(data.x)), units, energy_key)
    return curve, plan.init.sized(energy, curve.speed)
