r"""Birth and death: individuals that multiply at a rate g(x), and averages over them.

$$\frac{d}{dt}\langle\eta\rangle
  = \ldots + \langle\eta g\rangle - \langle\eta\rangle\langle g\rangle .$$
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block, Bumps


@dataclass(frozen=True)
class Growing:
    """The rate g of birth minus death, a sum of powers and wide bumps with mean zero.

    Averages are normalised, so that they do not tell a constant in g: its mean over all individuals
    is zero.

    Arguments:
        bumps: the functions.
        centre: their mean over all individuals, (f,).
    """

    bumps: Bumps
    centre: np.ndarray

    @staticmethod
    def of(tests: Bumps, some: np.ndarray, x: np.ndarray) -> Growing:
        """Powers, and a few bumps of the largest width of `tests` near `some` points.

        Arguments:
            tests: the functions of V.
            some: where bumps are placed, (m, d).
            x: all individuals, over whom g has the mean zero, (n, d).
        """
        wide = float(tests.widths.max())
        bumps = Bumps.for_points(some, (wide,), constants.GROWTH_BUMPS)
        return Growing(bumps, bumps.values(x).mean(axis=0))

    @property
    def count(self) -> int:
        """The number of coefficients."""
        return self.bumps.count

    def values(self, x: np.ndarray) -> np.ndarray:
        """All functions at points (m, d), less their mean, (m, f)."""
        return self.bumps.values(x) - self.centre

    def blocks(self, widths: Any, ranges: Any) -> dict[float, list[Block]]:
        """Coordinates, products of two and bumps, each with a size that the evidence decides.

        The first two are there from the start: what grows in place would else be taken for motion.
        """
        first, *rest = self.bumps.blocks()
        lines, products = np.split(first.factor, [self.bumps.dim], axis=1)
        own = [Block("g, coordinates", lines), Block("g, products", products)]
        return {0.0: own + [Block(f"g, {b.name}", b.factor, spare=1) for b in rest]}


class Gain:
    r"""The logarithm of how much individuals multiply along their paths, $\int g(x_s)\,ds$.

    Arguments:
        growth: the functions of g.
        c: all coefficients, those of g last.
        shape: copies and individuals.
    """

    def __init__(self, growth: Growing, c: np.ndarray, shape: tuple[int, int]):
        self.growth, self.c = growth, c[len(c) - growth.count :]
        self.size, self.by_log_beta = np.zeros(shape), np.zeros(shape)

    def add(self, h: float, x: np.ndarray, by_log_beta: np.ndarray) -> None:
        """A step of duration `h` at places `x`, with their derivative by log beta."""
        flat = x.reshape(-1, x.shape[2])
        self.size += h * (self.growth.values(flat) @ self.c).reshape(self.size.shape)
        slope = self.growth.bumps.slope(flat, self.c).reshape(x.shape)
        self.by_log_beta += h * (slope * by_log_beta).sum(axis=2)

    def factors(self, weights: np.ndarray) -> np.ndarray:
        """How much individuals have multiplied, (2, n), with the mean one under `weights`."""
        factors = np.exp(self.size - self.size.max())
        return factors / (0.5 * (factors @ weights).sum())


def grown(
    values: np.ndarray, factors: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Test functions at individuals that have multiplied by factors $f_i$ with the mean one.

    $$\langle\eta\rangle = \sum_i w_i f_i\,\eta(y_i), \qquad
      d\langle\eta\rangle = \sum_i w_i f_i\,\bigl(\nabla\eta\cdot dy_i
      + (\eta - \langle\eta\rangle)\,d\log f_i\bigr).$$

    Arguments:
        values: the test functions at both copies, (2, n, tests).
        factors: how much each copy has multiplied, (2, n).
        weights: how much each individual counts, with the sum 1, (n,).

    Returns:
        What each individual adds to the averages to first order, which has their mean and their
        covariance under the `weights`; how far the functions are from the averages, times the
        factors; and the factors.
    """
    mean = np.einsum("kn,knt->t", 0.5 * factors * weights, values)
    apart = (values - mean) * factors[:, :, None]
    return mean + apart, apart, factors
