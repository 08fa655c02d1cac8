r"""Individuals carried over a gap by the present estimate, with the derivative of where they end.

Averages of a test function over carried individuals are the weak form of the Fokker-Planck equation
against the test function carried back in time (Dynkin's formula), so that no density is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from stitchflow._weak_form import constants
from stitchflow._weak_form.drift_parts import Drift as Drift
from stitchflow._weak_form.growing import Gain
from stitchflow._weak_form.neighbours import Neighbours


@dataclass(frozen=True)
class Carried:
    """Individuals on their way over a gap, for two opposite paths of the noise.

    Arguments:
        drift: what moved them.
        x: the two places of each individual at the end, (2, n, d).
        by_log_beta: the derivative of these places by the logarithm of beta, (2, n, d).
        spread: the covariance of an individual's place for beta = 1, to first order, (n, d, d).
        steps: how many steps the steepness that was met asks for.
        h: the duration of a step.
        way: for every step its middle time, the places there, the derivative of the displacement
            by the place, and the features of pairs.
        gain: how much individuals have multiplied; None where they do not.
    """

    drift: Drift
    x: np.ndarray
    by_log_beta: np.ndarray
    spread: np.ndarray
    steps: int
    h: float
    way: list[tuple[float, np.ndarray, np.ndarray, np.ndarray]]
    gain: Gain | None = None

    @property
    def finite(self) -> bool:
        """Whether nobody was carried to infinity."""
        sizes = (self.x, self.by_log_beta, *(bent for _, _, bent, _ in self.way))
        near = (np.abs(self.x) < constants.FAR).all()
        return bool(near and all(np.isfinite(size).all() for size in sizes))

    def design(
        self,
        slopes: np.ndarray,
        shares: np.ndarray,
        rows: np.ndarray,
        apart: np.ndarray | None = None,
    ) -> np.ndarray:
        """The derivative of averages by the coefficients and log beta, (p, f + 1).

        The gradients of the test functions are carried back in time, which costs as much as there
        are test functions, and not as much as there are coefficients.

        Arguments:
            slopes: the gradients of the test functions at the ends, (2, rows, d, p).
            shares: how much each individual counts, (rows,).
            rows: which individuals are averaged over.
            apart: where individuals multiply, how far the test functions are from their averages,
                (2, rows, p); slopes and these are multiplied by how much they have multiplied.
        """
        _, m, d, p = slopes.shape
        a = (slopes * (0.5 * shares)[:, None, None]).transpose(2, 3, 0, 1).reshape(d, p, 2 * m)
        last = a.transpose(1, 2, 0).reshape(p, -1) @ self.by_log_beta[:, rows].reshape(-1)
        out = np.zeros((p, self.drift.count))
        grown = None
        if self.gain is not None and apart is not None:
            grown = (apart * (0.5 * shares)[:, None]).transpose(2, 0, 1).reshape(p, 2 * m)
            last = last + grown @ self.gain.by_log_beta[:, rows].reshape(-1)
        for t, middle, bent, pushes in reversed(self.way):
            place, bent = middle[:, rows].reshape(-1, d), bent[:, rows].reshape(-1, d, d)
            # A rate at the middle of a step depends on both ends of the step alike.
            half = 0.0 if grown is None else self._half_rate(grown, place)
            a = a + half
            pushed = self.h * (a - 0.5 * _across(a, bent))
            out -= self.drift.gather(pushed, place, t, pushes[:, rows].reshape(2 * m, d, -1))
            a = a + _across(a, 0.5 * bent @ bent - bent) + half
            if grown is not None and self.gain is not None:
                out[:, self.drift.moving :] += self.h * grown @ self.gain.growth.values(place)
        return np.concatenate([out, last[:, None]], axis=1)

    def _half_rate(self, grown: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Half of what the rate of a step adds to covectors, (d, p, n)."""
        assert self.gain is not None
        slope = self.gain.growth.bumps.slope(place, self.gain.c)
        return 0.5 * self.h * slope.T[:, None, :] * grown

    def tangents(self, rows: np.ndarray) -> np.ndarray:
        """The derivative of each individual's mean place by coefficients and log beta.

        Arguments:
            rows: which individuals.

        Returns:
            An array of shape (rows, d, f + 1).
        """
        d = self.x.shape[2]
        out = np.zeros((2, len(rows), d, self.drift.count))
        for t, middle, bent, pushes in self.way:
            for k in range(2):
                features = self.drift.features(middle[k, rows], t, pushes[k, rows])
                own = bent[k, rows]
                moved = np.eye(d) - own + 0.5 * own @ own
                out[k] = moved @ out[k] - self.h * (np.eye(d) - 0.5 * own) @ features
        last = self.by_log_beta[:, rows].mean(axis=0)[:, :, None]
        return np.concatenate([out.mean(axis=0), last], axis=2)

    def spread_tangents(self, rows: np.ndarray) -> np.ndarray:
        """The derivative of each individual's `spread` by the coefficients, on the path it took.

        Arguments:
            rows: which individuals.

        Returns:
            An array of shape (rows, d, d, f).
        """
        d = self.x.shape[2]
        one, flipped = np.eye(d), (0, 2, 1, 3)
        out = np.zeros((len(rows), d, d, self.drift.count))
        for k in range(2):
            spread, grown = np.broadcast_to(self.h * one, (len(rows), d, d)), np.zeros(out.shape)
            for t, middle, bent, _ in self.way:
                own = bent[k, rows]
                by_bent = self.h * self._hessians(middle[k, rows], t)
                moved = one - own + 0.5 * own @ own
                turned = np.einsum("nab,nbcf->nacf", own, by_bent)
                by_moved = 0.5 * (turned + turned.transpose(flipped)) - by_bent
                changed = np.einsum("nabf,nbc,ndc->nadf", by_moved, spread, moved, optimize=True)
                grown = np.einsum("nab,nbcf,ndc->nadf", moved, grown, moved, optimize=True)
                grown += changed + changed.transpose(flipped)
                spread = moved @ spread @ moved.swapaxes(1, 2) + 2.0 * self.h * one
            out += 0.5 * grown
        return out

    def _hessians(self, x: np.ndarray, t: float) -> np.ndarray:
        """The derivatives of all functions of the drift by the place, (n, d, d, f)."""
        none = np.zeros((*x.shape, 0))
        sides = []
        for step in constants.HESSIAN_STEP * np.eye(x.shape[1]):
            ahead, behind = (self.drift.features(y, t, none) for y in (x + step, x - step))
            sides.append((ahead - behind) / (2.0 * constants.HESSIAN_STEP))
        found = np.stack(sides, axis=1)
        return 0.5 * (found + found.transpose(0, 2, 1, 3))


