r"""Individuals carried over a gap by the present estimate, with the derivative of where they end.

Averages of a test function over carried individuals are the weak form of the Fokker-Planck equation
against the test function carried back in time (Dynkin's formula), so that no density is estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Bumps
from stitchflow._weak_form.pairs import Neighbours, PairPush


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
        """Minus the drift, (n, d)."""
        own, pieces = self.parts(c, t)
        out = np.zeros_like(x) if self.bumps is None else self.bumps.slope(x, own)
        for push, piece in zip(self.pairs, pieces, strict=True):
            assert near is not None
            out += push.push(near, x, piece)
        return out

    def jacobian(
        self, x: np.ndarray, t: float, c: np.ndarray, near: Neighbours | None
    ) -> np.ndarray:
        """The derivative of `slope` by the individual's own place, (n, d, d)."""
        own, pieces = self.parts(c, t)
        d = x.shape[1]
        out = np.zeros((len(x), d, d)) if self.bumps is None else self.bumps.hessian(x, own)
        for push, piece in zip(self.pairs, pieces, strict=True):
            assert near is not None
            out += push.jacobian(near, x, piece)
        return out

    def features(self, x: np.ndarray, t: float, near: Neighbours | None) -> np.ndarray:
        """The derivative of `slope` by every coefficient, (n, d, f)."""
        found = []
        if self.bumps is not None:
            own = self.bumps.slopes(x)
            found = [own if wave == 1.0 else own * wave for wave in self.waves(t)]
        for push in self.pairs:
            assert near is not None
            found.append(push.features(near, x))
        return found[0] if len(found) == 1 else np.concatenate(found, axis=2)


@dataclass(frozen=True)
class Carried:
    """Where individuals are at the end of a gap, for two opposite paths of the noise.

    Arguments:
        x: the two places of each individual, (2, n, d).
        tangent: the derivative of the places by the coefficients and, in the last column, by the
            logarithm of beta, (2, n, d, f + 1).
        spread: the covariance of an individual's place for beta = 1, to first order, (n, d, d).
    """

    x: np.ndarray
    tangent: np.ndarray
    spread: np.ndarray


def steps_for(curvature: np.ndarray, gap: float) -> int:
    """How many steps resolve a gap with this derivative of the drift along the paths, (n, d, d)."""
    size = np.quantile(np.linalg.norm(curvature, axis=(1, 2)), constants.STEEP_SHARE)
    return int(np.clip(np.ceil(gap * size / constants.STEP), 1, constants.MOST_STEPS))


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
        steps: the number of steps.
        near: the pairs of individuals who act on each other; None where none do.
        rng: draws the noise; the same generator gives the same noise.
    """
    (n, d), h, f = x.shape, gap / steps, drift.count
    noise = _balanced(rng.normal(size=(steps + 1, n, d)))
    shares = np.full(steps + 1, 2.0 * h)  # of the variance; the ends have half a step
    shares[[0, -1]] = h
    ends, tangents, spreads = [], [], []
    for sign in (1.0, -1.0):
        y, tangent, spread = x, np.zeros((n, d, f + 1)), np.zeros((n, d, d))
        for s in range(steps + 1):
            kick = sign * np.sqrt(shares[s] * beta) * noise[s]
            y, spread = y + kick, spread + shares[s] * np.eye(d)
            tangent[:, :, -1] += 0.5 * kick
            if s == steps:
                break
            t = start + (s + 0.5) * h
            middle = y - 0.5 * h * drift.slope(y, t, c, near)
            bent = h * drift.jacobian(middle, t, c, near)
            y = y - h * drift.slope(middle, t, c, near)
            moved = np.eye(d) - bent + 0.5 * bent @ bent
            pushed = h * np.eye(d) - 0.5 * h * bent
            tangent = moved @ tangent
            tangent[:, :, :-1] -= pushed @ drift.features(middle, t, near)
            spread = moved @ spread @ moved.transpose(0, 2, 1)
        ends.append(y)
        tangents.append(tangent)
        spreads.append(spread)
    return Carried(np.stack(ends), np.stack(tangents), 0.5 * (spreads[0] + spreads[1]))


def _balanced(noise: np.ndarray) -> np.ndarray:
    """The same noise with the exact covariance over individuals, which makes averages steadier."""
    _, n, d = noise.shape
    if n <= constants.BALANCED * d:
        return noise
    covariance = np.einsum("snd,sne->sde", noise, noise) / n
    root = np.linalg.cholesky(covariance)
    return np.linalg.solve(root, noise.transpose(0, 2, 1)).transpose(0, 2, 1)
