"""How far averages fluctuate: three noise models, and the whitening that each implies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from stitchflow._weak_form import constants
from stitchflow._weak_form.carry import Carried
from stitchflow._weak_form.moments import Gap, Moments


@dataclass(frozen=True)
class Whitening:
    """Independent combinations of unit variance of some averages.

    Arguments:
        root: the Cholesky factor of the scaled covariance of the chosen averages, (k, k).
        chosen: which averages, (k,).
        sizes: what each of them is divided by, (k,).
    """

    root: np.ndarray
    chosen: np.ndarray
    sizes: np.ndarray

    @staticmethod
    def of(covariance: np.ndarray, sizes: np.ndarray) -> Whitening:
        """Choose the averages that fluctuate by themselves, the most uncertain one first.

        An average that others determine, or that hardly fluctuates compared with its `sizes`, has a
        covariance that the linearisation does not resolve; it is left out.
        """
        scaled = covariance / np.outer(sizes, sizes)
        root, order, rank, _ = dpstrf(scaled, tol=constants.INDEPENDENT, lower=1)
        chosen = order[:rank] - 1
        return Whitening(np.tril(root[:rank, :rank]), chosen, sizes[chosen])

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Averages (tests,) or (tests, m) as independent rows of unit variance."""
        sizes = self.sizes if values.ndim == 1 else self.sizes[:, None]
        return solve_triangular(self.root, values[self.chosen] / sizes, lower=True)

    @property
    def log_volume(self) -> float:
        """The logarithm of the determinant of the covariance."""
        return 2.0 * float(np.log(np.diag(self.root)).sum() + np.log(self.sizes).sum())


@dataclass(frozen=True)
class Observation:
    """The residuals of one gap, how they depend on the estimate, and how they fluctuate.

    Arguments:
        residual: what was seen minus what is predicted, (r,).
        design: the derivative of the prediction by the coefficients and log beta, (r, f + 1).
        covariance: of the residual, (r, r).
        before: the covariance with the residual of the gap before, (r, r); None where they are
            independent.
    """

    residual: np.ndarray
    design: np.ndarray
    covariance: np.ndarray
    before: np.ndarray | None = None


class Noise(ABC):
    """A noise model: which residuals of a gap are compared, and how they fluctuate."""

    beta_is_noise: bool  # whether the covariance is proportional to beta

    @abstractmethod
    def observe(self, moments: Moments, gap: Gap, carried: Carried, beta: float) -> Observation:
        """The residuals of a gap whose individuals were carried with the noise `beta`."""


def _averages(moments: Moments, gap: Gap, carried: Carried) -> tuple[np.ndarray, ...]:
    """Residual and design of averages, and the tests and their slopes at carried individuals."""
    tests, wide = moments.tests, moments.tests.count
    slopes = [tests.slopes(y) for y in carried.x]
    values = 0.5 * (tests.values(carried.x[0]) + tests.values(carried.x[1]))
    shares = 0.5 * gap.here.weights[:, None, None]
    design = sum(
        (slope * shares).reshape(-1, wide).T @ tangent.reshape(-1, tangent.shape[2])
        for slope, tangent in zip(slopes, carried.tangent, strict=True)
    )
    residual = gap.there.weights @ moments.seen(gap.there) - gap.here.weights @ values
    return residual, np.asarray(design), values, 0.5 * (slopes[0] + slopes[1])


class SameIndividuals(Noise):
    r"""The same individuals at both ends of a gap: averages fluctuate by their diffusion alone.

    $$\mathrm{Cov} = 2\beta\,\tfrac1n\int\langle J\nabla\eta\cdot J\nabla\eta'\rangle\,dt,$$

    where J carries gradients to the end of the gap.
    """

    beta_is_noise = True

    def observe(self, moments: Moments, gap: Gap, carried: Carried, beta: float) -> Observation:
        residual, design, _, slopes = _averages(moments, gap, carried)
        roots = np.linalg.cholesky(carried.spread).transpose(0, 2, 1)
        moved = (roots @ slopes) * gap.here.weights[:, None, None]
        moved = moved.reshape(-1, slopes.shape[2])
        return Observation(residual, design, beta * moved.T @ moved)


class OtherIndividuals(Noise):
    r"""Other individuals at every time: averages fluctuate as those of random draws.

    $$\mathrm{Cov} = \tfrac1n(\mathrm{Cov}_k + \mathrm{Cov}_{k+1}),$$

    and neighbouring gaps share the draws of the snapshot between them.
    """

    beta_is_noise = False

    def observe(self, moments: Moments, gap: Gap, carried: Carried, beta: float) -> Observation:
        residual, design, values, _ = _averages(moments, gap, carried)
        here, there = gap.here, gap.there
        after = moments.seen(there)
        covariance = here.covariance(values, values) + there.covariance(after, after)
        before = -here.covariance(values, moments.seen(here)) if gap.follows else None
        return Observation(residual, design, covariance, before)


class FollowedIndividuals(Noise):
    """Individuals known by their ids: every one of them is a residual of its own."""

    beta_is_noise = True

    def observe(self, moments: Moments, gap: Gap, carried: Carried, beta: float) -> Observation:
        _, i, j = np.intersect1d(gap.here.ids, gap.there.ids, return_indices=True)  # pyright: ignore
        roots = np.linalg.cholesky(beta * carried.spread[i])
        residual = gap.there.x[j] - 0.5 * (carried.x[0, i] + carried.x[1, i])
        design = 0.5 * (carried.tangent[0, i] + carried.tangent[1, i])
        # Individuals are independent, so that they are whitened one by one and not as a matrix.
        residual = np.linalg.solve(roots, residual[:, :, None])[:, :, 0].ravel()
        design = np.linalg.solve(roots, design).reshape(len(residual), -1)
        return Observation(residual, design, 2.0 * np.log(np.diagonal(roots, 0, 1, 2)).sum())


class Whitened:
    """Observations of all gaps as independent rows of unit variance, gap after gap.

    Arguments:
        observed: the observations.
    """

    def __init__(self, observed: list[Observation]):
        self.steps: list[tuple[Whitening | None, np.ndarray | None]] = []
        self.log_volume, last = 0.0, None
        matrices = [o.covariance for o in observed if np.ndim(o.covariance) == 2]
        # The usual size of each average over all gaps: one that nearly vanishes in some gap, as a
        # bump where nobody is, is left out there.
        sizes = np.sqrt(np.mean([np.diag(m) for m in matrices], axis=0) + 1e-300) if matrices else 0
        for o in observed:
            if np.ndim(o.covariance) != 2:
                self.steps.append((None, None))
                self.log_volume += float(o.covariance)
                continue
            covariance, carry_over = o.covariance, None
            if o.before is not None and last is not None:
                cross = (o.before[:, last.chosen] / last.sizes).T
                carry_over = solve_triangular(last.root, cross, lower=True).T
                covariance = covariance - carry_over @ carry_over.T
            last = Whitening.of(covariance, np.asarray(sizes))
            self.steps.append((last, carry_over))
            self.log_volume += last.log_volume

    def __call__(self, values: list[np.ndarray]) -> list[np.ndarray]:
        """Residuals or designs of all gaps, one array of rows for each."""
        out: list[np.ndarray] = []
        for (white, carry_over), value in zip(self.steps, values, strict=True):
            if carry_over is not None:
                value = value - carry_over @ out[-1]
            out.append(value if white is None else white(value))
        return out
