"""Straight optimal transport lines between consecutive snapshots."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.spatial import KDTree

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._measure.coupling import draw, plan
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
)
from stitchflow.tracking import tqdm


@dataclass(frozen=True)
class OTLinear(Method):
    """Exact optimal transport between neighbouring snapshots, with constant speed along the lines.

    This is McCann's displacement interpolation (1997) in every gap. New individuals move with the
    displacement of their nearest training individual. There is no density, no energy and no noise.
    Beyond the observed times the last displacement is continued.

    >>> x = np.linspace(0.0, 1.0, 20)[:, None]
    >>> data = sf.Snapshots.from_arrays([x, x + 1.0], [0.0, 1.0])
    >>> sf.fit(data, sf.OTLinear(), progress=False).flow.velocity([[0.0]], 0.0).tolist()
    [[1.0]]
    """

    name = "ot-linear"

    def fit(self, data: Snapshots, key: KeyLike, progress: bool, checkpoint: Any = None) -> Fit:
        start = time.perf_counter()
        gaps = tqdm(range(len(data) - 1), desc=self.name, disable=not progress, leave=False)
        couplings = []
        for k in gaps:
            clouds = data.cloud(k), data.cloud(k + 1)
            full = plan(*clouds, data.cloud_weights(k), data.cloud_weights(k + 1))
            rows, columns = np.nonzero(full)
            couplings.append((rows, columns, full[rows, columns]))
        done = Status(True, f"{len(couplings)} optimal transport plans")
        flow = OTLinearFlow(data, couplings)
        return Fit(self, flow, None, done, [], 0, time.perf_counter() - start, data=data)

    def pack(self, fit: Fit) -> Packed:
        flow = fit.flow
        assert isinstance(flow, OTLinearFlow)
        arrays = dict(flow.data.arrays)
        for k, coupling in enumerate(flow.couplings):
            names = (f"rows{k}", f"columns{k}", f"mass{k}")
            arrays |= dict(zip(names, coupling, strict=True))
        return Packed({}, arrays)

    @classmethod
    def unpack(cls, packed: Packed, energy: Energy | None = None) -> tuple[Method, Flow, None]:
        data, a = Snapshots.from_stored(packed.arrays), packed.arrays
        couplings = [(a[f"rows{k}"], a[f"columns{k}"], a[f"mass{k}"]) for k in range(len(data) - 1)]
        return cls(), OTLinearFlow(data, couplings), None


class OTLinearFlow(Flow):
    """Straight lines along sparse plans between neighbouring snapshots.

    Arguments:
        data: the training individuals.
        couplings: for each gap the rows, columns and masses of the plan's entries.
    """

    method = "ot-linear"

    def __init__(self, data: Snapshots, couplings: list[tuple[np.ndarray, ...]]):
        self.data, self.couplings, self.dim = data, couplings, data.dim
        self._trees = [KDTree(data.cloud(k)) for k in range(len(data) - 1)]

    def _gap(self, t: float) -> int:
        times = self.data.times
        return int(np.clip(np.searchsorted(times, t, side="right") - 1, 0, len(times) - 2))

    def sample(self, times: Any, n: int, key: KeyLike = 0) -> Float[Array, "t n d"]:
        n, rng, clouds = check_count(n, "n"), as_rng(key), []
        for t in as_times(times):
            k = self._gap(t)
            t0, t1 = self.data.times[k : k + 2]
            rows, columns, mass = self.couplings[k]
            pick = draw(mass, n, rng)
            share = (t - t0) / (t1 - t0)
            x, y = self.data.cloud(k)[rows[pick]], self.data.cloud(k + 1)[columns[pick]]
            clouds.append((1.0 - share) * x + share * y)
        return jnp.asarray(np.stack(clouds))

    def _displacements(self, k: int) -> np.ndarray:
        """Barycentric displacement of each individual of the k-th time over its gap."""
        rows, columns, mass = self.couplings[k]
        here, there = self.data.cloud(k), self.data.cloud(k + 1)
        target, total = np.zeros((len(here), self.dim)), np.zeros(len(here))
        np.add.at(target, rows, mass[:, None] * there[columns])
        np.add.at(total, rows, mass)
        return np.where(total[:, None] > 0, target / np.maximum(total, 1e-300)[:, None] - here, 0.0)

    def velocity(self, x: Any, t: float) -> Float[Array, "m d"]:
        """Displacement per time of the nearest training individual at the start of the gap."""
        k = self._gap(t)
        nearest = self._trees[k].query(as_cloud(x, "x", self.dim))[1]
        return jnp.asarray(self._displacements(k)[nearest] / np.diff(self.data.times)[k])

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
        way = lambda x, s, e: (e - s) * np.asarray(self.velocity(x, 0.5 * (s + e)))
        return in_pieces(x, times, self.data.times[1:-1], way)
