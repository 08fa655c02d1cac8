"""How far averages fluctuate: three noise models."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from stitchflow._weak_form import constants
from stitchflow._weak_form.carry import Carried
from stitchflow._weak_form.drift_parts import PairPart
from stitchflow._weak_form.moments import Gap, Moments
from stitchflow._weak_form.pair_push import Geometry
from stitchflow._weak_form.shared_errors import SharedErrors, at_ends
from stitchflow._weak_form.whitening import Observation


class Noise(ABC):
    """A noise model: which residuals of a gap are compared, and how they fluctuate."""

    beta_is_noise: bool  # whether the covariance is proportional to beta, but for unseen pushes
    shares_errors: bool = False  # whether residuals and design have errors in common

    @abstractmethod
    def observe(
        self, moments: Moments, gap: Gap, carried: Carried, c: np.ndarray, beta: float
    ) -> Observation:
        """The residuals of a gap whose individuals were carried by the estimate `c`, `beta`."""


def _averages(moments: Moments, gap: Gap, carried: Carried) -> tuple[np.ndarray, ...]:
    """Residual and design of averages, and the tests and their slopes at carried individuals."""
    values, slopes, apart = at_ends(moments, gap, carried)
    weights = gap.here.weights
    design = carried.design(slopes, weights, np.arange(len(weights)), apart)
    residual = gap.there.weights @ moments.seen(gap.there) - weights @ values
    return residual, design, values, slopes.mean(axis=0)


def unseen_pushes(
    moments: Moments, gap: Gap, slopes: np.ndarray, c: np.ndarray
) -> np.ndarray | None:
    """The covariance of averages because only a part of those who push was seen.

    A draw of n out of N who push has (1 - n / N) of the variance of independent draws.
    """
    here, drift = gap.here, moments.drift
    if here.near is None or here.unseen <= 0.0:
        return None
    place = Geometry.at(here.near, here.x)
    weighted = (slopes * here.weights[:, None, None]).reshape(-1, slopes.shape[2])
    done = sum(push.sources(place, c[own]) @ weighted for push, own in drift.only(PairPart))
    centred = gap.duration * (done - np.mean(done, axis=0))
    # Who is not seen now was not seen before either, so that gaps share this error.
    return lasting(gap) * here.unseen * centred.T @ centred


def lasting(gap: Gap) -> float:
    """The number of gaps over which unseen individuals push alike."""
    return max(constants.LASTING / gap.duration, 1.0)


class SameIndividuals(Noise):
    r"""The same individuals at both ends of a gap: averages fluctuate by their diffusion alone.

    $$\mathrm{Cov} = 2\beta\,\tfrac1n\int\langle J\nabla\eta\cdot J\nabla\eta'\rangle\,dt,$$

    where J carries gradients to the end of the gap.
    """

    beta_is_noise = True

    def observe(
        self, moments: Moments, gap: Gap, carried: Carried, c: np.ndarray, beta: float
    ) -> Observation:
        residual, design, _, slopes = _averages(moments, gap, carried)
        roots = np.linalg.cholesky(carried.spread).transpose(0, 2, 1)
        moved = (roots @ slopes) * gap.here.weights[:, None, None]
        moved = moved.reshape(-1, slopes.shape[2])
        own = beta * moved.T @ moved
        unseen = unseen_pushes(moments, gap, slopes, c)
        return Observation(residual, design, own, None, unseen, lasting(gap))


class OtherIndividuals(Noise):
    r"""Other individuals at every time: averages fluctuate as those of random draws.

    $$\mathrm{Cov} = \tfrac1n(\mathrm{Cov}_k + \mathrm{Cov}_{k+1}),$$

    and neighbouring gaps share the draws of the snapshot between them.
    """

    beta_is_noise = False
    shares_errors = True

    def observe(
        self, moments: Moments, gap: Gap, carried: Carried, c: np.ndarray, beta: float
    ) -> Observation:
        residual, design, values, slopes = _averages(moments, gap, carried)
        here, there = gap.here, gap.there
        after = moments.seen(there)
        # Those who were carried are draws of the same distribution as those who were seen. Some of
        # their covariance is added, because a place where nobody happened to be has none.
        copies = [moments.tests.values(y) for y in carried.x]
        rare = constants.RARE * 0.5 * here.effective / there.effective
        covariance = here.covariance(values, values) + there.covariance(after, after)
        covariance += rare * sum(here.covariance(copy, copy) for copy in copies)
        before = -here.covariance(values, moments.seen(here)) if gap.follows else None
        unseen = unseen_pushes(moments, gap, slopes, c)
        shared = SharedErrors(moments, gap, carried)
        return Observation(residual, design, covariance, before, unseen, lasting(gap), shared)


class FollowedIndividuals(Noise):
    """Individuals known by their ids: every one of them is a residual of its own."""

    beta_is_noise = True

    def observe(
        self, moments: Moments, gap: Gap, carried: Carried, c: np.ndarray, beta: float
    ) -> Observation:
        _, i, j = np.intersect1d(gap.here.ids, gap.there.ids, return_indices=True)  # pyright: ignore
        roots = np.linalg.cholesky(beta * carried.spread[i])
        residual = gap.there.x[j] - 0.5 * (carried.x[0, i] + carried.x[1, i])
        design = carried.tangents(i)
        # Individuals are independent, so that they are whitened one by one and not as a matrix.
        residual = np.linalg.solve(roots, residual[:, :, None])[:, :, 0].ravel()
        design = np.linalg.solve(roots, design).reshape(len(residual), -1)
        return Observation(residual, design, 2.0 * np.log(np.diagonal(roots, 0, 1, 2)).sum())


def observe_all(
    moments: Moments, noise: Noise, c: np.ndarray, beta: float
) -> list[Observation] | None:
    """The observations of all gaps at an estimate.

    None where individuals are carried to infinity, or all to one point.
    """
    found = []
    with np.errstate(all="ignore"):
        for gap, carried in moments.carried(c, beta):
            if not carried.finite:
                return None
            try:
                found.append(noise.observe(moments, gap, carried, c, beta))
            except np.linalg.LinAlgError:  # a steep estimate spreads individuals beyond rounding
                return None
    return found
