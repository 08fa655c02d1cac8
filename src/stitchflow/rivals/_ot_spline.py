"""Natural cubic splines through individuals matched by optimal transport."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.interpolate import CubicSpline
from scipy.spatial import KDTree

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._measure.coupling import chain, draw
from stitchflow._method.contract import Fit, Method, Packed
from stitchflow._method.flow import Flow, in_pieces
from stitchflow._status import Status
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
class OTSpline(Method):
    r"""Natural cubic splines through matched individuals, $\min\int|\ddot x|^2 dt$.

    Individuals are matched from one time to the next by optimal transport, or by id if the data are
    paired. New individuals move along with their nearest path. There is no density, no energy and
    no noise. Beyond the observed times paths are straight.

    Reference: Chewi et al., "Fast and Smooth Interpolation on Wasserstein Space", AISTATS 2021.

    >>> x = np.linspace(0.0, 1.0, 20)[:, None]
    >>> data = sf.Snapshots.from_arrays([x, x + 1.0], [0.0, 1.0])
    >>> sf.fit(data, sf.OTSpline(), progress=False).flow.velocity([[0.0]], 0.0).tolist()
    [[1.0]]
    """

    name = "ot-spline"

    def fit(self, data: Snapshots, key: KeyLike, progress: bool, checkpoint: Any = None) -> Fit:
        start = time.perf_counter()
        if data.paired:
            paths, shares = data.paths, data.path_weights.mean(axis=0)
        else:
            weights = [data.cloud_weights(k) for k in range(len(data))]
            paths = chain(data.clouds, weights, int(data.counts.max()), as_rng(key))
            shares = np.ones(paths.shape[1])
        done = Status(True, f"{paths.shape[1]} splines")
        flow = OTSplineFlow(data.times, paths, shares)
        return Fit(self, flow, None, done, [], 0, time.perf_counter() - start, data=data)

    def pack(self, fit: Fit) -> Packed:
        flow = fit.flow
        assert isinstance(flow, OTSplineFlow)
        return Packed({}, {"times": flow.times, "paths": flow.paths, "shares": flow.shares})

    @classmethod
    def unpack(cls, packed: Packed, energy: Energy | None = None) -> tuple[Method, Flow, None]:
        stored = (packed.arrays[name] for name in ("times", "paths", "shares"))
        return cls(), OTSplineFlow(*stored), None


class OTSplineFlow(Flow):
    """Splines in the user's units.

    Arguments:
        times: the observed times.
        paths: the position of each path at each time.
        shares: how often each path is drawn.
    """

    method = "ot-spline"

    def __init__(self, times: np.ndarray, paths: np.ndarray, shares: np.ndarray):
        self.times, self.paths, self.shares, self.dim = times, paths, shares, paths.shape[2]
        self._spline = CubicSpline(times, paths.astype(np.float64), bc_type="natural")

    def _inside(self, t: float) -> float:
        return float(np.clip(t, self.times[0], self.times[-1]))

    def _slopes(self, t: float) -> np.ndarray:
        return self._spline(self._inside(t), 1)

    def _places(self, t: float) -> np.ndarray:
        end = self._inside(t)
        return self._spline(end) + (t - end) * self._slopes(end)

    def _nearest(self, x: np.ndarray, t: float) -> np.ndarray:
        drawn = np.flatnonzero(self.shares > 0)
        return drawn[KDTree(self._places(t)[drawn]).query(x)[1]]

    def sample(self, times: Any, n: int, key: KeyLike = 0) -> Float[Array, "t n d"]:
        times, n, rng = as_times(times), check_count(n, "n"), as_rng(key)
        return jnp.asarray(np.stack([self._places(t)[draw(self.shares, n, rng)] for t in times]))

    def velocity(self, x: Any, t: float) -> Float[Array, "m d"]:
        """The slope of the path that is nearest at time t."""
        t = check_number(t, "t")
        return jnp.asarray(self._slopes(t)[self._nearest(as_cloud(x, "x", self.dim), t)])

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
        way = lambda x, s, e: (self._places(e) - self._places(s))[self._nearest(x, s)]
        return in_pieces(x, times, self.times[1:-1], way)
