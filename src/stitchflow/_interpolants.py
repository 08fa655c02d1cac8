"""Pairs of individuals of neighbouring snapshots, and the straight lines between them."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._coupling import EXACT_UP_TO, assignment, draw
from stitchflow._snapshots import Snapshots


class Lines(NamedTuple):
    """A batch of lines, each with a time on it; internal units."""

    time: Float[Array, " m"]
    start: Float[Array, "m d"]
    end: Float[Array, "m d"]
    start_time: Float[Array, " m"]
    end_time: Float[Array, " m"]

    @property
    def duration(self) -> Float[Array, " m"]:
        return self.end_time - self.start_time

    @property
    def share(self) -> Float[Array, " m"]:
        """How far along its line each time is, from 0 to 1."""
        return (self.time - self.start_time) / self.duration

    @property
    def velocity(self) -> Float[Array, "m d"]:
        return (self.end - self.start) / self.duration[:, None]

    @property
    def position(self) -> Float[Array, "m d"]:
        return self.start + self.share[:, None] * (self.end - self.start)


class Interpolants(eqx.Module):
    """As many pairs over each gap between snapshots, by optimal transport, or by id where known.

    Individuals are drawn by weight, so that the ends of the pairs are samples of their snapshots.
    """

    starts: Float[Array, "g n d"]
    ends: Float[Array, "g n d"]
    times: Float[Array, " t"]

    @staticmethod
    def of(data: Snapshots, rng: np.random.Generator) -> Interpolants:
        units = data.units
        if data.paired:
            weights = data.cloud_weights(0)
            paths = data.paths
            if np.ptp(weights) > 0:
                order = np.argsort(np.asarray(data.ids)[data.slice(0)], kind="stable")
                paths = paths[:, draw(weights[order], paths.shape[1], rng)]
            starts, ends = paths[:-1], paths[1:]
        else:
            n = int(min(data.counts.max(), EXACT_UP_TO))
            pairs = [_pairs(data, k, n, rng) for k in range(len(data) - 1)]
            starts, ends = (np.stack(side) for side in zip(*pairs, strict=True))
        times = jnp.asarray(units.time_in(data.times), float)
        return Interpolants(units.space_in(starts), units.space_in(ends), times)

    def lines(self, size: int, key: Array) -> Lines:
        """A batch whose times are spread evenly over the whole duration."""
        when, who = jax.random.split(key)
        time = (jnp.arange(size) + jax.random.uniform(when, (size,))) / size
        gap = jnp.searchsorted(self.times[1:-1], time, side="right")
        row = jax.random.randint(who, (size,), 0, self.starts.shape[1])
        ends = self.times[gap], self.times[gap + 1]
        return Lines(time, self.starts[gap, row], self.ends[gap, row], *ends)


def _pairs(
    data: Snapshots, k: int, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """n matched individuals of the k-th and the next time."""
    x, y = (data.cloud(j)[draw(data.cloud_weights(j), n, rng)] for j in (k, k + 1))
    return x, y[assignment(x, y, rng)]
