"""Where a fit starts: a curve through matched individuals, and an energy of the right size."""

from __future__ import annotations

from functools import partial

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._measure.coupling import nearest_chain
from stitchflow._measure.curve import CLOSEST, Curve, inverse_softplus, node_times
from stitchflow._measure.drift import Drift, shared_drift
from stitchflow._measure.kde import leave_one_out_bandwidth, silverman
from stitchflow._measure.spline import SplineCurve
from stitchflow._stitching import defaults
from stitchflow._stitching.plan import Plan
from stitchflow._types import KeyLike, as_key, as_rng


def start(plan: Plan, data: Snapshots, key: KeyLike, units: Units) -> Curve:
    """Smooth paths through individuals matched by optimal transport, or by id when paired."""
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
        drift = shared_drift(clouds, observed)
        chain = drift.chain(clouds, weights, observed, n, rng)
    else:  # where masses may change nobody has to cross over to balance them
        chain = nearest_chain(clouds, weights, n, rng)
    # Silverman's width for the particles, averaged over the times.
    width = np.mean([np.asarray(silverman(cloud)) for cloud in chain], axis=0)
    if n > data.counts.min() or plan.growth is not None:  # particles drawn twice never part
        chain = chain + defaults.JITTER * width * rng.standard_normal(chain.shape)
    widest = defaults.WIDEST_KERNEL * min(1.0, defaults.FEW_DIMENSIONS / data.dim) ** 0.5
    most = widest * np.mean([cloud.std(axis=0) for cloud in clouds], axis=0)
    # Snapshots may be of one individual, or of copies; no kernel is narrower than float32 can tell.
    most = np.maximum(most, max(1e-3 * float(most.max()), CLOSEST))
    least = np.minimum(defaults.NARROWEST_KERNEL * leave_one_out_bandwidth(clouds, rng), 0.5 * most)
    least = np.maximum(least, 0.5 * CLOSEST)
    width = np.minimum(width, most)
    if plan.curve is None:
        places = nodes = node_times(observed, plan.nodes, data.actions)
        kind = Curve
    else:
        places, nodes = plan.curve.times(observed, plan.nodes, data.actions)
        kind = partial(SplineCurve, knots=tuple(places.tolist()))
    return kind(
        particles=jnp.asarray(drift.paths(chain, observed, places), float),
        log_weights=jnp.zeros(n),
        raw_bandwidth=inverse_softplus(np.maximum(width - least, 0.1 * width)),
        times=tuple(nodes.tolist()),
        least_bandwidth=jnp.asarray(least, float),
        most_bandwidth=jnp.asarray(most, float),
        learn_particles=plan.learn_particles,
        learn_weights=plan.learn_weights,
        learn_bandwidth=plan.learn_bandwidth,
        growth=None if plan.growth is None else plan.growth.init(data.dim, as_key(key)),
    )


def start_model(
    plan: Plan, data: Snapshots, start_key: Array, energy_key: Array
) -> tuple[Curve, Energy]:
    """Where a fit starts: a curve along the least bent paths, an energy of the right size."""
    units = data.units
    curve = start(plan, data, start_key, units)
    energy = plan.energy.init(np.asarray(units.space_in(data.x)), units, energy_key)
    return curve, energy.sized_for(curve.speed)
