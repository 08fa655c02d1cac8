r"""Individuals carried over a gap by the present estimate, with the derivative of where they end.

Averages of a test function over carried individuals are the weak form of the Fokker-Planck equation
against the test function carried back in time (Dynkin's formula), so that no density is estimated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Bumps
from stitchflow._weak_form.pair_push import Geometry, Neighbours, PairPush


@dataclass(frozen=True)
class Drift:
    """What moves individuals, up to coefficients: a potential that may vary in time, and pairs.

    Arguments:
        bumps: the functions of V; None without a potential.
        powers: the number of powers of time that multiply each of them.
        pairs: the pushes of pairs.
    """

    bumps: Bumps | None
    powers: int
    pairs: tuple[PairPush, ...]

    @property
    def count(self) -> int:
        """The number of coefficients."""
        own = 0 if self.bumps is None else self.bumps.count * self.powers
        return own + sum(push.splines.count for push in self.pairs)

    def waves(self, t: float) -> np.ndarray:
        """The Legendre polynomials of time that multiply the functions of V; t is in [0, 1]."""
        return np.polynomial.legendre.legvander(np.atleast_1d(2.0 * t - 1.0), self.powers - 1)[0]

    def parts(self, c: np.ndarray, t: float) -> tuple[np.ndarray, list[np.ndarray]]:
        """The coefficients of V at a time, and those of each pair push."""
        own = 0 if self.bumps is None else self.bumps.count * self.powers
        ends = own + np.cumsum([push.splines.count for push in self.pairs], dtype=int)
        pieces = [c[e - p.splines.count : e] for e, p in zip(ends, self.pairs, strict=True)]
        return self.waves(t) @ c[:own].reshape(self.powers, -1), pieces

    def slope(self, x: np.ndarray, t: float, c: np.ndarray, near: Neighbours | None) -> np.ndarray:
        """Minus the drift of several copies of the individuals, (copies, n, d)."""
        own, pieces = self.parts(c, t)
        flat = x.reshape(-1, x.shape[2])
        out = np.zeros_like(flat) if self.bumps is None else self.bumps.slope(flat, own)
        out = out.reshape(x.shape)
        for k, place in self._populations(x, near):
            for push, piece in zip(self.pairs, pieces, strict=True):
                out[k] += push.push(place, piece)
        return out

    def bend(
        self, x: np.ndarray, t: float, c: np.ndarray, near: Neighbours | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`slope`, its derivative by the individual's own place, and the features of pairs.

        Their shapes are (copies, n, d), (copies, n, d, d) and (copies, n, d, features of pairs).
        """
        own, pieces = self.parts(c, t)
        d = x.shape[2]
        slope, bent = np.zeros(x.shape), np.zeros((*x.shape, d))
        pushes = np.zeros((*x.shape, sum(map(len, pieces))))
        if self.bumps is not None:
            flat = x.reshape(-1, d)
            bells = self.bumps.bells(flat)
            slope += self.bumps.slope(flat, own, bells).reshape(slope.shape)
            bent += self.bumps.hessian(flat, own, bells).reshape(bent.shape)
        for k, place in self._populations(x, near):
            here = 0
            for push, piece in zip(self.pairs, pieces, strict=True):
                slope[k] += push.push(place, piece)
                bent[k] += push.jacobian(place, piece)
                pushes[k, ..., here : here + len(piece)] = push.features(place)
                here += len(piece)
        return slope, bent, pushes

    def features(self, x: np.ndarray, t: float, pushes: np.ndarray) -> np.ndarray:
        """The derivative of `slope` by the coefficients, (n, d, f); `pushes` are those of pairs."""
        parts = []
        if self.bumps is not None:
            slopes = self.bumps.slopes(x)
            parts = [slopes * wave for wave in self.waves(t)]
        return np.concatenate([*parts, pushes], axis=2)

    def gather(self, a: np.ndarray, x: np.ndarray, t: float, pushes: np.ndarray) -> np.ndarray:
        """Sums over individuals of covectors times `features`, (p, f).

        Arguments:
            a: the covectors, (d, p, n).
            x: the individuals, (n, d).
            t: the time.
            pushes: the features of pairs, (n, d, features of pairs).
        """
        parts = []
        if self.bumps is not None:
            sums = self.bumps.gather(a, x)
            parts = [sums * wave for wave in self.waves(t)]
        if self.pairs:
            parts.append(sum(a[k] @ pushes[:, k] for k in range(x.shape[1])))
        return np.concatenate(parts, axis=1)

    def _populations(
        self, x: np.ndarray, near: Neighbours | None
    ) -> Iterator[tuple[int | slice, Geometry]]:
        """The copies and the geometry of the population that acts on them.

        Where copies lie close together compared with the splines, one population stands for all:
        the difference is of second order in the noise, and of none on average over two copies.
        """
        if near is None or not self.pairs:
            return
        fine = constants.ONE_POPULATION * min(push.splines.step for push in self.pairs)
        if len(x) > 1 and np.abs(x - x.mean(axis=0)).mean() < fine:
            yield slice(None), Geometry.at(near, x.mean(axis=0))
            return
        for k in range(len(x)):
            yield k, Geometry.at(near, x[k])


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
    """

    drift: Drift
    x: np.ndarray
    by_log_beta: np.ndarray
    spread: np.ndarray
    steps: int
    h: float
    way: list[tuple[float, np.ndarray, np.ndarray, np.ndarray]]

    @property
    def finite(self) -> bool:
        """Whether nobody was carried to infinity."""
        sizes = (self.x, self.by_log_beta, *(bent for _, _, bent, _ in self.way))
        near = (np.abs(self.x) < constants.FAR).all()
        return bool(near and all(np.isfinite(size).all() for size in sizes))

    def design(self, slopes: np.ndarray, shares: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The derivative of averages by the coefficients and log beta, (p, f + 1).

        The gradients of the test functions are carried back in time, which costs as much as there
        are test functions, and not as much as there are coefficients.

        Arguments:
            slopes: the gradients of the test functions at the ends, (2, rows, d, p).
            shares: how much each individual counts, (rows,).
            rows: which individuals are averaged over.
        """
        _, m, d, p = slopes.shape
        a = (slopes * (0.5 * shares)[:, None, None]).transpose(2, 3, 0, 1).reshape(d, p, 2 * m)
        last = a.transpose(1, 2, 0).reshape(p, -1) @ self.by_log_beta[:, rows].reshape(-1)
        out = np.zeros((p, self.drift.count))
        for t, middle, bent, pushes in reversed(self.way):
            place, bent = middle[:, rows].reshape(-1, d), bent[:, rows].reshape(-1, d, d)
            pushed = self.h * (a - 0.5 * _across(a, bent))
            out -= self.drift.gather(pushed, place, t, pushes[:, rows].reshape(2 * m, d, -1))
            a = a + _across(a, 0.5 * bent @ bent - bent)
        return np.concatenate([out, last[:, None]], axis=1)

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


def _across(a: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Covectors (d, p, n) times the matrix of each individual, (n, d, d)."""
    d = len(a)
    return np.stack([sum(a[k] * matrices[:, k, b] for k in range(d)) for b in range(d)])


def steps_for(curvature: np.ndarray, gap: float) -> int:
    """How many steps resolve a gap with this derivative of the drift, (..., d, d): a power of 2."""
    squares = (curvature**2).reshape(-1, curvature.shape[-1] ** 2) @ np.ones(
        curvature.shape[-1] ** 2
    )
    size = np.sqrt(np.quantile(squares, constants.STEEP_SHARE))
    if not np.isfinite(size):
        return constants.MOST_STEPS
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
        drift: the functions of the energy.
        c: their coefficients.
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
        by_log_beta = np.einsum("knab,knb->kna", moved, by_log_beta)
        spread = moved @ spread @ moved.swapaxes(-1, -2)
    return Carried(drift, y, by_log_beta, spread.mean(axis=0), needed, h, way)


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
