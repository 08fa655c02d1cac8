"""What the data themselves tell about an energy, apart from the priors that a fit has chosen.

A prior whose strength the evidence chose can hide what is unknown: where V alone explains the data,
W is set to zero and its standard error with it. Here W and K may therefore be as strong as all that
moves individuals, over any range, and only their smoothness is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block, Bumps
from stitchflow._weak_form.carry import Drift
from stitchflow._weak_form.choices import shortest
from stitchflow._weak_form.estimate import Estimate
from stitchflow._weak_form.evidence import Equations
from stitchflow._weak_form.moments import Moments, Window
from stitchflow._weak_form.neighbours import Geometry
from stitchflow._weak_form.noise import (
    FollowedIndividuals,
    Noise,
    OtherIndividuals,
    SameIndividuals,
    observe_all,
)
from stitchflow._weak_form.pair_push import PairPush
from stitchflow._weak_form.problem import Problem
from stitchflow._weak_form.solve import prefers_same
from stitchflow._weak_form.uncertainty import Uncertainty
from stitchflow._weak_form.whitening import Whitened

LOOKED_AT, MOST_PAIRS = 12, 20_000  # windows over which forces are averaged, and pairs in each
# The prior standard deviation of W and K over any range, in sizes of all that moves individuals: a
# term that the data say nothing about is then unknown to more than its size.
WIDE = 3.0


@dataclass(frozen=True)
class Information:
    """How sharply the data see every change of the coefficients and of log beta.

    Arguments:
        known: the functions, the estimate, and its standard errors.
        matrix: the Fisher information of the data alone, (f + 1, f + 1).
        push: the mean products of what each function does to an individual, (f, f).
        pairs: the mean products of W' and K between two individuals, (f, f).
        root: a factor of the covariance where W and K may have any range and strength.
    """

    known: Uncertainty
    matrix: np.ndarray
    push: np.ndarray
    pairs: np.ndarray
    root: np.ndarray

    @staticmethod
    def of(problem: Problem, known: Uncertainty, factor: float = 1.0) -> Information:
        """The information of the data of a problem; in many dimensions of the leading directions.

        Arguments:
            problem: the data, functions and priors.
            known: the estimate.
            factor: how many individuals there were for one that is looked at.
        """
        known = problem.leading(known)
        beta = 0.0 if known.log_beta is None else float(np.exp(known.log_beta))
        learn = problem.learns_beta
        if problem.action is not None:
            left = problem.action.left(known.c, beta)
            equations, size_tells = problem.action.equations(beta, left), False
        else:
            moments, noise = seen_by(problem, known.c, beta)
            equations = equations_at(moments, noise, known.c, beta)
            size_tells = noise.beta_is_noise
        span, each = shortest(equations, problem.priors, learn, {}, False)
        posterior = each[span]
        matrix = equations.squares.copy()
        if not learn:
            matrix[-1], matrix[:, -1] = 0.0, 0.0
        elif size_tells:  # the size of the residuals tells beta as well
            told = float(((posterior.root[:-1, :-1].T @ matrix[:-1, -1]) ** 2).sum())
            more = posterior.root[-1, -1] ** -2 - constants.BETA_PRECISION
            matrix[-1, -1] = max(matrix[-1, -1], float(more) + told)
        push, pairs = products(problem, known.c)
        found = Information(known, factor * matrix, push, pairs, np.zeros((0, 0)))
        return replace(found, root=found._root(problem.priors[span], posterior.precisions, learn))

    @property
    def size(self) -> float:
        """The root mean square of what V, W and K together do to an individual."""
        return self.effect(self.known.c)

    def effect(self, change: np.ndarray) -> float:
        """The root mean square of what a change of the coefficients does to an individual."""
        own = change[: len(self.push)]
        return float(np.sqrt(max(own @ self.push @ own, 0.0)))

    def error(self, direction: np.ndarray) -> float:
        """How far one can go in a direction (f + 1,) before the data tell: a standard error."""
        return float((direction @ self.matrix @ direction + 1e-300) ** -0.5)

    def bowl(self) -> np.ndarray | None:
        """V + |x|^2 with W - r^2 as coefficients (f + 1,); None without V or W.

        W is made to vanish at the last knot, which changes it by a constant.
        """
        found, landscape = self.known.pair_part("interaction"), self.known.drift.landscape
        if found is None or landscape is None:
            return None
        (splines, part), bumps = found, landscape.bumps
        change = np.zeros(len(self.known.c) + 1)
        i, j = np.triu_indices(bumps.dim)
        change[bumps.dim + np.flatnonzero(i == j)] = 1.0
        r = np.linspace(0.0, splines.reach, 8 * splines.count)
        change[part] = np.linalg.lstsq(splines.rows(r), splines.reach**2 - r**2)[0]
        return change

    def common_factor(self) -> np.ndarray | None:
        """V, W, K and beta by one factor, as coefficients (f + 1,); None where beta is known."""
        learned = self.known.log_beta is not None and bool(self.matrix[-1, -1] > 0.0)
        return np.append(self.known.c, 1.0) if learned else None

    def _root(self, blocks: list[Block], precisions: np.ndarray, learn: bool) -> np.ndarray:
        """A factor of the covariance under the prior of the fit and `_any_range` together."""
        f = len(self.known.c)
        parts = [b.factor / np.sqrt(p) for b, p in zip(blocks, precisions, strict=True)]
        wide = np.concatenate([*parts, self._any_range()], axis=1)
        factor = np.zeros((f + 1, wide.shape[1] + 1))
        factor[:f, :-1], factor[f, -1] = wide, constants.BETA_PRECISION**-0.5 if learn else 0.0
        squares = factor.T @ self.matrix @ factor
        whole = cholesky(squares + np.eye(len(squares)), lower=True)
        return solve_triangular(whole, factor.T, lower=True).T

    def _any_range(self) -> np.ndarray:
        """Smooth W and K over several ranges, and the bowl, as strong as all that moves."""
        shapes, bowl = [], self.bowl()
        for push, part in self.known.drift.only(PairPush):
            for span in (*constants.RANGES, push.splines.reach):
                shape = np.zeros(len(self.known.c))
                shape[part] = np.exp(-0.5 * (push.splines.knots / span) ** 2)
                shapes.append(shape / max(self.effect(shape), 1e-300))
        if bowl is not None:  # V and W cancel, so that the bowl alone is measured
            own = np.where(np.arange(len(bowl) - 1) < self.known.potential_count, bowl[:-1], 0.0)
            shapes.append(bowl[:-1] / max(self.effect(own), 1e-300))
        none = np.zeros((len(self.known.c), 0))
        return WIDE * self.size * np.stack(shapes, axis=1) if shapes else none


def seen_by(problem: Problem, c: np.ndarray, beta: float) -> tuple[Moments, Noise]:
    """The averages that the fit compared, and how they fluctuate."""
    whole = problem.moments(problem.tests)
    if problem.followed:
        return whole, FollowedIndividuals()
    none = Bumps(problem.tests.centres[:0], problem.tests.widths[:0])
    now = Estimate(c, beta, misfit=1.0)
    if whole.plainly_same or prefers_same(problem.moments(none), now, now):
        return problem.moments(problem.wide_tests(beta)), SameIndividuals()
    return problem.moments(problem.drawn_tests(beta)), OtherIndividuals()


def equations_at(moments: Moments, noise: Noise, c: np.ndarray, beta: float) -> Equations:
    """The rows of a round of the solver at an estimate."""
    for _ in moments.carried(c, beta):  # finds how many steps each gap needs
        pass
    observed = observe_all(moments, noise, c, beta) or []
    white = Whitened(observed)
    residuals = white([o.residual for o in observed])
    equations = Equations(moments.drift.count)
    for k, a in enumerate(white([o.design for o in observed])):
        shares = white.shares[k] * float(noise.beta_is_noise)
        equations.add(a, residuals[k] + a[:, :-1] @ c, shares, white.sizes[k])
    equations.log_volume = white.log_volume
    return equations


def products(problem: Problem, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean products of the forces of all functions, on individuals and between pairs."""
    drift, f = problem.drift, problem.drift.count
    push, pairs = np.zeros((f, f)), np.zeros((f, f))
    chosen = np.unique(np.linspace(0, len(problem.found) - 1, LOOKED_AT).round().astype(int))
    for k in chosen:
        w = problem.found[k]
        pushes = drift.bend(w.x[None], w.time, c, w.near)[2][0]
        features = drift.features(w.x, w.time, pushes)
        flat = (features * np.sqrt(w.weights)[:, None, None]).reshape(-1, f)
        push += flat.T @ flat / len(chosen)
        pairs += _between(drift, w) / len(chosen)
    return push, pairs


def _between(drift: Drift, window: Window) -> np.ndarray:
    """Mean products of W' or K of the pair terms over the pairs of a window, (f, f)."""
    products = np.zeros((drift.count, drift.count))
    if window.near is None:
        return products
    r = Geometry.at(window.near, window.x).r
    r = r[np.random.default_rng(0).permutation(len(r))[:MOST_PAIRS]]
    for push, part in drift.only(PairPush):
        rows = push.splines.rows(r, slopes=push.kind == "interaction")
        products[part, part] = rows.T @ rows / len(r)
    return products
