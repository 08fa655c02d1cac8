"""The difference of two conditions from the data of a fit: coefficients, errors, evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._weak_form.bases import Block
from stitchflow._weak_form.basis import Basis
from stitchflow._weak_form.deviation import PREFIX, to_shared
from stitchflow._weak_form.estimate import Estimate
from stitchflow._weak_form.evidence import solve
from stitchflow._weak_form.information import equations_at, seen_by
from stitchflow._weak_form.method import WeakFlow, WeakForm
from stitchflow._weak_form.moments import Moments, windows
from stitchflow._weak_form.noise import Noise
from stitchflow._weak_form.problem import Problem
from stitchflow._weak_form.solve import gauss_newton
from stitchflow._weak_form.uncertainty import Uncertainty

# Rounds of an estimate that starts at that of the fit, and of one without a group, which moves
# little; parts into which the groups of a condition are dealt where there are more of them.
ROUNDS, FEWER_ROUNDS, MOST_PARTS = 4, 2, 8


@dataclass(frozen=True)
class Contrast:
    """What is known about the deviations of all conditions.

    Arguments:
        known: the estimate with deviations in use, whatever the fit chose, and the errors of a
            draw of individuals.
        without: for each condition, the coefficients without each of its groups or parts of them,
            (parts, f); empty where some condition has no replicates.
        free: a factor of the covariance where deviations may be as large as V itself, (f + 1, u),
            and not only as large as the evidence finds them: what the data alone could tell.
    """

    known: Uncertainty
    without: tuple[np.ndarray, ...]
    free: np.ndarray

    @property
    def freedom(self) -> int:
        """The degrees of freedom of the resampling of groups; zero without replicates."""
        return sum(len(each) - 1 for each in self.without)

    def of(self, a: str, b: str) -> tuple[Uncertainty, np.ndarray]:
        """V of `a` minus V of `b`, with errors by individuals, and a factor of those by groups.

        The factor (f', parts) has the covariance of a jackknife as its square.
        """
        shares = self.known.shares_of(a) - self.known.shares_of(b)
        change = to_shared(self.known.drift, shares, 0.0)
        columns = [
            (each - each.mean(axis=0)) * np.sqrt((len(each) - 1) / len(each))
            for each in self.without
        ]
        spread = np.concatenate([np.zeros((0, len(self.known.c))), *columns])
        return self.known.difference(a, b), change @ spread.T

    def unseen(self, a: str, b: str) -> Uncertainty:
        """The difference of `a` and `b` with the errors of what the data alone could tell."""
        return replace(self.known, root=self.free).difference(a, b)


def contrast(method: WeakForm, flow: WeakFlow) -> Contrast:
    """The deviations of a fit with errors by individuals and, with replicates, by groups.

    A group is left out by giving its individuals no weight, and the estimate is made again from
    where it was (a jackknife of groups within conditions).

    Arguments:
        method: the settings of the fit.
        flow: its flow, which has the data.
    """
    data, known = flow.data, flow.uncertainty
    problem = Problem.of(method.energy, method.basis or Basis(), data, method.growth is not None)
    used = {key: blocks for key, blocks in problem.priors.items() if key[0] > 0}
    beta = 0.0 if known.log_beta is None else float(np.exp(known.log_beta))
    moments, noise = seen_by(problem, known.c, beta)
    learn = noise.beta_is_noise if problem.entropy is None else problem.entropy.learn

    def again(some: Moments, now: Estimate, rounds: int) -> Estimate:
        return gauss_newton(some, noise, used, replace(now, rounds=0), learn, rounds)

    start = again(moments, Estimate(known.c, beta), ROUNDS)
    found = problem.uncertainty(start, known.units)
    free = _free(moments, noise, used[start.span], start, learn)
    parts = [_parts(data, name) for name in data.condition_names]
    if min(map(len, parts)) < 2:
        return Contrast(found, (), free)
    pairs = bool(method.energy.only(Interaction) or method.energy.only(VectorKernel))

    def without(part: np.ndarray) -> np.ndarray:
        fewer = replace(data, weights=np.where(part, 0.0, data.weights))
        some = replace(problem, found=windows(fewer, pairs)).moments(moments.tests)
        return again(some, start, FEWER_ROUNDS).c

    return Contrast(found, tuple(np.stack([without(p) for p in each]) for each in parts), free)


def _free(
    moments: Moments, noise: Noise, blocks: list[Block], found: Estimate, learn: bool
) -> np.ndarray:
    """A factor of the covariance where deviations have the strengths of V."""
    assert found.posterior is not None
    strengths, of_v = found.posterior.precisions.copy(), {}
    for block, strength in zip(blocks, strengths, strict=True):
        of_v[block.name] = strength
    widest = min((p for b, p in zip(blocks, strengths, strict=True) if not b.flat), default=1.0)
    for k, block in enumerate(blocks):
        if block.first:  # the powers of V are free, those of a deviation as large as its bumps
            alike = block.name.removeprefix(PREFIX)
            strengths[k] = max(of_v.get(alike, widest), widest)
    rows = equations_at(moments, noise, found.c, found.beta)
    return solve(rows, blocks, learn, strengths, fixed=True).root


def _parts(data: Snapshots, condition: str) -> list[np.ndarray]:
    """Masks of the groups of a condition, or of parts into which many of them are dealt."""
    assert data.conditions is not None
    own = np.array([str(name) == condition for name in data.conditions.tolist()])
    if data.groups is None:
        return [own]
    names, label = np.unique(data.groups, return_inverse=True)
    there = np.unique(label[own])
    part = np.zeros(len(names), int)
    part[there] = np.arange(len(there)) % MOST_PARTS
    return [own & (part[label] == k) for k in range(min(len(there), MOST_PARTS))]
