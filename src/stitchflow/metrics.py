"""Distances between clouds of equal or unequal size, and scores against a known energy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import ot
from scipy.linalg import sqrtm
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist, pdist

PROJECTIONS = 200
MOST_PAIRED = 2000  # individuals whose pairs stand for all pairs


def w1(x: np.ndarray, y: np.ndarray) -> float:
    """Exact 1-Wasserstein distance."""
    return _transport_cost(cdist(x, y))


def w2(x: np.ndarray, y: np.ndarray) -> float:
    """Exact 2-Wasserstein distance."""
    return float(np.sqrt(max(_transport_cost(cdist(x, y, "sqeuclidean")), 0.0)))


def _transport_cost(cost: np.ndarray) -> float:
    """Exact optimal transport between uniform clouds; equal sizes make it an assignment."""
    if cost.shape[0] == cost.shape[1]:
        return float(cost[linear_sum_assignment(cost)].mean())
    return float(ot.emd2([], [], cost, numItermax=10_000_000))  # pyright: ignore


def sliced_w2(x: np.ndarray, y: np.ndarray) -> float:
    """Root mean squared 2-Wasserstein distance over fixed random directions."""
    directions = np.random.default_rng(0).standard_normal((x.shape[1], PROJECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    n = max(len(x), len(y))
    levels = (np.arange(n) + 0.5) / n
    a, b = (_quantiles(cloud @ directions, levels) for cloud in (x, y))
    return float(np.sqrt(((a - b) ** 2).mean()))


def pair_band(cloud: np.ndarray) -> tuple[float, float]:
    """5 and 95 % of the pair distances within a cloud."""
    if len(cloud) > MOST_PAIRED:
        cloud = cloud[np.random.default_rng(0).permutation(len(cloud))[:MOST_PAIRED]]
    low, high = np.percentile(pdist(cloud), [5.0, 95.0])
    return float(low), float(high)


def _quantiles(values: np.ndarray, levels: np.ndarray) -> np.ndarray:
    rows = np.minimum((levels * len(values)).astype(int), len(values) - 1)
    return np.sort(values, axis=0)[rows]


def energy_distance(x: np.ndarray, y: np.ndarray) -> float:
    """2 E|X - Y| - E|X - X'| - E|Y - Y'|, not below zero."""
    return float(2.0 * cdist(x, y).mean() - cdist(x, x).mean() - cdist(y, y).mean())


def mmd(x: np.ndarray, y: np.ndarray) -> float:
    """Biased squared MMD, mean of five Gaussian kernels around the median distance."""
    pooled = np.concatenate([x, y])
    sample = pooled[np.random.default_rng(0).permutation(len(pooled))[:1000]]
    median = np.median(cdist(sample, sample)[np.triu_indices(len(sample), 1)]) or 1.0

    def mean_kernel(a: np.ndarray, b: np.ndarray) -> float:
        widest = np.exp(-cdist(a, b, "sqeuclidean") / (2.0 * (4.0 * median) ** 2))
        means = [widest.mean()]
        for _ in range(4):  # half the width is the fourth power
            widest = (widest * widest) ** 2
            means.append(widest.mean())
        return float(np.mean(means))

    return mean_kernel(x, x) + mean_kernel(y, y) - 2.0 * mean_kernel(x, y)


def bures(x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Squared Bures-Wasserstein distance of Gaussian fits; `weights` belong to x."""
    (mean_x, cov_x), (mean_y, cov_y) = _moments(x, weights), _moments(y, None)
    root = np.real(sqrtm(cov_y))
    cross = np.real(sqrtm(root @ cov_x @ root))
    value = ((mean_x - mean_y) ** 2).sum() + np.trace(cov_x + cov_y - 2.0 * cross)
    return float(max(value, 0.0))


def bd2_uvp(x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> float:
    """100 bures / (tr Sigma_y / 2), the normaliser of the authors' code."""
    return 100.0 * bures(x, y, weights) / (0.5 * float(np.trace(_moments(y, None)[1])))


def _moments(x: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
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


DISTANCES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "w1": w1,
    "w2": w2,
    "sliced_w2": sliced_w2,
    "energy_distance": energy_distance,
    "mmd": mmd,
    "bures": bures,
}
