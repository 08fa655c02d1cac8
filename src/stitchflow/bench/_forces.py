"""Where forces are compared on tasks that ask whether the energy itself is found."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction
from stitchflow.bench._truth import PAIRS, Recovery

SIDE, POINTS = 4.0, 50  # of the grid on the square in which the three marginals start
STEP = 1e-3  # of the central differences of W, in the user's units


class Square(Recovery):
    """Three close marginals: forces on a grid of the square, wherever the individuals are.

    Arguments:
        learned: as in `Recovery`.
        truth: as in `Recovery`.
        train: as in `Recovery`.
        test: as in `Recovery`.
    """

    def further(self) -> dict[str, float | None]:
        """`cosine`, the mean cosine of learned and true forces, and `nmae`, their mean distance
        over the mean size of the true ones."""
        axis = np.linspace(-SIDE, SIDE, POINTS)
        grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
        gap, true = self.gradient_gap(grid)
        learned, size = gap + true, lambda force: np.linalg.norm(force, axis=1)
        tiny = np.finfo(float).tiny
        cosine = (learned * true).sum(1) / np.maximum(size(learned) * size(true), tiny)
        return {"cosine": float(cosine.mean()), "nmae": float(size(gap).mean() / size(true).mean())}


class Within(Recovery):
    """Many populations: pairs are those within one population, and slopes are compared.

    Arguments:
        learned: as in `Recovery`.
        truth: as in `Recovery`.
        train: as in `Recovery`.
        test: as in `Recovery`.
    """

    def further(self) -> dict[str, float | None]:
        r"""`v_slope_error` and `w_slope_error`: relative $L^2$ errors of $\nabla V$ and $W'$, in %.

        They are weighted by where held-out individuals are, and by their distances within a
        population. For a radial learned V the former is the error of $V'(r)$.
        """
        gap, true = self.gradient_gap(self.test.x)
        relative = lambda error, of: float(100.0 * np.sqrt((error**2).sum() / (of**2).sum()))
        found: dict[str, float | None] = {"v_slope_error": relative(gap, true)}
        if not self.learned.only(Interaction):
            return found
        r = np.linalg.norm(self.displacements, axis=1)
        slope, exact = _slope(self.learned, r), _slope(self.truth, r)
        return found | {"w_slope_error": relative(slope - exact, exact)}

    @cached_property
    def displacements(self) -> np.ndarray:
        """Differences of random pairs of one population, over all times."""
        rng, population = np.random.default_rng(0), self.test.populations
        order = np.argsort(population, kind="stable")
        sizes = np.bincount(population)
        starts = np.cumsum(sizes) - sizes
        i = rng.integers(0, len(order), PAIRS)
        own = population[order[i]]
        j = starts[own] + rng.integers(0, sizes[own])
        first, second = order[i[i != j]], order[j[i != j]]
        return (self.test.x[first] - self.test.x[second]).astype(np.float64)

    @cached_property
    def band(self) -> tuple[float, float]:
        """The 5 to 95 % band of distances within populations."""
        low, high = np.quantile(np.linalg.norm(self.displacements, axis=1), [0.05, 0.95])
        return float(low), float(high)


def _slope(energy: Energy, r: np.ndarray) -> np.ndarray:
    """W' at distances, by central differences."""
    low, high = np.maximum(r - STEP, 0.0), r + STEP
    w = lambda at: np.asarray(energy.interaction(at), np.float64)
    return (w(high) - w(low)) / (high - low)
