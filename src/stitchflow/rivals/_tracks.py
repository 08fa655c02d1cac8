"""Straight lines between the positions of each individual that is followed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.spatial import KDTree

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._measure.coupling import draw
from stitchflow._method.contract import Fit, Method, Packed
from stitchflow._method.flow import Flow, in_pieces
from stitchflow._status import BadInput, Status
from stitchflow._types import (
    KeyLike,
    as_cloud,
    as_groups,
    as_rng,
    as_times,
    as_weights,
    check_count,
    check_number,
)


@dataclass(frozen=True)
class Tracks(Method):
    """The baseline for individuals with ids: each goes straight from where it was seen to the next.

    The marginal at a time is made of all individuals that are seen before and after it, so that
    nobody is matched to anybody else. New individuals move with the displacement of the nearest
    individual. There is no density, no energy and no noise. Beyond the observed times the last
    displacement is continued. Data without ids are refused.

    >>> x = np.linspace(0.0, 1.0, 20)[:, None]
    >>> data = sf.Snapshots.from_arrays([x, 1.0 - x], [0.0, 1.0], paired=True)
    >>> sf.fit(data, sf.Tracks(), progress=False).flow.velocity([[0.0]], 0.0).tolist()
    [[1.0]]
    """

    name = "tracks"

    def fit(self, data: Snapshots, key: KeyLike, progress: bool, checkpoint: Any = None) -> Fit:
        start = time.perf_counter()
        if data.ids is None:
            raise BadInput(
                "tracks needs ids, by which individuals are followed: the data have none"
            )
        who = np.unique(data.ids, return_inverse=True)[1]
        if len(np.unique(who * len(data) + data.index)) < len(who):
            raise BadInput("tracks: an id is seen more than once at the same time")
        order = np.lexsort((data.index, who))
        flow = TracksFlow(
            data.times, *(column[order] for column in (data.x, data.weights, data.index, who))
        )
        for before, after in zip(data.times[:-1], data.times[1:], strict=True):
            if not len(flow.pieces(0.5 * (before + after)).start):
                raise BadInput(f"tracks: no id is seen both until {before:g} and from {after:g} on")
        done = Status(True, f"{len(np.unique(who))} individuals, each followed by its id")
        return Fit(self, flow, None, done, [], 0, time.perf_counter() - start, data=data)

    def pack(self, fit: Fit) -> Packed:
        flow = fit.flow
        assert isinstance(flow, TracksFlow)
        return Packed({}, {name: getattr(flow, name) for name in ARRAYS})

    @classmethod
    def unpack(cls, packed: Packed, energy: Energy | None = None) -> tuple[Method, Flow, None]:
        return cls(), TracksFlow(*(packed.arrays[name] for name in ARRAYS)), None


ARRAYS = ("times", "x", "weights", "index", "who")


class Pieces(NamedTuple):
    """For each individual that can be followed at a time, the rows between which it is then."""

    start: np.ndarray
    end: np.ndarray


class TracksFlow(Flow):
    """Straight lines between consecutive sights of the same individual.

    Arguments:
        times: the observed times.
        x: the positions of all individuals, (n, dim), sorted by individual and then by time.
        weights: how much each row counts.
        index: for each row, the place of its time in `times`.
        who: for each row, the number of its individual.
    """

    method = "tracks"

    def __init__(
        self,
        times: np.ndarray,
        x: np.ndarray,
        weights: np.ndarray,
        index: np.ndarray,
        who: np.ndarray,
    ):
        self.times, self.x, self.weights, self.index, self.who = times, x, weights, index, who
        self.dim = x.shape[1]
        self._first = np.flatnonzero(np.diff(who, prepend=-1))
        self._seen = np.diff(np.append(self._first, len(who)))
        self._when = np.asarray(times, np.float64)[index]

    def pieces(self, t: float) -> Pieces:
        """The piece of everybody who is seen before and after t, or at the nearest observed time.

        Where two pieces meet at t, it is the later one. Individuals without weight are left out.
        """
        inside = np.clip(t, self.times[0], self.times[-1])
        past = np.add.reduceat(self._when <= inside, self._first, dtype=int)
        last = self._first + self._seen - 1
        followed = (self._seen > 1) & (past > 0) & (self._when[last] >= inside)
        start = (self._first + np.minimum(past, self._seen - 1) - 1)[followed]
        counts = (self.weights[start] > 0) & (self.weights[start + 1] > 0)
        return Pieces(start[counts], start[counts] + 1)

    def _along(self, column: np.ndarray, pieces: Pieces, t: float) -> np.ndarray:
        """A column between the ends of pieces, continued beyond them."""
        start, end = (self._when[rows] for rows in pieces)
        share = ((t - start) / (end - start)).reshape(-1, *[1] * (column.ndim - 1))
        return (1.0 - share) * column[pieces.start] + share * column[pieces.end]

    def _moved(self, x: np.ndarray, start: float, end: float) -> np.ndarray:
        """The displacement between two times of the individual that is nearest at the first."""
        pieces = self.pieces(0.5 * (start + end))
        here, there = (self._along(self.x, pieces, t) for t in (start, end))
        return (there - here)[KDTree(here).query(x)[1]]

    def sample(self, times: Any, n: int, key: KeyLike = 0) -> Float[Array, "t n d"]:
        n, rng, clouds = check_count(n, "n"), as_rng(key), []
        for t in as_times(times):
            pieces, inside = self.pieces(t), np.clip(t, self.times[0], self.times[-1])
            pick = draw(self._along(self.weights, pieces, inside), n, rng)
            clouds.append(self._along(self.x, Pieces(*(rows[pick] for rows in pieces)), t))
        return jnp.asarray(np.stack(clouds))

    def velocity(self, x: Any, t: float) -> Float[Array, "m d"]:
        """The velocity of the individual that is nearest at time t."""
        t = check_number(t, "t")
        pieces = self.pieces(t)
        here = self._along(self.x, pieces, t)
        nearest = KDTree(here).query(as_cloud(x, "x", self.dim))[1]
        start, end = (rows[nearest] for rows in pieces)
        duration = (self._when[end] - self._when[start])[:, None]
        return jnp.asarray((self.x[end] - self.x[start]) / duration)

    def simulate(
        self,
        x0: Any,
        times: Any,
        key: KeyLike = 0,
        *,
        weights: Any = None,
        groups: Any = None,
        ode: bool = False,
    ) -> Float[Array, "t n d"]:
        times, x = as_times(times), np.asarray(as_cloud(x0, "x0", self.dim), np.float64)
        as_weights(weights, len(x))  # individuals do not interact here
        as_groups(groups, len(x))
        return in_pieces(x, times, self.times[1:-1], self._moved)
