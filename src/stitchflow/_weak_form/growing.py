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
        """Coordinates, products of two and bumps, each with a size that the evidence decides."""
        first, *rest = self.bumps.blocks()
        lines, products = np.split(first.factor, [self.bumps.dim], axis=1)
        own = [Block("g, coordinates", lines), Block("g, products", products)]
        return {0.0: own + [Block(f"g, {b.name}", b.factor) for b in rest]}


class Gain:
    r"""The logarithm of how much individuals multiply along their paths, $\int g(x_s)\,ds$.

    Arguments:
        growth: the functions of g.
        c: all coefficients, those of g last.
        shape: copies and individuals.
    """

    def __init__(self, growth: Growing, c: np.ndarray, shape: tuple[int, int]):
        self.growth, self.c = growth, c[len(c) - growth.count :]
        self.size = np.zeros(shape)
        # The derivative by all coefficients and log beta.
        self.tangent = np.zeros((*shape, len(c) + 1))

    def add(self, h: float, x: np.ndarray, tangent: np.ndarray) -> None:
        """A step of duration `h` at places `x`, whose derivative is `tangent`."""
        flat, bumps = x.reshape(-1, x.shape[2]), self.growth.bumps
        values = self.growth.values(flat).reshape(*self.size.shape, -1)
        slope = bumps.slope(flat, self.c).reshape(x.shape)
        self.size += h * values @ self.c
        self.tangent += h * np.einsum("knd,kndf->knf", slope, tangent)
        self.tangent[..., -1 - self.growth.count : -1] += h * values


def grown_averages(
    tests: Bumps, weights: np.ndarray, x: np.ndarray, tangent: np.ndarray, gain: Gain
) -> tuple[np.ndarray, ...]:
    r"""Averages over carried individuals that have multiplied by $e^{a_i}$, and their derivative.

    $$\langle\eta\rangle = \frac{\sum_i w_i e^{a_i}\eta(y_i)}{\sum_i w_i e^{a_i}},\qquad
      d\langle\eta\rangle = \langle\nabla\eta\cdot dy\rangle
      + \langle(\eta - \langle\eta\rangle)\,da\rangle .$$

    Arguments:
        tests: the test functions.
        weights: how much each individual counts at the start, with the sum 1, (n,).
        x: the two places of each individual at the end, (2, n, d).
        tangent: their derivative by the coefficients and log beta, (2, n, d, f + 1).
        gain: how much they have multiplied.

    Returns:
        The averages; their derivative, (tests, f + 1); for each individual what it adds to them to
        first order, (n, tests), which has the mean of the averages and their covariance; and the
        slopes of the tests, times how much the individual has multiplied, (n, d, tests).
    """
    factors = np.exp(gain.size - gain.size.max())
    factors /= 0.5 * (factors @ weights).sum()
    values = np.stack([tests.values(y) for y in x])
    shares = 0.5 * factors * weights
    mean = np.einsum("kn,knt->t", shares, values)
    apart = values - mean
    slopes = np.stack([tests.slopes(y) for y in x]) * factors[:, :, None, None]
    wide, f = tests.count, tangent.shape[3]
    pushed = (0.5 * slopes * weights[:, None, None]).reshape(-1, wide)
    design = pushed.T @ tangent.reshape(-1, f)
    design += (apart * shares[:, :, None]).reshape(-1, wide).T @ gain.tangent.reshape(-1, f)
    influence = mean + 0.5 * (apart * factors[:, :, None]).sum(axis=0)
    return mean, design, influence, 0.5 * slopes.sum(axis=0)
