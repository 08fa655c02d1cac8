"""Distances between clouds of any sizes and weights, and scores against a known energy.

Every distance takes the weights of both clouds, in any unit; None are equal ones. A cloud is a
measure: an individual of weight two counts as two of weight one at its place.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import ot
from scipy.linalg import sqrtm
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist, pdist

from stitchflow._status import BadInput

PROJECTIONS = 200
MOST_PAIRED = 2000  # individuals whose pairs stand for all pairs
MOST_FOR_WIDTH = 1000  # individuals whose median distance is the width of a kernel

Weights = np.ndarray | None


class Distance(Protocol):
    """What `DISTANCES` holds: two clouds and their weights in, a number out."""

    def __call__(
        self, x: np.ndarray, y: np.ndarray, x_weights: Weights = None, y_weights: Weights = None
    ) -> float: ...


def w1(x: np.ndarray, y: np.ndarray, x_weights: Weights = None, y_weights: Weights = None) -> float:
    """Exact 1-Wasserstein distance."""
    return _transport_cost(cdist(x, y), x_weights, y_weights)


def w2(x: np.ndarray, y: np.ndarray, x_weights: Weights = None, y_weights: Weights = None) -> float:
    """Exact 2-Wasserstein distance."""
    cost = _transport_cost(cdist(x, y, "sqeuclidean"), x_weights, y_weights)
    return float(np.sqrt(max(cost, 0.0)))


def _transport_cost(cost: np.ndarray, x_weights: Weights, y_weights: Weights) -> float:
    """Exact optimal transport; between uniform clouds of one size it is an assignment."""
    n, m = cost.shape
    a, b = _shares(x_weights, n, "x_weights"), _shares(y_weights, m, "y_weights")
    if a is None and b is None:
        if n == m:
            return float(cost[linear_sum_assignment(cost)].mean())
        return float(ot.emd2([], [], cost, numItermax=10_000_000))  # pyright: ignore
    a, b = (np.full(k, 1.0 / k) if w is None else w for w, k in ((a, n), (b, m)))
    rows, columns = a > 0, b > 0
    cost = np.ascontiguousarray(cost[rows][:, columns])
    return float(ot.emd2(a[rows], b[columns], cost, numItermax=10_000_000))  # pyright: ignore


def _shares(weights: Weights, n: int, name: str) -> Weights:
    """Weights that sum to one, or None where they are all equal."""
    if weights is None:
        return None
    values = np.asarray(weights, np.float64)
    if values.shape != (n,):
        raise BadInput(f"{name} must be one number a point ({n},), got shape {values.shape}")
    if not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise BadInput(f"{name} must be finite, not negative and not all zero")
    return None if np.ptp(values) == 0 else values / values.sum()


def sliced_w2(
    x: np.ndarray, y: np.ndarray, x_weights: Weights = None, y_weights: Weights = None
) -> float:
    """Root mean squared 2-Wasserstein distance over fixed random directions."""
    directions = np.random.default_rng(0).standard_normal((x.shape[1], PROJECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    a, b = _shares(x_weights, len(x), "x_weights"), _shares(y_weights, len(y), "y_weights")
    if a is not None or b is not None:
        return float(ot.sliced_wasserstein_distance(x, y, a, b, projections=directions))  # pyright: ignore
    n = max(len(x), len(y))
    levels = (np.arange(n) + 0.5) / n
    left, right = (_quantiles(cloud @ directions, levels) for cloud in (x, y))
    return float(np.sqrt(((left - right) ** 2).mean()))


def pair_band(cloud: np.ndarray) -> tuple[float, float]:
    """5 and 95 % of the pair distances within a cloud."""
    if len(cloud) > MOST_PAIRED:
        cloud = cloud[np.random.default_rng(0).permutation(len(cloud))[:MOST_PAIRED]]
    low, high = np.percentile(pdist(cloud), [5.0, 95.0])
    return float(low), float(high)


def _quantiles(values: np.ndarray, levels: np.ndarray) -> np.ndarray:
    rows = np.minimum((levels * len(values)).astype(int), len(values) - 1)
    return np.sort(values, axis=0)[rows]


def _mean(pairs: np.ndarray, a: Weights, b: Weights) -> float:
    """The mean of an array over pairs, of points drawn by their shares."""
    if a is None and b is None:
        return float(pairs.mean())
    rows = pairs.mean(axis=1) if b is None else pairs @ b
    return float(rows.mean() if a is None else a @ rows)


def energy_distance(
    x: np.ndarray, y: np.ndarray, x_weights: Weights = None, y_weights: Weights = None
) -> float:
    """2 E|X - Y| - E|X - X'| - E|Y - Y'|, not below zero.

    It counts pairs of an individual with itself, in float64. Fits are trained by another estimate,
    `_objective.consistency.energy_distance`, which leaves them out and can be differentiated.
    """
    a, b = _shares(x_weights, len(x), "x_weights"), _shares(y_weights, len(y), "y_weights")
    within = _mean(cdist(x, x), a, a), _mean(cdist(y, y), b, b)
    return 2.0 * _mean(cdist(x, y), a, b) - within[0] - within[1]


def mmd(
    x: np.ndarray, y: np.ndarray, x_weights: Weights = None, y_weights: Weights = None
) -> float:
    """Biased squared MMD, mean of five Gaussian kernels around the median distance."""
    a, b = _shares(x_weights, len(x), "x_weights"), _shares(y_weights, len(y), "y_weights")
    median = _median_distance(x, y, a, b)

    def mean_kernel(p: np.ndarray, q: np.ndarray, u: Weights, v: Weights) -> float:
        widest = np.exp(-cdist(p, q, "sqeuclidean") / (2.0 * (4.0 * median) ** 2))
        means = [_mean(widest, u, v)]
        for _ in range(4):  # half the width is the fourth power
            widest = (widest * widest) ** 2
            means.append(_mean(widest, u, v))
        return float(np.mean(means))

    return mean_kernel(x, x, a, a) + mean_kernel(y, y, b, b) - 2.0 * mean_kernel(x, y, a, b)


def _median_distance(x: np.ndarray, y: np.ndarray, a: Weights, b: Weights) -> float:
    """The median distance between two individuals of both clouds; a pair weighs its product."""
    pooled = np.concatenate([x, y])
    some = np.random.default_rng(0).permutation(len(pooled))[:MOST_FOR_WIDTH]
    pairs = np.triu_indices(len(some), 1)
    apart = cdist(pooled[some], pooled[some])[pairs]
    if a is None and b is None:
        return float(np.median(apart)) or 1.0
    # Each cloud counts by its size, as it does without weights.
    counts = [np.ones(len(c)) if w is None else w * len(c) for c, w in ((x, a), (y, b))]
    weights = np.concatenate(counts)[some]
    order = np.argsort(apart)
    passed = np.cumsum((weights[pairs[0]] * weights[pairs[1]])[order])
    return float(apart[order][np.searchsorted(passed, 0.5 * passed[-1])]) or 1.0


def bures(
    x: np.ndarray, y: np.ndarray, x_weights: Weights = None, y_weights: Weights = None
) -> float:
    """Squared Bures-Wasserstein distance of Gaussian fits."""
    (mean_x, cov_x), (mean_y, cov_y) = _moments(x, x_weights), _moments(y, y_weights)
    root = np.real(sqrtm(cov_y))
    cross = np.real(sqrtm(root @ cov_x @ root))
    value = ((mean_x - mean_y) ** 2).sum() + np.trace(cov_x + cov_y - 2.0 * cross)
    return float(max(value, 0.0))


def bd2_uvp(
    x: np.ndarray, y: np.ndarray, x_weights: Weights = None, y_weights: Weights = None
) -> float:
    """100 bures / (tr Sigma_y / 2), the normaliser of the authors' code."""
    spread = float(np.trace(_moments(y, y_weights)[1]))
    return 100.0 * bures(x, y, x_weights, y_weights) / (0.5 * spread)


def _moments(x: np.ndarray, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    w = np.full(len(x), 1.0 / len(x)) if weights is None else weights / weights.sum()
    mean = w @ x
    return mean, (w[:, None] * (x - mean)).T @ (x - mean)


def pattern_r2(learned: np.ndarray, truth: np.ndarray) -> float:
    """Squared correlation: blind to scale and shift."""
    a, b = np.ravel(learned) - np.mean(learned), np.ravel(truth) - np.mean(truth)
    return float((a @ b) ** 2 / ((a @ a) * (b @ b)))


def raw_r2(learned: np.ndarray, truth: np.ndarray) -> float:
    """Coefficient of determination after both are centred."""
    a, b = learned - learned.mean(), truth - truth.mean()
    return float(1.0 - ((a - b) ** 2).sum() / (b**2).sum())


DISTANCES: dict[str, Distance] = {
    "w1": w1,
    "w2": w2,
    "sliced_w2": sliced_w2,
    "energy_distance": energy_distance,
    "mmd": mmd,
    "bures": bures,
}
