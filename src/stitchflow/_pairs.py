"""Individuals of neighbouring snapshots, coupled, and minibatches of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._coupling import draw
from stitchflow._snapshots import Snapshots

# A dense plan between this many individuals takes a few seconds; above it, random blocks.
DENSE_UP_TO = 3000
DRAWS = 8  # pairs kept for each individual of the largest snapshot

# (x, y, their weights, the time between them) -> the plan, all in internal units.
Coupling = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float], np.ndarray]


class Batch(NamedTuple):
    """Pairs, and a moment between their times: `share` of the gap has passed."""

    x0: Float[Array, "m d"]
    x1: Float[Array, "m d"]
    t0: Float[Array, " m"]
    gap: Float[Array, " m"]
    share: Float[Array, " m"]

    @property
    def t(self) -> Float[Array, " m"]:
        return self.t0 + self.share * self.gap

    @property
    def line(self) -> Float[Array, "m d"]:
        """Where the straight lines between the pairs are at that moment."""
        return self.x0 + self.share[:, None] * (self.x1 - self.x0)


class Pairs(eqx.Module):
    """As many equally likely pairs for each gap, in internal units: shapes never change."""

    starts: Float[Array, "i n d"]
    ends: Float[Array, "i n d"]
    times: Float[Array, " t"]

    @staticmethod
    def coupled(data: Snapshots, couple: Coupling, rng: np.random.Generator) -> Pairs:
        """Pairs drawn from a plan between each two neighbouring snapshots."""
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
        """The pairs that ids tell of paired data; a pair weighs what its two ends do on average."""
        assert data.ids is not None
        orders = [np.argsort(data.ids[data.slice(k)], kind="stable") for k in range(len(data))]
        weights = [data.cloud_weights(k)[order] for k, order in enumerate(orders)]
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

    def draw(self, n: int, key: Array) -> Batch:
        """n pairs, gaps alike however long, at moments spread evenly over their gap."""
        pick_gap, pick_pair, pick_share = jax.random.split(key, 3)
        gaps, size = self.starts.shape[:2]
        k = jax.random.randint(pick_gap, (n,), 0, gaps)
        pair = jax.random.randint(pick_pair, (n,), 0, size)
        share = (jnp.arange(n) + jax.random.uniform(pick_share, (n,))) / n
        t0, t1 = self.times[k], self.times[k + 1]
        return Batch(self.starts[k, pair], self.ends[k, pair], t0, t1 - t0, share)


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
