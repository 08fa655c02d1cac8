"""The individuals of a fit as arrays of one shape, and minibatches of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

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


class Minibatch(NamedTuple):
    """Some individuals of some times.

    Arguments:
        times: the internal times (s,).
        points: the individuals (s, m, d).
        weights: their weights, which sum to one at each time.
        counts: how many individuals each of the times has in all.
        scale: by which a sum over these times estimates the sum over all times.
        total: how many individuals all times have in all.
    """

    times: Float[Array, " s"]
    points: Float[Array, "s m d"]
    weights: Float[Array, "s m"]
    counts: Int[Array, " s"]
    scale: float
    total: Int[Array, ""]


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
        units: Units,
        multiple: int = 1,
        place: Callable[[Observations], Observations] = lambda seen: seen,
    ) -> Callable[[int], Observations]:
        """What each tenth of a fit sees: everybody, or of data too large one pool after another.

        Numbers are padded to a `multiple`, and `place` puts them where they belong.
        """
        if int(data.counts.max()) * len(data) * data.dim <= POOL:
            everybody = place(Observations.of(data, units, multiple=multiple))
            return lambda tenth: everybody
        return lambda tenth: place(Observations.of(data, units, tenth, multiple))

    @staticmethod
    def of(
        data: Snapshots, units: Units | None = None, pool: int = 0, multiple: int = 1
    ) -> Observations:
        """All individuals, or where they are too many a random pool of each time's.

        Arguments:
            data: the snapshots.
            units: the internal units; None takes those of the data.
            pool: the number of the pool.
            multiple: numbers of individuals are padded to a multiple of this.
        """
        units = data.units if units is None else units
        sizes = np.minimum(data.counts, max(1, POOL // (len(data) * data.dim)))
        shape = (len(data), -(-int(sizes.max()) // multiple) * multiple)
        rng, chosen, orders = np.random.default_rng(pool), [], []
        for count, size in zip(data.counts, sizes, strict=True):
            some = size < count
            chosen.append(np.sort(rng.choice(count, size, replace=False)) if some else slice(None))
            orders.append(rng.permutation(size))
        clouds = (units.space_in(data.cloud(k)[rows]) for k, rows in enumerate(chosen))
        weights = (data.cloud_weights(k)[rows] for k, rows in enumerate(chosen))
        return Observations(
            padded(clouds, (*shape, data.dim), repeat=True),
            padded(weights, shape),
            jnp.asarray(sizes),
            jnp.asarray(units.time_in(data.times), float),
            padded(orders, shape, np.int32),
            units,
        )

    def minibatch(self, size: int, key: Array) -> Minibatch:
        """About `size` individuals.

        All times while each can have 32 individuals, else a random set of times. Estimates of the
        sum over times are unbiased.
        """
        t, n = self.weights.shape
        some, per_time = batch_sizes(t, n, size, defaults.FEWEST_OF_A_TIME)
        pick_times, pick_rows = jax.random.split(key)
        chosen = some_of(t, some, pick_times)
        points, weights, counts = self.points[chosen], self.weights[chosen], self.counts[chosen]
        if per_time < n:
            rows = random_rows(counts, per_time, pick_rows)
            points = jnp.take_along_axis(points, rows[:, :, None], axis=1)
            weights = jnp.take_along_axis(weights, rows, axis=1) / per_time
        else:
            weights = weights / counts[:, None].astype(weights.dtype)
        return Minibatch(self.times[chosen], points, weights, counts, t / some, self.counts.sum())

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
        even = (places < counts) / jnp.minimum(n, counts)
        return points, shares(jnp.where(places < counts, weights, 0.0), even)


def padded(
    parts: Iterable[Any], shape: tuple[int, ...], dtype: Any = float, repeat: bool = False
) -> Array:
    """Arrays of unequal length as one; behind the end of each are zeros, or copies of its first."""
    found = np.zeros(shape, jnp.result_type(dtype))
    for row, part in zip(found, parts, strict=True):
        row[: len(part)] = part
        if repeat:
            row[len(part) :] = row[0]
    return jnp.asarray(found)


def batch_sizes(total: int, n: int, batch: int, least: int) -> tuple[int, int]:
    """How many out of `total` a step looks at, and how many individuals of each.

    About `batch` individuals together, of each at least `least` where there are as many (n).
    """
    each = min(n, max(batch // total, least))
    return min(total, max(1, batch // each)), each


def some_of(total: int, number: int, key: Array) -> Int[Array, " s"]:
    """`number` different ones out of `total`, or all."""
    return jnp.arange(total) if number >= total else jax.random.permutation(key, total)[:number]


def random_rows(counts: Int[Array, " s"], n: int, key: Array) -> Int[Array, "s n"]:
    """n random rows of each of several times, which have so many."""
    u = jax.random.uniform(key, (len(counts), n))
    return jnp.minimum((u * counts[:, None]).astype(jnp.int32), counts[:, None] - 1)


def shares(weights: Float[Array, "s n"], even: Any) -> Float[Array, "s n"]:
    """Weights that sum to one at each time, or `even` ones where nobody has any."""
    total = weights.sum(axis=1, keepdims=True)
    return jnp.where(total > 0.0, weights / jnp.maximum(total, 1e-30), even)
