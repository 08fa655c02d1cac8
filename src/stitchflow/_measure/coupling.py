"""Matching clouds by optimal transport."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import ot
from scipy.optimize import linear_sum_assignment
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from stitchflow._stitching import defaults


def assignment(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The permutation of y's rows that minimises the summed squared distance to x's rows.

    Exact up to `EXACT_ASSIGNMENT` points; above, exact within random blocks.
    """
    n = len(x)
    if n <= defaults.EXACT_ASSIGNMENT:
        return linear_sum_assignment(cdist(x, y, "sqeuclidean"))[1]
    order_x, order_y = rng.permutation(n), rng.permutation(n)
    result = np.empty(n, dtype=int)
    for block in np.array_split(np.arange(n), -(-n // defaults.ASSIGNMENT_BLOCK)):
        rows, columns = order_x[block], order_y[block]
        cost = cdist(x[rows], y[columns], "sqeuclidean")
        result[rows] = columns[linear_sum_assignment(cost)[1]]
    return result


def draw(weights: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n row numbers drawn by weight; one with share w is drawn n w times, rounded up or down."""
    expected = n * weights / weights.sum()
    counts = np.floor(expected).astype(int)
    missing = n - counts.sum()
    if missing:
        rest = expected - counts
        rest = rest / rest.sum() if rest.sum() > 0 else np.full(len(rest), 1.0 / len(rest))
        replace = missing > np.count_nonzero(rest)
        np.add.at(counts, rng.choice(len(weights), missing, replace=replace, p=rest), 1)
    return rng.permutation(np.repeat(np.arange(len(weights)), counts))


def chain(
    clouds: list[np.ndarray],
    weights: list[np.ndarray],
    n: int,
    rng: np.random.Generator,
    ahead: Callable[[np.ndarray, int], np.ndarray] = lambda x, k: x,
) -> np.ndarray:
    """n paths (time, n, dim) through all clouds, each matched to the one before it.

    `ahead(x, k)` returns where individuals at x of cloud k are expected in the next cloud.
    """
    paths = [clouds[0][draw(weights[0], n, rng)]]
    for k, (cloud, weight) in enumerate(zip(clouds[1:], weights[1:], strict=True)):
        points = cloud[draw(weight, n, rng)]
        paths.append(points[assignment(ahead(paths[-1], k), points, rng)])
    return np.stack(paths)


def nearest_chain(
    clouds: list[np.ndarray], weights: list[np.ndarray], n: int, rng: np.random.Generator
) -> np.ndarray:
    """n paths (time, n, dim) to the nearest individual of each next cloud; paths may meet."""
    paths = [clouds[0][draw(weights[0], n, rng)]]
    for cloud, weight in zip(clouds[1:], weights[1:], strict=True):
        seen = cloud[weight > 0]
        paths.append(seen[KDTree(seen).query(paths[-1])[1]])
    return np.stack(paths)


def plan(x: np.ndarray, y: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The exact optimal transport plan for squared distances between weighted clouds."""
    return ot.emd(a / a.sum(), b / b.sum(), cdist(x, y, "sqeuclidean"), numItermax=10_000_000)
