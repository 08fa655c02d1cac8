"""Individuals that are followed: the most probable energy, by steps that never lose probability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block
from stitchflow._weak_form.choices import Priors, other_ranges, shortest
from stitchflow._weak_form.estimate import Estimate
from stitchflow._weak_form.evidence import Equations, Posterior
from stitchflow._weak_form.moments import Moments
from stitchflow._weak_form.noise import Noise, observe_all
from stitchflow._weak_form.whitening import Observation, Whitened


class Prior:
    """The blocks of a prior with their precisions, as a charge for coefficients.

    Arguments:
        blocks: the blocks.
        precisions: the precision of each.
    """

    def __init__(self, blocks: list[Block], precisions: np.ndarray):
        self.factor = np.concatenate([block.factor for block in blocks], axis=1)
        self.precisions = np.repeat(precisions, [block.factor.shape[1] for block in blocks])

    def whitened(self, c: np.ndarray) -> np.ndarray:
        """The independent numbers that coefficients are made of."""
        return np.linalg.lstsq(self.factor, c)[0]

    def cost(self, c: np.ndarray) -> float:
        """The sum of squares that the prior charges for coefficients."""
        return float(self.precisions @ self.whitened(c) ** 2)


@dataclass(frozen=True)
class Point:
    """An estimate and the residuals there.

    Arguments:
        c: the coefficients.
        beta: the noise.
        observed: the observations of all gaps at this estimate.
        steps: of the solver in each gap.
    """

    c: np.ndarray
    beta: float
    observed: list[Observation]
    steps: list[int]

    @staticmethod
    def at(moments: Moments, noise: Noise, c: np.ndarray, beta: float) -> Point | None:
        """The residuals at an estimate; None where somebody is carried to infinity."""
        observed = observe_all(moments, noise, c, beta)
        return None if observed is None else Point(c, beta, observed, list(moments.steps))

    def log_density(self) -> float:
        """The logarithm of the probability density of what was seen."""
        white = Whitened(self.observed)
        residuals = white([o.residual for o in self.observed])
        return -0.5 * (sum(float(r @ r) for r in residuals) + white.log_volume)

    def equations(self, beta_is_noise: bool) -> tuple[Equations, float]:
        """The residuals as equations, and their mean square."""
        white = Whitened(self.observed)
        residuals = white([o.residual for o in self.observed])
        equations = Equations(len(self.c))
        designs = white([o.design for o in self.observed])
        for k, (r, a) in enumerate(zip(residuals, designs, strict=True)):
            shares = white.shares[k] * float(beta_is_noise)
            equations.add(a, r + a[:, :-1] @ self.c, shares, white.sizes[k])
        equations.log_volume = white.log_volume
        size = sum(float(r @ r) for r in residuals)
        return equations, size / max(equations.rows, 1)

    def with_shapes(self, posterior: Posterior) -> tuple[Equations, float]:
        r"""The same with how V and beta together decide how far noise spreads individuals.

        With $z$ the whitened residual of an individual and $G_f$ the relative change of its
        covariance with coefficient f, the likelihood has the score
        $\tfrac12\,\mathrm{tr}\,G_f(zz^\top - 1)$ and the information
        $\tfrac12\,\mathrm{tr}\,G_fG_g$: those of an equation for every entry of $zz^\top$. Beta
        changes the covariance by G = 1. In a gap of several relaxation times a V that is too flat
        looks like a beta that is too small, and without these equations beta seems to be known.

        Arguments:
            posterior: what is known without them: numbers that the data determine make residuals
                smaller than the noise.
        """
        equations, size = Equations(len(self.c)), 0.0
        for o in self.observed:
            assert o.shapes is not None
            shapes = o.shapes()
            n, d = shapes.shape[:2]
            z = o.residual.reshape(n, d)
            told = (o.design[:, :-1] @ posterior.root[:-1]).reshape(n, d, -1)
            left = np.eye(d) - told @ told.swapaxes(1, 2)
            rows, y = [o.design], [o.residual]
            for a, b in zip(*np.triu_indices(d), strict=True):
                scale = np.sqrt(0.5) if a == b else 1.0
                by_beta = np.full((n, 1), float(a == b))
                rows.append(scale * np.concatenate([shapes[:, a, b], by_beta], axis=1))
                y.append(scale * (z[:, a] * z[:, b] - left[:, a, b]))
            whole, seen = np.concatenate(rows), np.concatenate(y)
            nothing = np.zeros(len(seen))
            equations.add(whole, seen + whole[:, :-1] @ self.c, nothing, nothing + 1.0)
            size += float(o.residual @ o.residual)
        equations.log_volume = sum(float(o.covariance) for o in self.observed)
        equations.rows = sum(len(o.residual) for o in self.observed)
        return equations, size / max(equations.rows, 1)


def climb(
    moments: Moments,
    noise: Noise,
    priors: Priors,
    start: Estimate,
    learn_beta: bool,
    tell: Callable[[Estimate], None] = lambda _: None,
    shaped: bool = False,
) -> Estimate | None:
    r"""The estimate at a maximum of the probability of the data times that of the coefficients.

    A round linearises, chooses the strengths of the prior by evidence, and goes towards the
    solution $u$ of the linear problem. Where gaps are long, what the linear problem does not see of
    V still decides where individuals go, and the prior would take it away in one step. So a step
    from $u_0$ is charged $\lambda\,(u - u_0)^\top A\,(u - u_0)$ as well, with the precisions A of
    the prior and the smallest $\lambda$ for which the probability grows (Levenberg and Marquardt).

    Arguments:
        moments: the data.
        noise: how residuals fluctuate; each has a probability density.
        priors: the prior for every range of pair terms.
        start: where to start.
        learn_beta: whether beta is free.
        tell: is given the estimate after every round.
        shaped: whether rounds know that V decides how far noise spreads individuals; else this is
            taken as given, which finds the way from any start.

    Returns:
        The estimate; None where individuals are carried to infinity from the start.
    """
    for _ in range(2):  # the second look resolves the steepness that the first one met
        point = Point.at(moments, noise, start.c, start.beta)
    if point is None:
        return None
    strengths: dict[tuple[int, float], np.ndarray] = {}
    now, damping = start, 0.0
    if start.posterior is not None:
        strengths[start.span] = start.posterior.precisions
    for count in range(start.rounds + 1, start.rounds + constants.FOLLOWED_ROUNDS + 1):
        if shaped and now.posterior is not None:
            equations, misfit = point.with_shapes(now.posterior)
        else:
            equations, misfit = point.equations(noise.beta_is_noise)
        span, each = shortest(equations, priors, learn_beta, strengths, False)
        posterior, others = each[span], other_ranges(span, each)
        if span in strengths:  # neighbouring rounds differ in which widths they ask for
            middle = np.sqrt(posterior.precisions * strengths[span])
            posterior = replace(posterior, precisions=middle)
        strengths = {**strengths, span: posterior.precisions}
        prior = Prior(priors[span], posterior.precisions)
        better, damping, gain = _better(
            moments, noise, point, equations, prior, posterior, damping, learn_beta
        )
        now = Estimate(
            point.c,
            point.beta,
            posterior,
            span,
            count,
            gain < constants.STILL,
            misfit,
            equations.rows,
            others=others,
            move=np.append(posterior.mean - point.c, posterior.step),
        )
        tell(now)
        if better is None or now.converged:
            break
        point = better
    return now


def _better(
    moments: Moments,
    noise: Noise,
    point: Point,
    equations: Equations,
    prior: Prior,
    posterior: Posterior,
    damping: float,
    learn_beta: bool,
) -> tuple[Point | None, float, float]:
    """A more probable point, the damping that led there, and the gain of the log probability."""
    value = _worth(point, prior, posterior)
    steps = point.steps
    while damping <= constants.MOST_DAMPING:
        c = _damped(equations, prior, point.c, posterior.step, damping)
        share = 1.0 / (1.0 + damping)
        beta = point.beta * float(np.exp(share * posterior.step)) if learn_beta else point.beta
        found = Point.at(moments, noise, c, beta)
        if found is not None and found.steps != steps:
            # Only probabilities that were found with the same steps can be compared.
            found = Point.at(moments, noise, c, beta)
            again = Point.at(moments, noise, point.c, point.beta)
            if again is not None:
                value, steps = _worth(again, prior, posterior), again.steps
        if found is not None:
            gain = _worth(found, prior, posterior) - value
            if gain > 0.0:
                lower = 0.0 if damping < 1.5 * constants.LEAST_DAMPING else damping / 4.0
                return found, lower, gain
        damping = max(4.0 * damping, constants.LEAST_DAMPING)
    return None, damping, 0.0


def _worth(point: Point, prior: Prior, posterior: Posterior) -> float:
    """The logarithm of the probability of what was seen, times that of the coefficients.

    Numbers that the data determine leave residuals that are smaller than the noise. They do not
    count as witnesses of beta, which would come out too small otherwise.
    """
    told = 0.5 * posterior.known * float(np.log(point.beta))
    return point.log_density() - 0.5 * prior.cost(point.c) + told


def _damped(
    equations: Equations, prior: Prior, c: np.ndarray, step: float, damping: float
) -> np.ndarray:
    """The solution of the linear problem that stays near coefficients `c`."""
    f, step = equations.count, step / (1.0 + damping)
    squares = prior.factor.T @ equations.squares[:f, :f] @ prior.factor
    products = prior.factor.T @ (equations.products[:f] - step * equations.squares[:f, f])
    hold = damping * prior.precisions
    whole = squares + np.diag(prior.precisions + hold + constants.ROUNDING * np.diag(squares))
    return prior.factor @ cho_solve(cho_factor(whole), products + hold * prior.whitened(c))