def _across(a: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Covectors (d, p, n) times the matrix of each individual, (n, d, d)."""
    d = len(a)
    return np.stack([sum(a[k] * matrices[:, k, b] for k in range(d)) for b in range(d)])


def most_steps(n: int) -> int:
    """The largest number of steps for `n` individuals, a power of two: few may take more."""
    more = int(2 ** np.floor(np.log2(max(constants.INDIVIDUAL_STEPS / n, 1.0))))
    return int(np.clip(more, constants.MOST_STEPS, constants.FINEST_STEPS))


def steps_for(curvature: np.ndarray, gap: float) -> int:
    """How many steps resolve a gap with this derivative of the drift: a power of two.

    Arguments:
        curvature: the derivative at all copies of the individuals, (2, n, d, d).
        gap: the duration.
    """
    most = most_steps(curvature.shape[1])
    squares = (curvature**2).reshape(-1, curvature.shape[-1] ** 2) @ np.ones(
        curvature.shape[-1] ** 2
    )
    size = np.sqrt(np.quantile(squares, constants.STEEP_SHARE))
    if not np.isfinite(size):
        return most
    needed = np.clip(gap * size / constants.STEP, 1.0, most)
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
    (n, d), h = x.shape, gap / steps
    kicks = _kicks(rng, n, d, steps) * np.sqrt(gap)
    signs = np.array([1.0, -1.0])[:, None, None]
    y, by_log_beta, spread = np.stack([x, x]), np.zeros((2, n, d)), np.zeros((2, n, d, d))
    needed, way = 1, []
    gain = None if drift.growth is None else Gain(drift.growth, c, (2, n))
    for s in range(steps + 1):
        kick = signs * np.sqrt(2.0 * beta) * kicks[s]
        # The ends have half a step each.
        y, spread = y + kick, spread + (h if s in (0, steps) else 2.0 * h) * np.eye(d)
        by_log_beta = by_log_beta + 0.5 * kick
        if s == steps:
            break
        t = start + (s + 0.5) * h
        middle = y - 0.5 * h * drift.slope(y, t, c, near)
        slope, bent, pushes = drift.bend(middle, t, c, near)
        needed = max(needed, steps_for(bent, gap))
        y, bent = y - h * slope, h * bent
        way.append((t, middle, bent, pushes))
        moved = np.eye(d) - bent + 0.5 * bent @ bent
        before, by_log_beta = by_log_beta, np.einsum("knab,knb->kna", moved, by_log_beta)
        if gain is not None:
            gain.add(h, middle, 0.5 * (before + by_log_beta))
        spread = moved @ spread @ moved.swapaxes(-1, -2)
    return Carried(drift, y, by_log_beta, spread.mean(axis=0), needed, h, way, gain)


def _kicks(rng: np.random.Generator, n: int, d: int, steps: int) -> np.ndarray:
    """Increments of Brownian motion over a unit of time, (steps + 1, n, d), half ones at the ends.

    Any number of steps takes them from the same fine path, so that estimates that need more steps
    than others are still compared by the same noise. Their covariance over individuals is made
    exact, which makes averages steadier.
    """
    fine = rng.normal(size=(2 * constants.MOST_STEPS, n, d)) / np.sqrt(2 * constants.MOST_STEPS)
    if steps > constants.MOST_STEPS:  # a Brownian bridge within every piece of the path
        parts = steps // constants.MOST_STEPS
        bridge = rng.normal(size=(len(fine), parts, n, d)) / np.sqrt(parts * len(fine))
        bridge += (fine / parts - bridge.mean(axis=1))[:, None]
        fine = bridge.reshape(-1, n, d)
    half = max(constants.MOST_STEPS // steps, 1)
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
