"""Pairs of individuals of neighbouring snapshots, and the straight lines between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.snapshots import Snapshots
from stitchflow._measure.coupling import draw, plan

# A dense plan between this many individuals takes a few seconds; above it, random blocks.
DENSE_UP_TO = 3000
DRAWS = 8  # pairs kept for each individual of the largest snapshot

# (x, y, their weights, the time between them) -> the plan, all in internal units.
Coupling = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float], np.ndarray]


class Lines(NamedTuple):
    """Straight lines between pairs, each with a time on it; internal units.

    Arguments:
        time: the time on each line.
        start: the position at which it starts.
        end: the position at which it ends.
        start_time: when it starts.
        end_time: when it ends.
    """

    time: Float[Array, " m"]
    start: Float[Array, "m d"]
    end: Float[Array, "m d"]
    start_time: Float[Array, " m"]
    end_time: Float[Array, " m"]

    @property
    def duration(self) -> Float[Array, " m"]:
        """The time that each line takes."""
        return self.end_time - self.start_time

    @property
    def share(self) -> Float[Array, " m"]:
        """The elapsed share of each line at its time, from 0 to 1."""
        return jnp.clip((self.time - self.start_time) / self.duration, 0.0, 1.0)

    @property
    def way(self) -> Float[Array, "m d"]:
        """The displacement from start to end."""
        return self.end - self.start

    @property
    def position(self) -> Float[Array, "m d"]:
        """The position on each line at its time."""
        return self.start + self.share[:, None] * self.way


class Pairs(eqx.Module):
    """Equally likely pairs, the same number for each gap, in internal units.

    Arguments:
        starts: the earlier individual of each pair of each gap.
        ends: the later one.
        times: the times of the snapshots.
    """

    starts: Float[Array, "i n d"]
    ends: Float[Array, "i n d"]
    times: Float[Array, " t"]

    @staticmethod
    def nearest(data: Snapshots, rng: np.random.Generator) -> Pairs:
        """Pairs known by id if the data are paired, otherwise drawn from optimal transport."""
        exact = lambda x, y, a, b, _: plan(x, y, a, b)
        return Pairs.known(data, rng) if data.paired else Pairs.coupled(data, exact, rng)

    @staticmethod
    def coupled(data: Snapshots, couple: Coupling, rng: np.random.Generator) -> Pairs:
        """Pairs drawn from a plan between every two neighbouring snapshots."""
        times, size = data.units.time_in(data.times), DRAWS * int(data.counts.max())
        found = []
        for k, gap in enumerate(np.diff(times)):
            here, there = (data.weights[data.slice(j)] > 0 for j in (k, k + 1))
            x, y = (np.asarray(data.units.space_in(data.cloud(j))) for j in (k, k + 1))
            a, b = data.cloud_weights(k)[here], data.cloud_weights(k + 1)[there]
            found.append(_drawn(x[here], y[there], a, b, float(gap), couple, size, rng))
        return Pairs._of(found, times)

    @staticmethod
    def known(data: Snapshots, rng: np.random.Generator) -> Pairs:
        """Pairs of equal ids in paired data; the weight of a pair is the mean of its ends'."""
        weights = data.path_weights
        paths, size = np.asarray(data.units.space_in(data.paths)), DRAWS * int(data.counts[0])
        found = []
        for k in range(len(data) - 1):
            pick = draw(weights[k] + weights[k + 1], size, rng)
            found.append((paths[k, pick], paths[k + 1, pick]))
        return Pairs._of(found, data.units.time_in(data.times))

    @staticmethod
    def _of(found: list[tuple[np.ndarray, np.ndarray]], times: np.ndarray) -> Pairs:
        starts, ends = (np.stack(side) for side in zip(*found, strict=True))
        return Pairs(*(jnp.asarray(array, float) for array in (starts, ends, times)))

    def lines(self, n: int, key: Array) -> Lines:
        """`n` random lines, at times spread evenly over the whole duration."""
        when, who = jax.random.split(key)
        time = (jnp.arange(n) + jax.random.uniform(when, (n,))) / n
        return self._at(jnp.searchsorted(self.times[1:-1], time, side="right"), time, who)

    def lines_of_gaps(self, n: int, key: Array) -> Lines:
        """`n` random lines at times spread evenly over their gap; all gaps are equally likely."""
        which, when, who = jax.random.split(key, 3)
        gap = jax.random.randint(which, (n,), 0, self.starts.shape[0])
        share = (jnp.arange(n) + jax.random.uniform(when, (n,))) / n
        time = (1.0 - share) * self.times[gap] + share * self.times[gap + 1]
        return self._at(gap, time, who)

    def _at(self, gap: Array, time: Array, key: Array) -> Lines:
        row = jax.random.randint(key, time.shape, 0, self.starts.shape[1])
        ends = self.times[gap], self.times[gap + 1]
        return Lines(time, self.starts[gap, row], self.ends[gap, row], *ends)


def _drawn(
    x: np.ndarray,
    y: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    gap: float,
    couple: Coupling,
    size: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs from a plan, or from plans between random blocks of large snapshots."""
    blocks = min(-(-max(len(x), len(y)) // DENSE_UP_TO), len(x), len(y))
    parts = lambda n: np.array_split(rng.permutation(n), blocks)
    starts, ends = [], []
    for i, j in zip(parts(len(x)), parts(len(y)), strict=True):
        full = couple(x[i], y[j], a[i], b[j], gap)
        rows, columns = np.nonzero(full)
        pick = draw(full[rows, columns], -(-size // blocks), rng)
        starts.append(x[i][rows[pick]])
        ends.append(y[j][columns[pick]])
    return np.concatenate(starts)[:size], np.concatenate(ends)[:size]
