r"""Individuals carried over a gap by the present estimate, with the derivative of where they end.

Averages of a test function over carried individuals are the weak form of the Fokker-Planck equation
against the test function carried back in time (Dynkin's formula), so that no density is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from stitchflow._weak_form import constants
from stitchflow._weak_form.drift import Drift as Drift
from stitchflow._weak_form.growing import Gain
from stitchflow._weak_form.neighbours import Neighbours


@dataclass(frozen=True)
class Carried:
    """Where individuals are at the end of a gap, for two opposite paths of the noise.

    Arguments:
        x: the two places of each individual, (2, n, d).
        tangent: the derivative of the places by the coefficients and, in the last column, by the
            logarithm of beta, (2, n, d, f + 1).
        spread: the covariance of an individual's place for beta = 1, to first order, (n, d, d).
        steps: how many steps the steepness that was met asks for.
        gain: how much individuals have multiplied; None where they do not.
    """

    x: np.ndarray
    tangent: np.ndarray
    spread: np.ndarray
    steps: int
    gain: Gain | None = None


def steps_for(curvature: np.ndarray, gap: float) -> int:
    """How many steps resolve a gap with this derivative of the drift, (..., d, d): a power of 2."""
    squares = (curvature**2).reshape(-1, curvature.shape[-1] ** 2) @ np.ones(
        curvature.shape[-1] ** 2
    )
    size = np.sqrt(np.quantile(squares, constants.STEEP_SHARE))
    needed = np.clip(gap * size / constants.STEP, 1.0, constants.MOST_STEPS)
    return int(2 ** np.ceil(np.log2(needed)))


def carry(
    drift: Drift,
    c: np.ndarray,
    beta: float,
    x: np.ndarray,
    start: float,
    gap: float,
    steps: int,
    near: Neighbours | None,
    rng: np.random.Generator,
) -> Carried:
    """Individuals after a gap, by midpoint steps between halves of the noise.

    Arguments:
        drift: what moves individuals, and how they multiply.
        c: the coefficients.
        beta: the noise.
        x: the individuals at the start, (n, d).
        start: the time of the start, in [0, 1].
        gap: the duration.
        steps: the number of steps, a power of two.
        near: the pairs of individuals who act on each other; None where none do.
        rng: draws the noise; the same generator gives the same noise.
    """
    (n, d), h, f = x.shape, gap / steps, drift.count
    kicks = _kicks(rng, n, d, steps) * np.sqrt(gap)
    signs = np.array([1.0, -1.0])[:, None, None]
    y, tangent, spread = np.stack([x, x]), np.zeros((2, n, d, f + 1)), np.zeros((2, n, d, d))
    needed = 1
    gain = None if drift.growth is None else Gain(drift.growth, c, (2, n))
    for s in range(steps + 1):
        kick = signs * np.sqrt(2.0 * beta) * kicks[s]
        # The ends have half a step each.
        y, spread = y + kick, spread + (h if s in (0, steps) else 2.0 * h) * np.eye(d)
        tangent[..., -1] += 0.5 * kick
        if s == steps:
            break
        t = start + (s + 0.5) * h
        middle = y - 0.5 * h * drift.slope(y, t, c, near)
        slope, bent, features = drift.look(middle, t, c, near)
        needed = max(needed, steps_for(bent, gap))
        y, bent = y - h * slope, h * bent
        moved = np.eye(d) - bent + 0.5 * bent @ bent
        pushed = (h * np.eye(d) - 0.5 * h * bent) @ features
        before = None if gain is None else tangent.copy()
        if s > 0:
            tangent = moved @ tangent
        else:  # only the noise has moved individuals so far
            tangent[..., -1:] = moved @ tangent[..., -1:]
        tangent[..., :-1] -= pushed
        spread = moved @ spread @ moved.swapaxes(-1, -2)
        if gain is not None and before is not None:
            gain.add(h, middle, 0.5 * (before + tangent))
    return Carried(y, tangent, spread.mean(axis=0), needed, gain)


def _kicks(rng: np.random.Generator, n: int, d: int, steps: int) -> np.ndarray:
    """Increments of Brownian motion over a unit of time, (steps + 1, n, d), half ones at the ends.

    Any number of steps takes them from the same fine path, so that estimates that need more steps
    than others are still compared by the same noise. Their covariance over individuals is made
    exact, which makes averages steadier.
    """
    fine = rng.normal(size=(2 * constants.MOST_STEPS, n, d)) / np.sqrt(2 * constants.MOST_STEPS)
    half = constants.MOST_STEPS // steps
    ends = np.concatenate([[0], half + 2 * half * np.arange(steps)])
    kicks = np.add.reduceat(fine, ends, axis=0)
    if n <= constants.BALANCED * len(kicks) * d:
        return kicks
    sizes = np.full(len(kicks), 1.0 / steps)
    sizes[[0, -1]] = 0.5 / steps
    flat = kicks.transpose(1, 0, 2).reshape(n, -1)
    root = np.linalg.cholesky(flat.T @ flat / n)
    even = solve_triangular(root, flat.T, lower=True).T.reshape(n, -1, d).transpose(1, 0, 2)
    return even * np.sqrt(sizes)[:, None, None]
