"""Vector fields fitted by least squares: gradient and divergence-free fields of fixed waves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Array, Float

# The numbers of gradient and of divergence-free fields in the regressions. There are more gradient
# fields, so that the effect of the others is not merely that of a larger basis.
WAVES, TURNS = 300, 100
FOLDS = 5
RIDGES = 10.0 ** np.arange(-4.0, 2.1, 1.0)
BOOTSTRAPS = 500
MOST_EQUATIONS = 60_000


@dataclass(frozen=True)
class Regression:
    """Weighted ridge regressions on fixed vector fields, each row judged by folds without it.

    Folds are stretches of time in which all particles are left out together, because neighbours in
    space and time share the noise of the data.

    Arguments:
        rows: the numbers of the points that are used, among all flattened draws.
        mass: the weight of each point.
        fold: the fold of each point.
        particle: the particle of each point.
        gradients: gradient fields, of shape (point, dim, field).
        rotations: divergence-free fields, of shape (point, dim, field).
    """

    rows: np.ndarray  # of the flattened draws
    mass: np.ndarray
    fold: np.ndarray
    particle: np.ndarray
    gradients: np.ndarray  # (point, dim, field)
    rotations: np.ndarray

    @staticmethod
    def of(
        points: Float[Array, "i n d"], masses: Float[Array, "i n"], rng: np.random.Generator
    ) -> Regression:
        """The least-squares problem at points of n particles at i times, each with its mass."""
        i, n, d = points.shape
        x = np.asarray(points, np.float64).reshape(i * n, d)
        most = max(200, MOST_EQUATIONS // d)
        rows = np.sort(rng.permutation(i * n)[:most])
        x = x[rows]
        stretch = (rows // n) * 4 * FOLDS // i  # every fold holds four stretches of time
        gradients, rotations = fields_at(x, rng)
        mass = np.asarray(masses, np.float64).reshape(-1)[rows]
        return Regression(rows, mass, stretch % FOLDS, rows % n, gradients, rotations)

    def pick(self, values: Array) -> np.ndarray:
        """The values at the points that are used."""
        flat = np.asarray(values, np.float64)
        return flat.reshape(-1, flat.shape[-1])[self.rows]

    def squares(self, values: np.ndarray) -> np.ndarray:
        """The weighted squared length of vectors at the points."""
        return self.mass * (values**2).sum(1)

    def residuals(self, target: np.ndarray, fields: np.ndarray) -> np.ndarray:
        """Squared residuals of every point, predicted from the other folds with the best ridge."""
        p, d, m = fields.shape
        root = np.sqrt(self.mass)[:, None]
        a, b = (root[:, :, None] * fields).reshape(p * d, m), (root * target).reshape(p * d)
        fold = np.repeat(self.fold, d)
        grams = [a[fold == f].T @ a[fold == f] for f in range(FOLDS)]
        sides = [a[fold == f].T @ b[fold == f] for f in range(FOLDS)]
        gram, side = sum(grams), sum(sides)
        scale = np.trace(gram) / m
        left = np.empty((len(RIDGES), p))
        for r, ridge in enumerate(RIDGES):
            errors = b.copy()
            for f in range(FOLDS):
                solved = np.linalg.solve(
                    gram - grams[f] + ridge * scale * np.eye(m), side - sides[f]
                )
                errors[fold == f] -= a[fold == f] @ solved
            left[r] = (errors.reshape(p, d) ** 2).sum(1)
        return left[left.sum(1).argmin()]

    def removed(
        self, before: np.ndarray, after: np.ndarray, least: float
    ) -> tuple[float, tuple[float, float]]:
        """The share of `before` that is gone in `after`, and its 90 % interval over particles.

        Where `before` is smaller than `least`, the share is relative to `least`.
        """
        n = int(self.particle.max()) + 1
        a, b = (np.bincount(self.particle, weights=s, minlength=n) for s in (before, after))
        share = lambda x, y: (x - y) / np.maximum(x, least)
        picks = np.random.default_rng(0).integers(0, n, (BOOTSTRAPS, n))
        shares = share(a[picks].sum(1), b[picks].sum(1))
        low, high = np.percentile(shares, [5.0, 95.0])
        return float(share(a.sum(), b.sum())), (float(low), float(high))


def fields_at(x: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    r"""Gradient fields $\nabla\varphi_j$ and divergence-free ones $A_j\nabla\psi_j$ at points.

    The $\varphi_j$ are coordinates, squares and waves of several lengths. The $A_j$ are
    antisymmetric matrices, each a quarter turn in a random plane: $\nabla\cdot A\nabla\psi = 0$.

    Arguments:
        x: the points.
        rng: the random generator of the waves.
    """
    p, d = x.shape
    spread = x.std(axis=0) + 1e-12
    plain = np.zeros((p, d, 2 * d))
    for i in range(d):
        plain[:, i, i] = 1.0
        plain[:, i, d + i] = x[:, i] / spread[i]

    def waves(number: int) -> np.ndarray:
        length = np.exp(rng.uniform(np.log(0.3), np.log(4.0), number))
        w = rng.standard_normal((d, number)) / (spread[:, None] * length * np.sqrt(d))
        phase = rng.uniform(0.0, 2.0 * np.pi, number)
        slope = w / np.linalg.norm(w, axis=0)
        return slope[None] * np.sin(x @ w + phase)[:, None, :]

    if d == 1:
        return np.concatenate([plain, waves(WAVES)], axis=2), np.zeros((p, d, 0))
    base = np.concatenate([plain[:, :, d:], waves(TURNS)], axis=2)
    turned = np.empty_like(base)
    for j in range(base.shape[2]):
        u, v = np.linalg.qr(rng.standard_normal((d, 2)))[0].T
        turned[:, :, j] = np.outer(base[:, :, j] @ u, v) - np.outer(base[:, :, j] @ v, u)
    planes = [(i, j) for i in range(min(d, 8)) for j in range(i)]
    whole = np.zeros((p, d, len(planes)))
    for column, (i, j) in enumerate(planes):  # rotations about the centre in each plane
        whole[:, i, column], whole[:, j, column] = x[:, j], -x[:, i]
    return np.concatenate([plain, waves(WAVES)], axis=2), np.concatenate([turned, whole], axis=2)
