"""How an estimate is found: which noise model the data have, and where rounds start."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Bumps
from stitchflow._weak_form.climb import climb
from stitchflow._weak_form.equilibrium import potential_at_rest, relaxing
from stitchflow._weak_form.estimate import Estimate
from stitchflow._weak_form.moments import Moments, straight_lines
from stitchflow._weak_form.noise import (
    FollowedIndividuals,
    Noise,
    OtherIndividuals,
    SameIndividuals,
)
from stitchflow._weak_form.population_action import estimate as by_action
from stitchflow._weak_form.problem import Problem
from stitchflow._weak_form.solve import gauss_newton, misfit_at, prefers_same


@dataclass(frozen=True)
class Search:
    """The search for the estimate of a problem.

    Arguments:
        problem: the data and the functions.
        looks: the estimates of all rounds so far.
    """

    problem: Problem
    looks: list[Estimate] = field(default_factory=list)

    def estimate(self) -> tuple[Estimate, str, dict[str, np.ndarray]]:
        """The estimate, which noise model it has, and its history."""
        problem = self.problem
        if problem.action is not None:
            known = None if problem.learns_beta else problem.beta
            found = by_action(problem.action, problem.priors, known, self.looks.append)
            return found, "whole populations were seen again", _history(self.looks)
        moments = problem.moments(problem.tests)
        if problem.followed:
            found = self._followed(moments)
            return found, "individuals are followed", _history(self.looks)
        seen_again = "the same individuals were seen again"
        if moments.plainly_same and problem.drift.growth is None:
            found = self._solved(moments, SameIndividuals(), problem.nothing)
            return self._looked_at_widely(found, problem.tests), seen_again, _history(self.looks)
        apart, rest = self._apart()
        # Who divides or dies is not seen again. In space a large misfit is that of the model.
        failed = problem.points.shape[1] <= 2 and not apart.quiet < constants.MISFIT
        if problem.drift.growth is None and (failed or not apart.quiet > constants.TOO_QUIET):
            together = self._together(apart)
            # Draws would fluctuate more than what is left of them here.
            refuted = apart.implausibly_quiet and not together.unexplained
            # Wide averages tell best: narrow ones change as much within a gap as between draws.
            wide = problem.moments(problem.coarse_tests(together.beta))
            if refuted or (together.converged and prefers_same(wide, together, apart)):
                return together, seen_again, _history(self.looks)
        if rest is not None:  # who was seen again tells more than an assumption
            return rest, "the last snapshot passes for an equilibrium", _history(self.looks)
        return apart, "other individuals were seen at each time", _history(self.looks)

    def _followed(self, moments: Moments) -> Estimate:
        """The estimate for individuals that are followed."""
        problem = self.problem
        noise = FollowedIndividuals()
        found = self._solved(moments, noise, problem.nothing)
        short = max(moments.steps) <= constants.SHORT_STEPS and found.misfit < constants.MISFIT
        spare = any(level for level, _ in problem.priors)
        if problem.drift.pairs or spare or (short and found.converged):
            return found
        # Long gaps: what the data say depends on the way there, and several starts are compared.
        lines = problem.moments(problem.tests, straight_lines(problem.found))
        filled = self._solved(lines, noise, problem.nothing, 1, aside=True)
        learn = problem.entropy is None or problem.entropy.learn
        ends = []
        for start in (
            replace(filled, beta=problem.beta, rounds=0, posterior=None),
            problem.nothing,
        ):
            again = problem.moments(problem.tests)
            end = climb(again, noise, problem.priors, start, learn, self.looks.append)
            ends += [] if end is None or end.posterior is None else [end]
        # An end that noise does not explain is no answer, however probable it seems.
        kept = [end for end in ends if end.misfit < constants.MISFIT] or ends or [found]
        best, again = max(kept, key=lambda end: end.evidence), problem.moments(problem.tests)
        if not ends:
            return best
        shaped = climb(again, noise, problem.priors, best, learn, self.looks.append, True)
        if shaped is None or shaped.others is None:
            return best
        # Both are approximations of one likelihood: how far they are apart is part of the error.
        apart = np.append(shaped.c - best.c, np.log(shaped.beta / best.beta))
        share, more = shaped.others
        return replace(shaped, others=(share, np.column_stack([more, apart])))

    def _solved(
        self,
        moments: Moments,
        noise: Noise,
        start: Estimate,
        rounds: int = constants.MOST_ROUNDS,
        tempered: bool = False,
        aside: bool = False,
    ) -> Estimate:
        """The end of rounds from a start; those `aside`, on what is no data, are not kept."""
        entropy = self.problem.entropy
        learn = entropy is None or entropy.learn
        learn = learn and (noise.beta_is_noise or entropy is not None)
        tell = (lambda _: None) if aside else self.looks.append
        priors = self.problem.priors
        return gauss_newton(moments, noise, priors, start, learn, rounds, tell, tempered)

    def _apart(self) -> tuple[Estimate, Estimate | None]:
        """The estimate for other individuals at every time, and one with an assumption.

        The latter takes the last snapshot for an equilibrium. It is None where the data are
        explained as well without.
        """
        problem = self.problem
        dim = problem.points.shape[1]
        if dim > 2:
            return self._apart_in_space(), None
        coarse = problem.coarse_tests()
        noise, rest = OtherIndividuals(), None
        apart = self._solved(problem.moments(coarse), noise, problem.nothing)
        if not apart.misfit < constants.MISFIT and not problem.drift.pairs:
            # Gaps that are too long for a start from nothing are first filled by straight lines.
            lines = problem.moments(coarse, straight_lines(problem.found))
            few = constants.FULL_ROUNDS
            nothing = problem.nothing
            filled = self._solved(lines, SameIndividuals(), nothing, few, aside=True)
            filled = replace(filled, beta=problem.beta)
            apart = self._solved(problem.moments(coarse), noise, filled)
            rest = self._at_rest(coarse)
            settled = apart.converged and apart.misfit < constants.MISFIT
            if rest is not None and (
                not rest.misfit < constants.MISFIT or (settled and rest.evidence <= apart.evidence)
            ):
                rest = None
        known = np.inf if apart.posterior is None else apart.posterior.known
        # Where individuals multiply, averages have to tell places apart, however few their numbers.
        fine = problem.drawn_tests(apart.beta, known if problem.drift.growth is None else np.inf)
        if not apart.misfit < constants.MISFIT or fine.count == coarse.count:
            return apart, rest
        again = self._solved(problem.moments(fine), noise, replace(apart, rounds=0))
        return again if again.misfit < constants.MISFIT else apart, rest

    def _at_rest(self, tests: Bumps) -> Estimate | None:
        """The estimate for which the last snapshot is at equilibrium and all others lead there.

        None where there is more than a V that does not vary in time and a noise that balances it.
        """
        landscape, entropy = self.problem.drift.landscape, self.problem.entropy
        alone = len(self.problem.drift.parts) == 1 and self.problem.drift.growth is None
        if landscape is None or landscape.powers > 1 or not alone or entropy is None:
            return None
        if any(w.condition is not None for w in self.problem.found):
            return None
        (span, blocks), *_ = self.problem.priors.items()
        rest = potential_at_rest(landscape, self.problem.found, blocks)
        return relaxing(self.problem.moments(tests), rest, self.problem.beta, entropy.learn, span)

    def _apart_in_space(self) -> Estimate:
        """The estimate for other individuals in three and more dimensions.

        Few functions describe V there, so that averages are known better than V can explain them.
        What is left unexplained counts as noise. Where nothing much is, it is found as elsewhere.
        """
        moments = self.problem.moments(Bumps.as_many(self.problem.points, self.problem.told))
        found = self._solved(moments, OtherIndividuals(), self.problem.nothing, tempered=True)
        if not found.misfit < constants.MISFIT:
            return found
        start = replace(found, rounds=0)
        plain = self._solved(moments, OtherIndividuals(), start)
        return plain if plain.misfit < constants.MISFIT else found

    def _together(self, apart: Estimate) -> Estimate:
        """The estimate for the same individuals at every time."""
        smooth, best = self.problem.moments(self.problem.wide_tests(apart.beta)), None
        for first in (apart,) if apart.converged else (apart, self.problem.nothing):
            found = self._solved(smooth, SameIndividuals(), replace(first, rounds=0))
            if best is None or found.misfit < best.misfit:
                best = found
            if best.converged and best.misfit < constants.MISFIT:
                break
        assert best is not None
        return self._looked_at_widely(best, smooth.tests)

    def _looked_at_widely(self, found: Estimate, tests: Bumps) -> Estimate:
        """An estimate for the same individuals with the misfit of averages that tell it best.

        They have to be wide beside the noise that was found, and not only where it started: noise
        that is large enough explains whatever narrow averages do.
        """
        wide = self.problem.wide_tests(found.beta)
        misfit = None
        if wide.count < tests.count:
            misfit = misfit_at(self.problem.moments(wide), SameIndividuals(), found)
        return found if misfit is None else replace(found, misfit=max(misfit, found.misfit))


def _history(looks: list[Estimate]) -> dict[str, np.ndarray]:
    """The rounds as columns; the loss is minus the evidence."""
    return {
        "step": np.arange(1, len(looks) + 1),
        "loss": np.array([-e.posterior.evidence for e in looks if e.posterior is not None]),
        "misfit": np.array([e.misfit for e in looks]),
    }
