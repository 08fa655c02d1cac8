"""The individuals of a fit as arrays of one shape, and minibatches of them."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._stitching import defaults

# Numbers held at once: 2^25 float32 are 128 MiB.
POOL = 2**25


class Observations(eqx.Module):
    """Individuals of all times in internal units, padded to one size: shapes never change."""

    points: Float[Array, "t n d"]
    weights: Float[Array, "t n"]
    counts: Int[Array, " t"]
    times: Float[Array, " t"]
    order: Int[Array, "t n"]  # a random order of each time's individuals
    units: Units = eqx.field(static=True)

    @staticmethod
    def source(
        data: Snapshots,
        multiple: int = 1,
        place: Callable[[Observations], Observations] = lambda seen: seen,
    ) -> Callable[[int], Observations]:
        """What each tenth of a fit sees: everybody, or of data too large one pool after another.

        Numbers are padded to a `multiple`, and `place` puts them where they belong.
        """
        if int(data.counts.max()) * len(data) * data.dim <= POOL:
            everybody = place(Observations.of(data, multiple=multiple))
            return lambda tenth: everybody
        return lambda tenth: place(Observations.of(data, tenth, multiple))

    @staticmethod
    def of(data: Snapshots, pool: int = 0, multiple: int = 1) -> Observations:
        """All individuals, or where they are too many a random pool of each time's."""
        sizes = np.minimum(data.counts, max(1, POOL // (len(data) * data.dim)))
        shape = (len(data), -(-int(sizes.max()) // multiple) * multiple)
        points, weights = np.zeros((*shape, data.dim), jnp.result_type(float)), np.zeros(shape)
        order, rng = np.zeros(shape, np.int32), np.random.default_rng(pool)
        for k, size in enumerate(sizes):
            cloud, own = data.cloud(k), data.cloud_weights(k)
            if size < len(cloud):
                rows = np.sort(rng.choice(len(cloud), size, replace=False))
                cloud, own = cloud[rows], own[rows]
            points[k, :size] = data.units.space_in(cloud)
            points[k, size:] = points[k, 0]
            weights[k, :size] = own
            order[k, :size] = rng.permutation(size)
        return Observations(
            jnp.asarray(points, float),
            jnp.asarray(weights, float),
            jnp.asarray(sizes),
            jnp.asarray(data.units.time_in(data.times), float),
            jnp.asarray(order),
            data.units,
        )

    def minibatch(self, size: int, key: Array) -> tuple[Array, Array, Array, float]:
        """About `size` individuals: times, points, weights that sum to one, and the scale.

        All times while each can have 32 individuals, else a random set of times. Estimates of the
        sum over times are unbiased.
        """
        t, n = self.weights.shape
        per_time = min(n, max(size // t, defaults.FEWEST_OF_A_TIME))
        some = min(t, max(1, size // per_time))
        pick_times, pick_rows = jax.random.split(key)
        chosen = jnp.arange(t)
        if some < t:
            chosen = jax.random.permutation(pick_times, t)[:some]
        points, weights, counts = self.points[chosen], self.weights[chosen], self.counts[chosen]
        if per_time < n:
            u = jax.random.uniform(pick_rows, (some, per_time))
            rows = jnp.minimum((u * counts[:, None]).astype(jnp.int32), counts[:, None] - 1)
            points = jnp.take_along_axis(points, rows[:, :, None], axis=1)
            weights = jnp.take_along_axis(weights, rows, axis=1) / per_time
        else:
            weights = weights / counts[:, None].astype(weights.dtype)
        return self.times[chosen], points, weights, t / some

    def __len__(self) -> int:
        return self.times.shape[0]

    def individuals(
        self, chosen: Int[Array, " s"], n: int, key: Array
    ) -> tuple[Float[Array, "s n d"], Float[Array, "s n"]]:
        """n different individuals of each chosen time, and their weights, which sum to one.

        Times with fewer repeat some without weight.
        """
        n = min(n, self.weights.shape[1])
        counts, places = self.counts[chosen][:, None], jnp.arange(n)[None, :]
        first = jax.random.randint(key, counts.shape, 0, counts)
        rows = jnp.take_along_axis(self.order[chosen], (first + places) % counts, axis=1)
        points = jnp.take_along_axis(self.points[chosen], rows[:, :, None], axis=1)
        weights = jnp.take_along_axis(self.weights[chosen], rows, axis=1)
        weights = jnp.where(places < counts, weights, 0.0)
        total = weights.sum(axis=1, keepdims=True)
        even = (places < counts) / jnp.minimum(n, counts)  # all drawn may weigh nothing
        return points, jnp.where(total > 0.0, weights / jnp.maximum(total, 1e-30), even)
