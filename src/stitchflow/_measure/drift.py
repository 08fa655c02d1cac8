r"""The motion that a whole population shares, as one linear flow $\dot x = A x + b$.

Optimal transport matches a rotating cloud along straight lines, which do not rotate. If the cloud
is first carried along the flow that its individuals share, it is close to the next cloud, so that
the matches are between neighbours and a flow fitted to them is more accurate. Matches and flow are
estimated alternately.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import expm

from stitchflow._measure.coupling import chain
from stitchflow._measure.matched_paths import through_snapshots
from stitchflow._stitching import defaults
from stitchflow.metrics import w2


class Drift(NamedTuple):
    r"""A linear flow, in homogeneous coordinates: $(\dot x, 0) = M (x, 1)$."""

    matrix: np.ndarray

    @staticmethod
    def none(dim: int) -> Drift:
        return Drift(np.zeros((dim + 1, dim + 1)))

    @staticmethod
    def through(
        paths: np.ndarray, times: np.ndarray, last: Drift, parts: int = defaults.DRIFT_PARTS
    ) -> Drift:
        """Least squares along paths (time, n, dim), interpolated along the `last` drift."""
        shares, places, speeds = np.linspace(0.0, 1.0, parts + 1), [], []
        for k, gap in enumerate(np.diff(times)):
            mixed = lambda s, k=k, gap=gap: (
                (1.0 - s) * last.carry(paths[k], s * gap)
                + (s * last.carry(paths[k + 1], (s - 1.0) * gap))
            )
            way = np.stack([mixed(s) for s in shares])
            places.append(0.5 * (way[1:] + way[:-1]))
            speeds.append(np.diff(way, axis=0) * (parts / gap))
        d = paths.shape[2]
        x, v = (np.concatenate(values).reshape(-1, d) for values in (places, speeds))
        centre, mean = x.mean(axis=0), v.mean(axis=0)
        square = (x - centre).T @ (x - centre)
        # Positive also where all paths are at one place; the slope is then zero.
        square += max(defaults.DRIFT_RIDGE * np.trace(square) / d, 1e-300) * np.eye(d)
        slope = np.linalg.solve(square, (x - centre).T @ (v - mean)).T
        matrix = np.zeros((d + 1, d + 1))
        matrix[:d, :d], matrix[:d, d] = slope, mean - slope @ centre
        return Drift(matrix)

    def carry(self, x: np.ndarray, duration: float) -> np.ndarray:
        """Points (n, dim) moved with the flow for some time, forwards or backwards."""
        flow = expm(self.matrix * duration)
        return x @ flow[:-1, :-1].T + flow[:-1, -1][None]

    def chain(
        self,
        clouds: list[np.ndarray],
        weights: list[np.ndarray],
        times: np.ndarray,
        n: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """n paths (time, n, dim) through all clouds, carried along the flow before matching."""
        gaps = np.diff(times)
        return chain(clouds, weights, n, rng, lambda x, k: self.carry(x, gaps[k]))

    def paths(self, matched: np.ndarray, observed: np.ndarray, when: np.ndarray) -> np.ndarray:
        """Splines through matched clouds, in coordinates that move with the flow."""
        start = observed[0]
        back = np.stack([self.carry(x, start - t) for x, t in zip(matched, observed, strict=True)])
        bent = through_snapshots(back, observed, when)
        return np.stack([self.carry(x, t - start) for x, t in zip(bent, when, strict=True)])


def shared_drift(clouds: list[np.ndarray], times: np.ndarray) -> Drift:
    """The drift that a population shares; none where left-out times gain too little."""
    rng, none = np.random.default_rng(0), Drift.none(clouds[0].shape[1])
    some = np.unique(np.linspace(0, len(clouds) - 1, defaults.DRIFT_TIMES).round().astype(int))
    n = min(defaults.DRIFT_INDIVIDUALS, *(len(clouds[k]) for k in some))
    few = n < defaults.FEWEST_DRIFT_INDIVIDUALS
    if few or len(some) < defaults.FEWEST_DRIFT_TIMES:
        return none
    seen = [np.asarray(clouds[k], float)[rng.permutation(len(clouds[k]))[:n]] for k in some]
    times = times[some]
    gains = []
    for out in range(1, len(seen) - 1):
        rest, when = seen[:out] + seen[out + 1 :], np.delete(times, out)
        errors = []
        for drift in (_found(rest, when), none):
            matched = _matched(rest, when, drift)
            errors.append(w2(drift.paths(matched, when, times[out : out + 1])[0], seen[out]))
        gains.append(np.log(errors[0] / errors[1]))
    return _found(seen, times) if np.mean(gains) < np.log(defaults.DRIFT_GAIN) else none


def _found(clouds: list[np.ndarray], times: np.ndarray) -> Drift:
    drift = Drift.none(clouds[0].shape[1])
    for _ in range(defaults.DRIFT_ROUNDS):
        drift = Drift.through(_matched(clouds, times, drift), times, drift)
    return drift


def _matched(clouds: list[np.ndarray], times: np.ndarray, drift: Drift) -> np.ndarray:
    n, rng = len(clouds[0]), np.random.default_rng(0)
    return drift.chain(clouds, [np.ones(n)] * len(clouds), times, n, rng)
