"""Gauss-Newton rounds: carry, compare, solve, until the estimate moves less than its error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block
from stitchflow._weak_form.choices import Priors, Stages, other_ranges, shortest
from stitchflow._weak_form.estimate import Estimate
from stitchflow._weak_form.evidence import Equations, Posterior, log_volume, solve
from stitchflow._weak_form.moments import Moments
from stitchflow._weak_form.noise import (
    Noise,
    OtherIndividuals,
    SameIndividuals,
    observe_all,
    observe_resolved,
)
from stitchflow._weak_form.whitening import Observation, Whitened


def gauss_newton(
    moments: Moments,
    noise: Noise,
    priors: Priors,
    start: Estimate,
    learn_beta: bool,
    most: int,
    tell: Callable[[Estimate], None] = lambda _: None,
    tempered: bool = False,
) -> Estimate:
    """The estimate under a noise model.

    A round carries the individuals, linearises, and solves for coefficients, strengths and beta. It
    is undone by halves where the squared residuals, measured as in the round before, have grown.
    Where residuals and design share errors, further rounds remove what these errors contribute.

    Arguments:
        moments: the data.
        noise: how residuals fluctuate.
        priors: the prior for every range of pair terms.
        start: where to start.
        learn_beta: whether beta is free.
        most: the largest number of rounds.
        tell: is given the estimate after every round.
        tempered: whether the model is taken for wrong by as much as residuals are too large; see
            `temperature`.
    """
    if start.c.any():  # an estimate that moves needs its steps; from nothing, they come with it
        observe_resolved(moments, noise, start.c, start.beta)
    found, white = _rounds(moments, noise, priors, start, learn_beta, most, tell, tempered=tempered)
    shares = noise.shares_errors or moments.hides
    if tempered or not shares or not found.misfit < constants.MISFIT:
        return found
    # The strengths are those of plain least squares, whose residuals have an evidence.
    assert found.posterior is not None
    kept = {found.span: priors[found.span]}
    few = most if noise.shares_errors else constants.FULL_ROUNDS
    better, _ = _rounds(moments, noise, kept, found, learn_beta, few, tell, white)
    found = better if better.misfit < constants.MISFIT else found
    if not (noise.shares_errors and learn_beta):
        return found
    return rescaled(moments, noise, found, priors[found.span], white)


def rescaled(
    moments: Moments, noise: Noise, found: Estimate, blocks: list[Block], white: Whitened | None
) -> Estimate:
    r"""The estimate without the pull of the prior on the common size of V and beta.

    Near equilibrium the data tell V / beta well and the common factor s of V and beta badly. The
    most probable coefficients are then too small: a prior that charges for their squares pulls s
    down. But the larger s is, the more coefficients explain the data as well, and by their volume
    $|H(s)|^{-1/2}$ the two balance. The share of the prior's pull that is taken back is

    $$-\tfrac12\,\partial_{\log s}\log|H| \,/\, u^\top A u,$$

    with $u^\top A u$ what the prior charges. It is one at rest, and zero where nothing depends on a
    common factor.

    Arguments:
        moments: the data.
        noise: how residuals fluctuate.
        found: the estimate.
        blocks: its prior.
        white: a whitening whose choice of averages is kept.
    """
    assert found.posterior is not None
    volumes = []
    for step in (constants.RAY_STEP, -constants.RAY_STEP):
        moved = replace(found, c=found.c * np.exp(step), beta=found.beta * np.exp(step))
        observed = observe_all(moments, noise, moved.c, moved.beta)
        if observed is None:
            return found
        own = Whitened(observed, white)
        equations = Equations(moments.drift.count)
        for a in own([o.design for o in observed]):
            nothing = np.zeros(len(a))
            equations.add(a, nothing, nothing, nothing)
        volumes.append(log_volume(equations, blocks, found.posterior.precisions))
    gain = (volumes[0] - volumes[1]) / (2.0 * constants.RAY_STEP)
    posterior = found.posterior
    share = float(np.clip(gain / max(posterior.cost, 1e-300), 0.0, 1.0))
    c, log_beta = posterior.pulled[:-1], float(posterior.pulled[-1])
    return replace(found, c=found.c + share * c, beta=found.beta * float(np.exp(share * log_beta)))


def _rounds(
    moments: Moments,
    noise: Noise,
    priors: Priors,
    start: Estimate,
    learn_beta: bool,
    most: int,
    tell: Callable[[Estimate], None],
    white: Whitened | None = None,
    tempered: bool = False,
) -> tuple[Estimate, Whitened | None]:
    """Rounds of least squares, and how residuals were whitened in the last of them.

    With a `white` of earlier rounds, its choice of averages and their strengths are kept and the
    equations are corrected for shared errors.
    """
    now, last, halves, corrected, others = start, None, 0, white is not None, start.others
    strengths: dict[tuple[int, float], np.ndarray] = {}
    stages = Stages(priors)
    if corrected and start.posterior is not None:
        strengths = {start.span: start.posterior.precisions}
    for count in range(start.rounds + 1, start.rounds + most * stages.number + 1):
        observed = observe_all(moments, noise, now.c, now.beta)
        # A correction for unseen individuals gives up some of what least squares has explained.
        larger = corrected and moments.hides
        if last is not None and not last.improved(observed, larger):
            halves += 1
            if halves > constants.MOST_HALVES:  # no part of the step helps: this is the best
                now = replace(now, c=last.c, beta=last.beta, converged=False)
                break
            middle = float(np.sqrt(now.beta * last.beta))
            now = replace(now, c=0.5 * (now.c + last.c), beta=middle, rounds=count)
            continue
        if observed is None:
            break
        halves = 0
        settled = corrected or count - start.rounds > constants.FREE_ROUNDS
        white = Whitened(observed, white if settled else None)
        residuals = white([o.residual for o in observed])
        designs = white([o.design for o in observed])
        size = sum(float(r @ r) for r in residuals)
        heat = temperature(residuals, now.posterior) if tempered else 1.0
        residuals, designs = ([a / np.sqrt(heat) for a in some] for some in (residuals, designs))
        equations = Equations(moments.drift.count)
        for k, (r, a) in enumerate(zip(residuals, designs, strict=True)):
            shares = white.shares[k] * float(noise.beta_is_noise)
            equations.add(a, r + a[:, :-1] @ now.c, shares, white.sizes[k])
        equations.log_volume = white.log_volume + equations.rows * np.log(heat)
        if moments.springs is not None:
            equations.add_about_beta(*moments.springs.about_beta(now.beta, noise.beta_is_noise))
        if corrected:
            equations.subtract(*shared_errors(observed, white), now.c)
        span, each = shortest(equations, stages.allowed, learn_beta, strengths, corrected)
        posterior = each[span]
        if not corrected:
            others = other_ranges(span, each)
        if settled and not corrected and span in strengths:
            # Linearisations of neighbouring rounds differ in which widths they ask for.
            middle = np.sqrt(posterior.precisions * strengths[span])
            posterior = solve(equations, priors[span], learn_beta, middle, fixed=True)
        strengths |= {key: p.precisions for key, p in each.items()}
        strengths[span] = posterior.precisions
        misfit, spare = size / max(equations.rows, 1), heat * posterior.known
        last = _Round(now.c, now.beta, white, size, misfit, spare)
        move = np.append(posterior.mean - now.c, posterior.step)
        moved = sum(float(((a[:, :-1] @ move[:-1]) ** 2).sum()) for a in designs)
        error = float(np.sqrt((posterior.root[-1] ** 2).sum()))
        still = moved < constants.STILL * max(posterior.known, 1.0)
        still = still and abs(posterior.step) <= np.sqrt(constants.STILL) * max(error, 1e-3)
        now = Estimate(
            posterior.mean,
            now.beta * float(np.exp(posterior.step)),
            posterior,
            span,
            count,
            still,
            misfit,
            equations.rows,
            noise.beta_is_noise,
            others,
            heat,
            move,
        )
        tell(now)
        if stages.ended(still, most):
            break
    if now.converged or last is None or white is None:
        return now, white
    # What the last round has led to was not looked at yet.
    misfit = misfit_at(moments, noise, now, white)
    if misfit is None:
        return replace(now, c=last.c, beta=last.beta), white
    return replace(now, misfit=misfit), white


def misfit_at(
    moments: Moments, noise: Noise, found: Estimate, white: Whitened | None = None
) -> float | None:
    """The mean square of the whitened residuals at an estimate; None where it has none.

    Arguments:
        moments: the data.
        noise: how residuals fluctuate.
        found: the estimate.
        white: a whitening whose choice of averages is kept.
    """
    observed = observe_resolved(moments, noise, found.c, found.beta)
    if observed is None:
        return None
    rows = np.concatenate(Whitened(observed, white)([o.residual for o in observed]))
    return float(rows @ rows) / max(len(rows), 1)


def temperature(residuals: list[np.ndarray], posterior: Posterior | None) -> float:
    """By how much the variance of averages is raised where the model does not explain them.

    Many individuals make averages so exact that what a model of few functions cannot explain is
    many times their noise. Evidence that knows of noise alone then fits all it can, the priors say
    nothing, and Gauss-Newton steps are wild. The raised variance is the mean square of the
    residuals for each number that is not determined; it is lowered as the fit gets better, and
    standard errors contain it.

    Arguments:
        residuals: of unit variance where the model holds.
        posterior: the solution of the round before; None at the start.
    """
    rows, known = sum(map(len, residuals)), 0.0 if posterior is None else posterior.known
    free = max(rows - known, constants.LEAST_FREE * rows, 1.0)
    return max(1.0, sum(float(r @ r) for r in residuals) / free)


def shared_errors(observed: list[Observation], white: Whitened) -> tuple[np.ndarray, np.ndarray]:
    """The expected products of errors: of design and residual (f + 1,), of the design with itself.

    Arguments:
        observed: the observations of all gaps.
        white: their whitening.
    """
    size = observed[0].design.shape[1]
    by_residual, by_design = np.zeros(size), np.zeros((size, size))
    blocks = white.inverse_blocks(len(observed[0].residual))
    for o, (inverse, cross) in zip(observed, blocks, strict=True):
        for errors in o.shared:
            by_residual += errors.of_residual(inverse, cross)
            by_design += errors.of_design(inverse)
    return by_residual, by_design


def prefers_same(moments: Moments, together: Estimate, apart: Estimate) -> bool:
    """Whether residuals are as small as if the same individuals had been seen again.

    The probability densities of the same averages are compared, each at its own estimate.

    Arguments:
        moments: the data.
        together: the estimate for the same individuals.
        apart: the estimate for other individuals.
    """
    same = observe_all(moments, SameIndividuals(), together.c, together.beta)
    if same is None or not together.misfit < constants.MISFIT:
        return False
    other = observe_all(moments, OtherIndividuals(), apart.c, apart.beta)
    if other is None:
        return True
    white = Whitened(same)
    gain = _log_density(same, white) - _log_density(other, Whitened(other, white))
    return gain > constants.NATS


def _log_density(observed: list[Observation], white: Whitened) -> float:
    """The logarithm of the probability density of the residuals that are whitened."""
    residuals = white([o.residual for o in observed])
    return -0.5 * (sum(float(r @ r) for r in residuals) + white.log_volume)


@dataclass(frozen=True)
class _Round:
    """What the next round is compared with: a whitening, and residuals in it."""

    c: np.ndarray
    beta: float
    white: Whitened
    size: float
    misfit: float
    known: float

    def improved(self, observed: list[Observation] | None, larger: bool) -> bool:
        """Whether residuals have not grown by more than the prior may cost them.

        Arguments:
            observed: the observations at the new estimate; None where it has no residuals.
            larger: whether they may grow.
        """
        if observed is None:
            return False
        residuals = [o.residual for o in observed]
        now = sum(float(r @ r) for r in self.white(residuals))
        if now > self.size * (1.0 + constants.SETTLED) + self.known and not larger:
            return False
        # The noise that the new estimate predicts must not make the residuals impossible either.
        own = Whitened(observed)(residuals)
        misfit = sum(float(r @ r) for r in own) / max(sum(map(len, own)), 1)
        return misfit <= max(2.0 * self.misfit, constants.MISFIT)
