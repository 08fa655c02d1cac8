"""Where the curve of a fit starts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._measure.coupling import nearest_chain
from stitchflow._measure.curve import CLOSEST, Curve, inverse_softplus, node_times
from stitchflow._measure.drift import Drift, shared_drift
from stitchflow._measure.kde import leave_one_out_bandwidth, silverman
from stitchflow._measure.spline import SplineCurve
from stitchflow._types import KeyLike, as_key, as_rng

if TYPE_CHECKING:
    from stitchflow._stitching.stitching import Stitching

# The narrowest kernel, as a share of the one that predicts left-out individuals best: narrower
# ones describe the sample, make its score pure noise, and with it drive beta to zero.
NARROWEST = 0.5

# The widest kernel, as a share of a snapshot's spread. In many dimensions likelihood asks for
# kernels as wide as the cloud, and draws from them are nowhere near anybody: beyond a few
# dimensions the share falls, so that the length of a kernel's draw stays the same.
WIDEST, FEW_DIMENSIONS = 0.35, 5

# Individuals of a time that are enough to start from.
MOST_STARTED = 20_000


def start(method: Stitching, data: Snapshots, key: KeyLike, units: Units) -> Curve:
    """Smooth paths through individuals matched by optimal transport, or by id when paired."""
    assert method.particles is not None, "settings are not resolved"
    assert method.nodes is not None, "settings are not resolved"
    rng, n = as_rng(key), method.particles
    if data.counts.max() > MOST_STARTED and not data.paired:
        data = data.subsample(MOST_STARTED, key)
    clouds = [np.asarray(units.space_in(cloud), np.float64) for cloud in data.clouds]
    weights = [data.cloud_weights(k) for k in range(len(data))]
    observed, drift = units.time_in(data.times), Drift.none(data.dim)
    if data.paired and n <= data.counts[0]:
        paths = data.paths[:, rng.permutation(data.counts[0])[:n]]
        chain = np.asarray(units.space_in(paths), np.float64)
    elif method.growth is None:
        drift = shared_drift(clouds, observed)
        chain = drift.chain(clouds, weights, observed, n, rng)
    else:  # where masses may change nobody has to cross over to balance them
        chain = nearest_chain(clouds, weights, n, rng)
    # Silverman's width for the particles, averaged over the times.
    width = np.mean([np.asarray(silverman(cloud)) for cloud in chain], axis=0)
    if n > data.counts.min() or method.growth is not None:  # particles drawn twice never part
        chain = chain + 0.1 * width * rng.standard_normal(chain.shape)
    widest = WIDEST * min(1.0, FEW_DIMENSIONS / data.dim) ** 0.5
    most = widest * np.mean([cloud.std(axis=0) for cloud in clouds], axis=0)
    # Snapshots may be of one individual, or of copies; no kernel is narrower than float32 can tell.
    most = np.maximum(most, max(1e-3 * float(most.max()), CLOSEST))
    least = np.minimum(NARROWEST * leave_one_out_bandwidth(clouds, rng), 0.5 * most)
    least = np.maximum(least, 0.5 * CLOSEST)
    width = np.minimum(width, most)
    if method.curve is None:
        places = nodes = node_times(observed, method.nodes, data.actions)
        kind = Curve
    else:
        places, nodes = method.curve.times(observed, method.nodes, data.actions)
        kind = partial(SplineCurve, knots=tuple(places.tolist()))
    return kind(
        particles=jnp.asarray(drift.paths(chain, observed, places), float),
        log_weights=jnp.zeros(n),
        raw_bandwidth=inverse_softplus(np.maximum(width - least, 0.1 * width)),
        times=tuple(nodes.tolist()),
        least_bandwidth=jnp.asarray(least, float),
        most_bandwidth=jnp.asarray(most, float),
        learn_particles=bool(method.learn_particles),
        learn_weights=bool(method.learn_weights),
        learn_bandwidth=bool(method.learn_bandwidth),
        growth=None if method.growth is None else method.growth.init(data.dim, as_key(key)),
    )
