r"""Gaps that are too long for a start from nothing: the last snapshot taken for an equilibrium.

$V/\beta = -\log\rho$ is then told by the individuals of that snapshot, and beta, the rate at which
they get there, only from below.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit

from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block
from stitchflow._weak_form.drift_parts import Landscape
from stitchflow._weak_form.estimate import Estimate
from stitchflow._weak_form.evidence import Equations, Posterior, solve
from stitchflow._weak_form.moments import Moments, Window
from stitchflow._weak_form.noise import OtherIndividuals, observe_resolved
from stitchflow._weak_form.whitening import Whitened


def potential_at_rest(landscape: Landscape, found: list[Window], blocks: list[Block]) -> Posterior:
    """V / beta for which the last window is at equilibrium.

    Individuals are told from uniform points by logistic regression, whose logit is the logarithm of
    the ratio of the two densities; the strengths of its prior are chosen by evidence. Where uniform
    points are but no individuals, V is high, which the score of a density would not tell.

    Arguments:
        landscape: the functions of V, which does not vary in time.
        found: all windows; uniform points fill the box of their individuals.
        blocks: the prior of V.
    """
    last, everybody = found[-1], np.concatenate([w.x for w in found])
    (n, d), f = last.x.shape, landscape.count
    low, high = everybody.min(axis=0), everybody.max(axis=0)
    uniform = np.random.default_rng(0).uniform(low, high, (constants.UNIFORM * n, d))
    values = landscape.bumps.values(np.concatenate([last.x, uniform]))
    rows = np.column_stack([-values, np.ones(len(values)), np.zeros(len(values))])
    seen = np.repeat([1.0, 0.0], [n, len(uniform)])
    counts = np.append(last.weights * n, np.ones(len(uniform)))
    own = [replace(b, factor=np.pad(b.factor, ((0, 1), (0, 0)))) for b in blocks]
    own.append(Block("constant", np.eye(f + 1)[:, f:], flat=True))
    logit, posterior = np.zeros(len(rows)), None
    for _ in range(constants.REST_ROUNDS):  # least squares with weights of the round before
        share = expit(np.clip(logit, -constants.MOST_LOGIT, constants.MOST_LOGIT))
        steep = share * (1.0 - share)
        root, target = np.sqrt(counts * steep), logit + (seen - share) / steep
        equations, nothing = Equations(f + 1), np.zeros(len(rows))
        equations.add(root[:, None] * rows, root * target, nothing, nothing + 1.0)
        before = None if posterior is None else posterior.precisions
        posterior = solve(equations, own, False, before)
        logit = rows[:, :-1] @ posterior.mean
    assert posterior is not None
    return replace(
        posterior,
        mean=posterior.mean[:f],
        root=posterior.root[:f],
        precisions=posterior.precisions[:-1],
    )


def relaxing(
    moments: Moments, rest: Posterior, beta: float, learn: bool, span: tuple[int, float]
) -> Estimate | None:
    """The estimate with the least noise that brings all windows to the equilibrium in time.

    More noise brings them there as well, so that beta is known to orders of magnitude only.

    Arguments:
        moments: the data.
        rest: V / beta.
        beta: around which noises are tried, or what it is.
        learn: whether beta is free.
        span: which prior V has.
    """
    tried = []
    for factor in constants.REST_BETAS if learn else (1.0,):
        found = scaled(rest, beta * factor, learn)
        observed = observe_resolved(moments, OtherIndividuals(), found.mean, beta * factor)
        if observed is None:
            continue
        white = Whitened(observed)
        residual = np.concatenate(white([o.residual for o in observed]))
        size, f = float(residual @ residual), len(rest.mean)
        now = replace(found, evidence=-0.5 * (size + white.log_volume))
        misfit, none = size / max(len(residual), 1), np.zeros((f + 1, 0))
        tried.append(
            Estimate(
                now.mean,
                beta * factor,
                now,
                span,
                converged=True,
                misfit=misfit,
                rows=len(residual),
                others=(1.0, none),
                relaxed=True,
            )
        )
    most = max((e.evidence for e in tried), default=0.0)
    return next((e for e in tried if e.evidence >= most - constants.NATS), None)


def scaled(rest: Posterior, beta: float, learn: bool) -> Posterior:
    """What V / beta tells of V: nothing of log beta, unless that is known.

    Arguments:
        rest: V / beta.
        beta: the noise.
        learn: whether beta is free; V then has the error of their common factor as well.
    """
    c = beta * rest.mean
    last = np.append(c, 1.0) * constants.UNKNOWN_FACTOR * float(learn)
    root = np.concatenate([beta * rest.root, np.zeros((1, rest.root.shape[1]))])
    return replace(rest, mean=c, step=0.0, root=np.column_stack([root, last]), known=0.0)
