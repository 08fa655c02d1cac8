"""How far averages fluctuate: three noise models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from stitchflow._weak_form import constants
from stitchflow._weak_form.carry import Carried
from stitchflow._weak_form.moments import Gap, Moments
from stitchflow._weak_form.shared_errors import ErrorsOfDraws, ErrorsOfUnseen, at_ends
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


def _of_unseen(
    moments: Moments, gap: Gap, carried: Carried, c: np.ndarray
) -> tuple[ErrorsOfUnseen, ...]:
    """The errors of pair terms by individuals who were not seen; none where everybody was."""
    hides = gap.here.near is not None and gap.here.near.hides
    return (ErrorsOfUnseen(moments, gap, carried, c),) if hides else ()


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
        errors = _of_unseen(moments, gap, carried, c)
        roots = np.linalg.cholesky(carried.spread).transpose(0, 2, 1)
        moved = (roots @ slopes) * gap.here.weights[:, None, None]
        moved = moved.reshape(-1, slopes.shape[2])
        own = beta * moved.T @ moved
        unseen = errors[0].covariance if errors else None
        return Observation(residual, design, own, None, unseen, shared=errors)


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
        residual, design, values, _ = _averages(moments, gap, carried)
        here, there = gap.here, gap.there
        after = moments.seen(there)
        # Those who were carried are draws of the same distribution as those who were seen. Some of
        # their covariance is added, because a place where nobody happened to be has none.
        copies = [moments.tests.values(y) for y in carried.x]
        rare = constants.RARE * 0.5 * here.effective / there.effective
        covariance = here.covariance(values, values) + there.covariance(after, after)
        covariance += rare * sum(here.covariance(copy, copy) for copy in copies)
        before = -here.covariance(values, moments.seen(here)) if gap.follows else None
        errors = _of_unseen(moments, gap, carried, c)
        unseen = errors[0].covariance if errors else None
        shared = (ErrorsOfDraws(moments, gap, carried), *errors)
        return Observation(residual, design, covariance, before, unseen, shared=shared)


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
        volume = 2.0 * np.log(np.diagonal(roots, 0, 1, 2)).sum()

        def shapes() -> np.ndarray:
            inverse, by_c = np.linalg.inv(roots), beta * carried.spread_tangents(i)
            return np.einsum("nab,nbcf,ndc->nadf", inverse, by_c, inverse, optimize=True)

        return Observation(residual, design, volume, shapes=shapes)


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
    return _with_lasting(moments, found) if moments.hides and noise.beta_is_noise else found


def observe_resolved(
    moments: Moments, noise: Noise, c: np.ndarray, beta: float
) -> list[Observation] | None:
    """The same after a first look, which tells how many steps so steep an estimate needs."""
    observe_all(moments, noise, c, beta)
    return observe_all(moments, noise, c, beta)


def _with_lasting(moments: Moments, observed: list[Observation]) -> list[Observation]:
    r"""The same observations, where gaps share the error of those who are never seen.

    Who is not seen now was not seen before either. With $h_{jk}$ what individual j does to the
    averages of gap k, all gaps together have

    $$\sum_j \bigl|\sum_k h_{jk}\bigr|^2 \big/ \sum_{jk} |h_{jk}|^2$$

    times the variance of errors that are new in each gap. Those who were seen stand for the unseen;
    they are followed from place to place.
    """
    each = [[e for e in o.shared if isinstance(e, ErrorsOfUnseen)] for o in observed]
    if not all(each):
        return observed
    sums: dict[int | None, np.ndarray] = {}
    alone, usual = 0.0, np.sqrt(np.mean([np.diag(o.covariance) for o in observed], axis=0) + 1e-300)
    for (errors,), gap, rows in zip(each, moments.gaps, moments.followed, strict=True):
        done, own = errors.done[rows] / usual, gap.here.condition
        sums[own] = sums.get(own, np.zeros(done.shape)) + done
        alone += float((done**2).sum())
    together = sum(float((total**2).sum()) for total in sums.values())
    lasting = max(together / alone, 1.0) if alone > 0.0 else 1.0
    return [
        replace(o, unseen=None if o.unseen is None else lasting * o.unseen, lasting=lasting)
        for o in observed
    ]
