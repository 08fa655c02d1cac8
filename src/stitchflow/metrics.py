"""Distances between clouds of any sizes and weights, and scores against a known energy.

Every distance takes two clouds, which are arrays of points (n, dim), and the weights of both, in
any unit; None are equal ones. A cloud is a measure: an individual of weight two counts as two of
weight one at its place.
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
    """The signature of the functions in `DISTANCES`.

    Two clouds and their weights go in, and one number comes out.
    """

    def __call__(
        self, x: np.ndarray, y: np.ndarray, x_weights: Weights = None, y_weights: Weights = None
    ) -> float: ...


def w1(x: np.ndarray, y: np.ndarray, x_weights: Weights = None, y_weights: Weights = None) -> float:
    r"""The exact 1-Wasserstein distance, $W_1 = \min_\pi E_\pi|x - y|$.

    The minimum is over the couplings $\pi$ of the two clouds. All pairs are held in memory.

    Arguments:
        x: the points of the first cloud, (n, dim).
        y: the points of the second cloud, (m, dim).
        x_weights: how much each point of `x` counts, (n,), in any unit; None counts all alike.
        y_weights: how much each point of `y` counts, (m,), in any unit; None counts all alike.

    Returns:
        A number in the unit of the data.

    Examples:
        >>> x = np.array([[0.0], [1.0]])
        >>> sf.metrics.w1(x, x + 2.0)
        2.0
        >>> round(sf.metrics.w1(x, np.array([[0.0]]), x_weights=np.array([3.0, 1.0])), 6)
        0.25
    """
    return _transport_cost(cdist(x, y), x_weights, y_weights)


def w2(x: np.ndarray, y: np.ndarray, x_weights: Weights = None, y_weights: Weights = None) -> float:
    r"""The exact 2-Wasserstein distance, $W_2 = \min_\pi\sqrt{E_\pi|x - y|^2}$.

    The minimum is over the couplings $\pi$ of the two clouds. All pairs are held in memory.

    Arguments:
        x: the points of the first cloud, (n, dim).
        y: the points of the second cloud, (m, dim).
        x_weights: how much each point of `x` counts, (n,), in any unit; None counts all alike.
        y_weights: how much each point of `y` counts, (m,), in any unit; None counts all alike.

    Returns:
        A number in the unit of the data.

    Examples:
        >>> x = np.array([[0.0, 0.0], [1.0, 0.0]])
        >>> sf.metrics.w2(x, x + np.array([3.0, 4.0]))
        5.0
    """
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
    r"""The root mean square of the 2-Wasserstein distance along 200 random directions.

    $SW_2^2 = E_\theta\,W_2^2(\theta\cdot x, \theta\cdot y)$. The directions are the same at every
    call, so that results can be compared. It costs n log n and needs no array of pairs.

    Arguments:
        x: the points of the first cloud, (n, dim).
        y: the points of the second cloud, (m, dim).
        x_weights: how much each point of `x` counts, (n,), in any unit; None counts all alike.
        y_weights: how much each point of `y` counts, (m,), in any unit; None counts all alike.

    Returns:
        A number in the unit of the data.

    Examples:
        >>> x = np.array([[0.0], [1.0], [4.0]])
        >>> round(sf.metrics.sliced_w2(x, x + 2.0), 6)
        2.0
    """
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
    """The 5 % and 95 % quantiles of the pair distances within a cloud.

    Arguments:
        cloud: points (n, dim); of more than 2,000, a random 2,000 are used.

    Returns:
        Both quantiles, the smaller first.
    """
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
    r"""The energy distance, $2\,E|X - Y| - E|X - X'| - E|Y - Y'|$, which is not negative.

    $X, X'$ are independent draws from the first cloud, and $Y, Y'$ from the second, so that pairs
    of an individual with itself count. Fits are trained by another estimate,
    `_objective.consistency.energy_distance`, which leaves them out and can be differentiated.

    Arguments:
        x: the points of the first cloud, (n, dim).
        y: the points of the second cloud, (m, dim).
        x_weights: how much each point of `x` counts, (n,), in any unit; None counts all alike.
        y_weights: how much each point of `y` counts, (m,), in any unit; None counts all alike.

    Returns:
        A number in the unit of the data, zero for equal clouds up to rounding.

    Examples:
        >>> sf.metrics.energy_distance(np.array([[0.0]]), np.array([[3.0]]))
        6.0
    """
    a, b = _shares(x_weights, len(x), "x_weights"), _shares(y_weights, len(y), "y_weights")
    within = _mean(cdist(x, x), a, a), _mean(cdist(y, y), b, b)
    return 2.0 * _mean(cdist(x, y), a, b) - within[0] - within[1]


def mmd(
    x: np.ndarray, y: np.ndarray, x_weights: Weights = None, y_weights: Weights = None
) -> float:
    r"""The squared maximum mean discrepancy, $E\,k(X, X') + E\,k(Y, Y') - 2\,E\,k(X, Y)$.

    $k$ is the mean of five Gaussian kernels, whose widths are 1/4, 1/2, 1, 2 and 4 times the median
    distance between individuals of both clouds. The estimate is the biased one, which includes each
    individual's pair with itself.

    Arguments:
        x: the points of the first cloud, (n, dim).
        y: the points of the second cloud, (m, dim).
        x_weights: how much each point of `x` counts, (n,), in any unit; None counts all alike.
        y_weights: how much each point of `y` counts, (m,), in any unit; None counts all alike.

    Returns:
        A number without unit, zero for equal clouds up to rounding.

    Examples:
        >>> x = np.array([[0.0], [1.0]])
        >>> sf.metrics.mmd(x, x)
        0.0
    """
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
    r"""The squared 2-Wasserstein distance between the Gaussians of equal mean and covariance.

    $|\mu_x - \mu_y|^2 +
    \mathrm{tr}\,(\Sigma_x + \Sigma_y - 2(\Sigma_y^{1/2}\Sigma_x\Sigma_y^{1/2})^{1/2})$

    Arguments:
        x: the points of the first cloud, (n, dim).
        y: the points of the second cloud, (m, dim).
        x_weights: how much each point of `x` counts, (n,), in any unit; None counts all alike.
        y_weights: how much each point of `y` counts, (m,), in any unit; None counts all alike.

    Returns:
        A number in the squared unit of the data.

    Examples:
        >>> x = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> round(sf.metrics.bures(x, x + np.array([3.0, 4.0])), 6)
        25.0
    """
    (mean_x, cov_x), (mean_y, cov_y) = _moments(x, x_weights), _moments(y, y_weights)
    root = np.real(sqrtm(cov_y))
    cross = np.real(sqrtm(root @ cov_x @ root))
    value = ((mean_x - mean_y) ** 2).sum() + np.trace(cov_x + cov_y - 2.0 * cross)
    return float(max(value, 0.0))


def bd2_uvp(
    x: np.ndarray, y: np.ndarray, x_weights: Weights = None, y_weights: Weights = None
) -> float:
    r"""The unexplained variance in percent, a scaled `bures`.

    $100\,\mathrm{bures}(x, y)\,/\,(\tfrac12\,\mathrm{tr}\,\Sigma_y)$

    The normaliser is that of the authors' code. The second cloud is the reference.

    Arguments:
        x: the points of the first cloud, (n, dim).
        y: the points of the second cloud, (m, dim).
        x_weights: how much each point of `x` counts, (n,), in any unit; None counts all alike.
        y_weights: how much each point of `y` counts, (m,), in any unit; None counts all alike.

    Returns:
        A number in percent.

    Examples:
        >>> x = np.array([[-1.0], [1.0]])
        >>> round(sf.metrics.bd2_uvp(x + 0.1, x), 6)
        2.0
    """
    spread = float(np.trace(_moments(y, y_weights)[1]))
    return 100.0 * bures(x, y, x_weights, y_weights) / (0.5 * spread)


def _moments(x: np.ndarray, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
    w = np.full(len(x), 1.0 / len(x)) if weights is None else weights / weights.sum()
    mean = w @ x
    return mean, (w[:, None] * (x - mean)).T @ (x - mean)


def pattern_r2(learned: np.ndarray, truth: np.ndarray) -> float:
    r"""The squared correlation of two sets of values, which ignores their scale and their shift.

    $R^2 = \mathrm{cov}(a, b)^2\,/\,(\mathrm{var}(a)\,\mathrm{var}(b))$

    Arguments:
        learned: values of the fitted function at some points, of any shape.
        truth: values of the true function at the same points.

    Returns:
        A number from 0 to 1, which is 1 where one set is a linear function of the other.

    Examples:
        >>> truth = np.array([0.0, 1.0, 2.0])
        >>> round(sf.metrics.pattern_r2(5.0 - 3.0 * truth, truth), 6)
        1.0
    """
    a, b = np.ravel(learned) - np.mean(learned), np.ravel(truth) - np.mean(truth)
    return float((a @ b) ** 2 / ((a @ a) * (b @ b)))


def raw_r2(learned: np.ndarray, truth: np.ndarray) -> float:
    r"""The coefficient of determination after the mean of each set of values is removed.

    $R^2 = 1 - \sum_i (a_i - b_i)^2\,/\,\sum_i b_i^2$ for centred $a$ (learned) and $b$ (true). It
    ignores a shift, which a potential is free up to, but not the scale.

    Arguments:
        learned: values of the fitted function at some points.
        truth: values of the true function at the same points.

    Returns:
        A number of at most 1, which is negative where the mean of `truth` is the better prediction.

    Examples:
        >>> truth = np.array([0.0, 1.0, 2.0])
        >>> sf.metrics.raw_r2(truth + 7.0, truth)
        1.0
        >>> sf.metrics.raw_r2(0.5 * truth, truth)
        0.75
    """
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
