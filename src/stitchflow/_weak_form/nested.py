"""Models of one data set that differ by terms, compared on the same equations.

One estimate carries the individuals. To first order around it, averages are linear in the
coefficients of every term, so that each model with some of the terms is a linear problem on the
same rows, and rows that are left out of it can be predicted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._status import BadInput
from stitchflow._types import KeyLike, as_rng
from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Bumps
from stitchflow._weak_form.basis import Basis
from stitchflow._weak_form.candidates import Candidate, Term, candidates, shapes
from stitchflow._weak_form.drift_parts import Drift, Landscape
from stitchflow._weak_form.estimate import Estimate
from stitchflow._weak_form.evidence import Equations, Posterior, solve
from stitchflow._weak_form.growing import Growing
from stitchflow._weak_form.information import products
from stitchflow._weak_form.moments import Moments
from stitchflow._weak_form.noise import (
    FollowedIndividuals,
    Noise,
    OtherIndividuals,
    SameIndividuals,
    observe_resolved,
)
from stitchflow._weak_form.problem import Problem
from stitchflow._weak_form.search import Search
from stitchflow._weak_form.whitening import Whitened


class Kind(StrEnum):
    """Who is seen at the times, as the estimate of a problem tells."""

    FOLLOWED = "individuals are followed"
    SAME = "the same individuals were seen again"
    OTHER = "other individuals were seen at each time"


NOISES: dict[Kind, type[Noise]] = {
    Kind.FOLLOWED: FollowedIndividuals,
    Kind.SAME: SameIndividuals,
    Kind.OTHER: OtherIndividuals,
}


@dataclass(frozen=True)
class Rows:
    """Equations of unit variance that are held out together.

    Arguments:
        design: the share of every coefficient in each row, (r, f).
        target: what was seen, (r,).
    """

    design: np.ndarray
    target: np.ndarray


@dataclass(frozen=True)
class Solution:
    """A model with some terms, solved on some of the rows.

    Arguments:
        chosen: the way in which each of its terms enters.
        posterior: the coefficients.
    """

    chosen: tuple[Candidate, ...]
    posterior: Posterior

    @property
    def worth(self) -> float:
        """The evidence, less what further blocks have to be worth."""
        return self.posterior.evidence - constants.NATS * sum(c.level for c in self.chosen)


@dataclass(frozen=True)
class Nested:
    """Equations that are linear in the coefficients of all terms, V and beta among them.

    Arguments:
        drift: the functions of all terms; the coefficient of beta stands after theirs.
        folds: the rows, those that are held out together in one entry.
        terms: the ways in which each term may enter.
        push: the mean products of what each function does to an individual, (f, f).
        size: the root mean square of all forces at the estimate.
        kind: who is seen at the times.
        errors: what errors of the design are expected to add to the sum of its squares, (f, f).
        misfit: the mean square of the residuals with all terms, for each number that is not
            determined.
    """

    drift: Drift
    folds: tuple[Rows, ...]
    terms: dict[Term, tuple[Candidate, ...]]
    push: np.ndarray
    size: float
    kind: Kind
    errors: np.ndarray
    misfit: float = 1.0

    @staticmethod
    def of(carrying: Energy, asked: Energy, data: Snapshots, folds: int, key: KeyLike) -> Nested:
        """The equations of some terms around the estimate of fewer.

        Arguments:
            carrying: the terms that carry individuals.
            asked: these and those that are asked for.
            data: the snapshots.
            folds: the number of parts that are held out in turn, where there are as many.
            key: chooses what is held out together.
        """
        basis = Basis(bumps=constants.COMPARED_BUMPS)
        # The equations of whole populations are not those of averages that all terms share.
        energies = carrying, asked
        small, whole = (Problem.of(energy, basis, data, wholes=False) for energy in energies)
        estimate, words, _ = Search(small).estimate()
        failed = estimate.posterior is None or not np.isfinite(estimate.c).all()
        if failed or not estimate.misfit < constants.UNEXPLAINED:
            raise BadInput("the weak form has no estimate that explains these data")
        estimate = replace(estimate, c=_placed(estimate.c, small.drift, whole.drift))
        kind = Kind.OTHER if estimate.relaxed else Kind(words)
        return _around(whole, estimate, kind, basis, folds, key).tempered()

    def tempered(self) -> Nested:
        """The same, where what no term explains counts as noise."""
        whole = self.solve(self.terms, self.equations())
        left = np.concatenate([self.residuals(whole, k) for k in range(len(self.folds))])
        misfit = float(left @ left) / max(len(left) - whole.posterior.known, 1.0)
        heat = np.sqrt(max(misfit, 1.0))
        folds = tuple(Rows(rows.design / heat, rows.target / heat) for rows in self.folds)
        return replace(self, folds=folds, misfit=misfit, errors=self.errors / heat**2)

    def equations(self, left_out: int | None = None) -> Equations:
        """The sums over all rows but those of one fold."""
        total = Equations(self.folds[0].design.shape[1])
        for k, rows in enumerate(self.folds):
            if k != left_out:
                none = np.zeros(len(rows.target))
                total.add(np.column_stack([rows.design, none]), rows.target, none, none)
        return total

    def solve(self, terms: Iterable[Term], equations: Equations) -> Solution:
        """A model with some terms; each enters in the way that has most evidence."""
        best, chosen = None, ()
        for term in terms:
            tried = [self._solved((*chosen, way), equations) for way in self.terms[term]]
            best = max(tried, key=lambda solution: solution.worth)
            chosen = best.chosen
        assert best is not None
        return best

    def _solved(self, chosen: tuple[Candidate, ...], equations: Equations) -> Solution:
        blocks = [block for way in chosen for block in way.blocks]
        return Solution(chosen, solve(equations, blocks, False))

    def residuals(self, solution: Solution, fold: int) -> np.ndarray:
        """What a solution leaves of the rows of a fold."""
        rows = self.folds[fold]
        return rows.target - rows.design @ solution.posterior.mean

    def told(self, solution: Solution, fold: int) -> np.ndarray:
        """The share of each row's expected square that is noise and not the solution's error."""
        spread = self.folds[fold].design @ solution.posterior.root[:-1]
        return 1.0 / (1.0 + (spread**2).sum(axis=1))

    def share(self, term: Term, c: np.ndarray) -> float:
        """What coefficients `c` (f,) do to individuals, as a share of all forces.

        Of growth it is the root mean square of the rate times the whole time, and of the entropy
        the share of the estimated beta.
        """
        if term is Term.ENTROPY:
            return abs(float(c[-1]))
        rates = np.zeros(len(c), bool)
        for _, own in self.drift.only(Growing):
            rates[own] = True
        own = np.where(rates == (term is Term.GROWTH), c, 0.0)
        amount = float(np.sqrt(max(own @ self.push @ own, 0.0)))
        return amount if term is Term.GROWTH else amount / max(self.size, 1e-300)

    def missed(self, term: Term, model: Solution, equations: Equations) -> float:
        """The largest standard error of the typical shapes of a term, as a `share`.

        Arguments:
            term: the term.
            model: the terms that are free to take its place.
            equations: all rows.
        """
        found = [
            self.share(term, shape) * self._error(shape, model, equations)
            for shape in shapes(self.drift, term)
        ]
        return max(found, default=np.inf)

    def _error(self, shape: np.ndarray, model: Solution, equations: Equations) -> float:
        """The standard error of the amount of a shape (f,) where all of a model is free.

        Who happens to be drawn makes a design of chance, which tells nothing.
        """
        blocks = [block for way in model.chosen for block in way.blocks]
        factor = np.concatenate([block.factor for block in blocks], axis=1)
        sizes = [block.factor.shape[1] for block in blocks]
        squares = equations.squares[:-1, :-1]
        whole = factor.T @ squares @ factor + np.diag(np.repeat(model.posterior.precisions, sizes))
        whole += constants.ROUNDING * np.diag(np.diag(whole))
        shared = factor.T @ (squares @ shape)
        told = shape @ squares @ shape - shared @ cho_solve(cho_factor(whole), shared)
        chance = float(shape @ self.errors @ shape)
        told = told - chance if told > constants.CHANCE * chance else 0.0
        return float(max(told, 1e-300) ** -0.5)


def _placed(c: np.ndarray, few: Drift, many: Drift) -> np.ndarray:
    """The coefficients of a drift among those of one with more parts."""
    found = np.zeros(many.count)
    for part, own in few.each():
        found[next(at for other, at in many.each() if type(other) is type(part))] = c[own]
    return found


def _around(
    problem: Problem, estimate: Estimate, kind: Kind, basis: Basis, folds: int, key: KeyLike
) -> Nested:
    """All terms to first order around an estimate of some of them."""
    slow = problem.tests.wider(constants.DEVIATION_FINEST)
    waves = Landscape(slow, basis.powers_in(len(problem.found)))
    everyone = np.concatenate([w.x for w in problem.found])
    # Who divides or dies is not seen again.
    growth = Growing.of(problem.tests, problem.points, everyone) if kind is Kind.OTHER else None
    drift = Drift((*problem.drift.parts, waves), growth)
    c = np.concatenate([estimate.c, np.zeros(drift.count - len(estimate.c))])
    problem = replace(problem, drift=drift)
    moments = problem.moments(_tests(problem, estimate, kind))
    observed = observe_resolved(moments, NOISES[kind](), c, estimate.beta)
    if observed is None:
        raise BadInput("the weak form's estimate carries individuals to infinity")
    white = Whitened(observed)
    residuals, designs = white([o.residual for o in observed]), white([o.design for o in observed])
    design = np.concatenate(designs)
    target = np.concatenate(residuals) + design @ np.append(c, 1.0)
    own = np.concatenate(_folds(moments, kind, residuals, folds, key))
    if len(np.unique(own)) < 2:
        raise BadInput("the individuals are too few for more than one gap between times")
    push = np.zeros((drift.count + 1, drift.count + 1))
    push[:-1, :-1] = products(problem, c)[0]
    size = float(np.sqrt(max(c @ push[:-1, :-1] @ c, 0.0)))
    for part, at in drift.only(Growing):
        rates = part.values(everyone)
        push[at, at] = rates.T @ rates / len(rates)
    held = tuple(Rows(design[own == k], target[own == k]) for k in np.unique(own))
    terms = candidates(drift, basis.pair_widths, basis.ranges)
    blocks = white.inverse_blocks(len(observed[0].residual)) if observed[0].shared else []
    errors = np.zeros_like(push)
    for o, (inverse, _) in zip(observed, blocks, strict=bool(blocks)):
        errors += sum(each.of_design(inverse) for each in o.shared)
    return Nested(drift, held, terms, push, size, kind, errors)


def _tests(problem: Problem, estimate: Estimate, kind: Kind) -> Bumps:
    """The test functions that suit the noise."""
    if kind is Kind.OTHER:
        return problem.drawn_tests(estimate.beta)
    if kind is Kind.FOLLOWED or problem.moments(problem.tests).plainly_same:
        return problem.tests
    return problem.wide_tests(estimate.beta)


def _folds(
    moments: Moments, kind: Kind, residuals: list[np.ndarray], folds: int, key: KeyLike
) -> list[np.ndarray]:
    """The fold of every row of each gap: that of a followed individual, else that of the gap."""
    rng = as_rng(key)
    if kind is not Kind.FOLLOWED:
        # Neighbouring gaps are in different folds, so that what is left out can be predicted.
        most = min(folds, len(residuals))
        order = rng.permutation(most)
        return [np.full(len(rows), order[k % most]) for k, rows in enumerate(residuals)]
    ids = [gap.here.ids for gap in moments.gaps if gap.here.ids is not None]
    names = np.unique(np.concatenate(ids))
    fold = rng.permutation(len(names)) % min(folds, len(names))
    found = []
    for gap in moments.gaps:
        assert gap.here.ids is not None
        assert gap.there.ids is not None
        shared = np.intersect1d(gap.here.ids, gap.there.ids)
        found.append(np.repeat(fold[np.searchsorted(names, shared)], gap.here.x.shape[1]))
    return found
