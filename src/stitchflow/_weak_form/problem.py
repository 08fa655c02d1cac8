"""A fit as a problem of least squares: gaps, functions, priors, and the choice of a noise model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import jax
import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._energy.terms import Entropy, Potential
from stitchflow._parts import Part
from stitchflow._status import BadInput
from stitchflow._types import check_number
from stitchflow._weak_form import constants
from stitchflow._weak_form.action import Action, estimate
from stitchflow._weak_form.assemble import fitted_terms
from stitchflow._weak_form.bases import Block, Bumps, Splines
from stitchflow._weak_form.choices import Priors
from stitchflow._weak_form.climb import climb
from stitchflow._weak_form.deviation import deviation_parts
from stitchflow._weak_form.displacement import DisplacementPush
from stitchflow._weak_form.drift_parts import Drift, Landscape, PairPart
from stitchflow._weak_form.equilibrium import potential_at_rest, relaxing
from stitchflow._weak_form.estimate import Estimate
from stitchflow._weak_form.frame import (
    Frame,
    FramedBumps,
    frame_of,
    whole_coefficients,
    whole_root,
)
from stitchflow._weak_form.growing import Growing
from stitchflow._weak_form.moments import Gap, Moments, Window, gaps_of, straight_lines, windows
from stitchflow._weak_form.noise import (
    FollowedIndividuals,
    Noise,
    OtherIndividuals,
    SameIndividuals,
)
from stitchflow._weak_form.pair_push import PairPush
from stitchflow._weak_form.populations import Populations
from stitchflow._weak_form.round_bumps import RoundBumps
from stitchflow._weak_form.solve import gauss_newton, misfit_at, prefers_same
from stitchflow._weak_form.springs import Springs
from stitchflow._weak_form.turning import field_parts
from stitchflow._weak_form.uncertainty import Uncertainty


@dataclass(frozen=True)
class Basis(Part):
    """What V, W and K are made of, in units of the data's length (`Snapshots.units`).

    V is a sum of powers of first and second degree and of one Gaussian process for each width. W
    and K are splines of the distance with one Gaussian process for each width. The evidence decides
    how large each of them is; a width that does not help gets the size zero.

    Arguments:
        widths: the widths of the Gaussian bumps of V, widest first; None chooses them by the
            dimension. Widths that would need more than `bumps` functions are left out.
        bumps: the largest number of bumps of all widths together. There are also no more than a
            third of the numbers that describe a snapshot.
        pair_widths: the widths of the functions of a distance.
        ranges: the ranges over which W may fall to zero, shortest first. The shortest one that
            the evidence does not reject is taken.
        powers: the number of polynomials of time of a potential that varies in time.

    >>> sf.Basis(widths=(1.0, 0.5)).widths
    (1.0, 0.5)
    """

    widths: tuple[float, ...] | None = None
    bumps: int = constants.MOST_BUMPS
    pair_widths: tuple[float, ...] = constants.PAIR_WIDTHS
    ranges: tuple[float, ...] = constants.RANGES
    powers: int = constants.TIME_POWERS

    def __post_init__(self) -> None:
        for name in ("widths", "pair_widths", "ranges"):
            for value in getattr(self, name) or ():
                check_number(value, name, 0.0, open_low=True)
        if not self.pair_widths or not self.ranges or self.widths == ():
            raise BadInput("widths, pair_widths and ranges must have at least one entry")


@dataclass(frozen=True)
class Problem:
    """The data of a fit as gaps, and the functions that its energy is made of.

    Arguments:
        found: the windows of the data.
        points: some of the individuals, near which functions are placed.
        drift: the functions.
        priors: their prior, for every range of pair terms.
        tests: the test functions.
        entropy: the term of the noise; None without noise.
        beta: where beta starts, or what it is, in internal units.
        followed: whether ids tell who is who.
        frame: the directions of many dimensions; None where all coordinates are alike.
        springs: what is seen beside the leading ones; None where there are no others.
        crowd: the populations, where they are followed as wholes; None elsewhere.
    """

    found: list[Window]
    points: np.ndarray
    drift: Drift
    priors: Priors
    tests: Bumps
    entropy: Entropy | None
    beta: float
    followed: bool
    frame: Frame | None = None
    springs: Springs | None = None
    crowd: Populations | None = None

    @staticmethod
    def of(energy: Energy, basis: Basis, data: Snapshots, grows: bool = False) -> Problem:
        """The problem of learning the terms of an `energy` in a `basis` from `data`.

        Arguments:
            energy: the terms.
            basis: what they are made of.
            data: the snapshots.
            grows: whether individuals multiply at a rate that is learned.
        """
        paired = bool(energy.only(Interaction) or energy.only(VectorKernel))
        frame = frame_of(energy, data, grows)
        dim = data.dim if frame is None else frame.lead
        found, crowd = windows(data, paired, frame), Populations.of(energy, data)
        if crowd is not None and basis == Basis():
            basis = _POPULATIONS
        x = np.concatenate([w.x[w.weights > 0] for w in found])
        some = x[np.random.default_rng(0).permutation(len(x))[: constants.MOST_POINTS]]
        widths = basis.widths or constants.WIDTHS[min(dim, 3)]
        # The fluctuations of more averages than this cannot be told from so few individuals.
        told = int(np.median([w.x.size for w in found]) * constants.AVERAGES)
        told = basis.bumps if data.paired else told
        most = basis.bumps if dim <= 2 else min(basis.bumps, constants.SPACE_BUMPS)
        tests = Bumps.for_points(some, widths, min(most, told))
        if crowd is not None:
            tests = _for_populations(crowd, some, basis)
        potential = energy.only(Potential)
        powers = 1
        if potential and potential[0].time_varying:
            powers = max(1, min(basis.powers, len(found) - 1))
        knots = constants.MOST_KNOTS if crowd is None else min(constants.MOST_KNOTS, crowd.told)
        pushes = pair_pushes(energy, found, basis, knots) if paired else ()
        own = (Landscape(tests, powers, not energy.only(Entropy)),) if potential else ()
        field = field_parts(energy, tests, some)
        growth = Growing.of(tests, some, x) if grows else None
        deviation = deviation_parts(energy, tests, powers, data)
        drift = Drift((*own, *pushes, *field, *deviation), growth)
        entropy = energy.only(Entropy)
        start = constants.START_BETA
        if entropy and entropy[0].start is not None:
            start = entropy[0].start / data.units.energy
        return Problem(
            found,
            some,
            drift,
            priors_of(drift, basis),
            tests,
            entropy[0] if entropy else None,
            start,
            data.paired,
            frame,
            None if frame is None else frame.springs(data, powers),
            crowd,
        )

    def estimate(self) -> tuple[Estimate, str, dict[str, np.ndarray]]:
        """The estimate, which noise model it has, and its history."""
        looks: list[Estimate] = []
        if self.action is not None:
            known = None if self._learns_beta else self.beta
            found = estimate(self.action, self.priors, known, looks.append)
            return found, "whole populations were seen again", _history(looks)
        moments = self.moments(self.tests)
        if self.followed:
            found = self._followed(moments, looks)
            return found, "individuals are followed", _history(looks)
        seen_again = "the same individuals were seen again"
        if moments.plainly_same and self.drift.growth is None:
            found = self._solved(moments, SameIndividuals(), self._nothing, looks)
            return self._looked_at_widely(found, self.tests), seen_again, _history(looks)
        apart = self._apart(looks)
        if apart.relaxed:
            return apart, "the last snapshot passes for an equilibrium", _history(looks)
        # Who divides or dies is not seen again. In space a large misfit is that of the model.
        failed = self.points.shape[1] <= 2 and not apart.quiet < constants.MISFIT
        if self.drift.growth is None and (failed or not apart.quiet > constants.TOO_QUIET):
            together = self._together(apart, looks)
            # Powers tell best: narrow functions change as much within a gap as between draws.
            none = Bumps(self.tests.centres[:0], self.tests.widths[:0])
            if together.converged and prefers_same(self.moments(none), together, apart):
                return together, seen_again, _history(looks)
        return apart, "other individuals were seen at each time", _history(looks)

    def _followed(self, moments: Moments, looks: list[Estimate]) -> Estimate:
        """The estimate for individuals that are followed."""
        noise = FollowedIndividuals()
        found = self._solved(moments, noise, self._nothing, looks)
        short = max(moments.steps) <= constants.SHORT_STEPS and found.misfit < constants.MISFIT
        spare = any(level for level, _ in self.priors)
        if self.drift.pairs or spare or (short and found.converged):
            return found
        # Long gaps: what the data say depends on the way there, and several starts are compared.
        lines = self.moments(self.tests, straight_lines(self.found))
        filled = self._solved(lines, noise, self._nothing, [], 1)
        learn = self.entropy is None or self.entropy.learn
        ends = []
        for start in (replace(filled, beta=self.beta, rounds=0, posterior=None), self._nothing):
            again = self.moments(self.tests)
            end = climb(again, noise, self.priors, start, learn, looks.append)
            ends += [] if end is None or end.posterior is None else [end]
        # An end that noise does not explain is no answer, however probable it seems.
        kept = [end for end in ends if end.misfit < constants.MISFIT] or ends or [found]
        best, again = max(kept, key=lambda end: end.evidence), self.moments(self.tests)
        shaped = climb(again, noise, self.priors, best, learn, looks.append, True) if ends else None
        if shaped is None or shaped.others is None:
            return best
        # Both are approximations of one likelihood: how far they are apart is part of the error.
        apart = np.append(shaped.c - best.c, np.log(shaped.beta / best.beta))
        share, more = shaped.others
        return replace(shaped, others=(share, np.column_stack([more, apart])))

    @cached_property
    def action(self) -> Action | None:
        """The equations of populations that are followed as wholes; None where none are."""
        return None if self.crowd is None else Action(self.crowd, self.drift)

    @property
    def _learns_beta(self) -> bool:
        return self.entropy is not None and self.entropy.learn

    @property
    def _about_beta(self) -> Springs | None:
        """The springs where they tell beta: there is one, and it is learned."""
        return self.springs if self.entropy is not None and self.entropy.learn else None

    @property
    def _nothing(self) -> Estimate:
        """Where rounds start: nothing moves."""
        return Estimate(np.zeros(self.drift.count), self.beta)

    @cached_property
    def _gaps(self) -> list[Gap]:
        return gaps_of(self.found, 0)

    def moments(self, tests: Bumps, found: list[Window] | None = None) -> Moments:
        """The data seen through test functions; `found` are windows in place of the data's."""
        gaps = self._gaps if found is None else gaps_of(found, 0)
        return Moments(gaps, self.drift, tests, self.entropy is not None, self._about_beta)

    def _solved(
        self,
        moments: Moments,
        noise: Noise,
        start: Estimate,
        looks: list[Estimate],
        rounds: int = constants.MOST_ROUNDS,
        tempered: bool = False,
    ) -> Estimate:
        learn = self.entropy is None or self.entropy.learn
        learn = learn and (noise.beta_is_noise or self.entropy is not None)
        return gauss_newton(
            moments, noise, self.priors, start, learn, rounds, looks.append, tempered
        )

    def _noise_length(self, beta: float) -> float:
        """How far noise spreads individuals over a gap, the median of all gaps."""
        gap = float(np.median([gap.duration for gap in self._gaps]))
        return float(np.sqrt(2.0 * beta * gap)) if self.entropy is not None else 0.0

    @property
    def _told(self) -> int:
        """How many averages' fluctuations can be told from draws of so few individuals."""
        size = float(np.median([w.effective for w in self.found]))
        return int(size * constants.DRAWN_AVERAGES)

    def drawn_tests(self, beta: float, known: float = np.inf) -> Bumps:
        """The test functions for other individuals at every time.

        Averages that are narrower than the noise of a gap are blurred on the way. Far more of them
        than the data determine numbers would add errors of the design, and tell nothing.

        Arguments:
            beta: the noise.
            known: how many numbers the data determine.
        """
        narrowest = constants.TESTS_PER_NOISE * self._noise_length(beta)
        most = int(min(self._told, constants.TESTS_PER_KNOWN * known))
        return Bumps.as_many(self.points, most, narrowest)

    def wide_tests(self, beta: float) -> Bumps:
        """The test functions for the same individuals at every time.

        Those that are as narrow as the noise of a gap do not fluctuate linearly with it.
        """
        return self.tests.wider(constants.TESTS_PER_NOISE * self._noise_length(beta))

    def _apart(self, looks: list[Estimate]) -> Estimate:
        """The estimate for other individuals at every time."""
        dim = self.points.shape[1]
        if dim > 2:
            return self._apart_in_space(looks)
        first = constants.FIRST_DRAWN * dim
        coarse = Bumps.as_many(self.points, min(first, self._told))
        noise = OtherIndividuals()
        apart = self._solved(self.moments(coarse), noise, self._nothing, looks)
        if not apart.misfit < constants.MISFIT and not self.drift.pairs:
            # Gaps that are too long for a start from nothing are first filled by straight lines.
            lines = self.moments(coarse, straight_lines(self.found))
            few = constants.FULL_ROUNDS
            filled = self._solved(lines, SameIndividuals(), self._nothing, [], few)
            filled = replace(filled, beta=self.beta)
            apart = self._solved(self.moments(coarse), noise, filled, looks)
            rest = self._at_rest(coarse)
            if rest is not None and rest.misfit < constants.MISFIT:
                settled = apart.converged and apart.misfit < constants.MISFIT
                if not settled or rest.evidence > apart.evidence:
                    return rest
        known = np.inf if apart.posterior is None else apart.posterior.known
        # Where individuals multiply, averages have to tell places apart, however few their numbers.
        fine = self.drawn_tests(apart.beta, known if self.drift.growth is None else np.inf)
        if not apart.misfit < constants.MISFIT or fine.count == coarse.count:
            return apart
        again = self._solved(self.moments(fine), noise, replace(apart, rounds=0), looks)
        return again if again.misfit < constants.MISFIT else apart

    def _at_rest(self, tests: Bumps) -> Estimate | None:
        """The estimate for which the last snapshot is at equilibrium and all others lead there.

        None where there is more than a V that does not vary in time and a noise that balances it.
        """
        landscape, entropy = self.drift.landscape, self.entropy
        alone = len(self.drift.parts) == 1 and self.drift.growth is None
        if landscape is None or landscape.powers > 1 or not alone or entropy is None:
            return None
        if any(w.condition is not None for w in self.found):
            return None
        (span, blocks), *_ = self.priors.items()
        rest = potential_at_rest(landscape, self.found, blocks)
        return relaxing(self.moments(tests), rest, self.beta, entropy.learn, span)

    def _apart_in_space(self, looks: list[Estimate]) -> Estimate:
        """The estimate for other individuals in three and more dimensions.

        Few functions describe V there, so that averages are known better than V can explain them.
        What is left unexplained counts as noise. Where nothing much is, it is found as elsewhere.
        """
        moments = self.moments(Bumps.as_many(self.points, self._told))
        found = self._solved(moments, OtherIndividuals(), self._nothing, looks, tempered=True)
        if not found.misfit < constants.MISFIT:
            return found
        start = replace(found, rounds=0)
        plain = self._solved(moments, OtherIndividuals(), start, looks)
        return plain if plain.misfit < constants.MISFIT else found

    def _together(self, apart: Estimate, looks: list[Estimate]) -> Estimate:
        """The estimate for the same individuals at every time."""
        smooth, best = self.moments(self.wide_tests(apart.beta)), None
        for first in (apart,) if apart.converged else (apart, self._nothing):
            found = self._solved(smooth, SameIndividuals(), replace(first, rounds=0), looks)
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
        wide = self.wide_tests(found.beta)
        misfit = None
        if wide.count < tests.count:
            misfit = misfit_at(self.moments(wide), SameIndividuals(), found)
        return found if misfit is None else replace(found, misfit=max(misfit, found.misfit))

    def fitted(self, estimate: Estimate, units: Units) -> Energy:
        """The energy with the coefficients of an estimate."""
        drift, c, _ = self._whole(estimate)
        terms = fitted_terms(drift, c, self.centre)
        if self.entropy is not None:
            ready = self.entropy.init(np.eye(2, units.dim), units, jax.random.key(0))
            terms.append(ready.with_diffusion(estimate.beta))
        return Energy(tuple(terms), units)

    @property
    def centre(self) -> np.ndarray:
        """The mean of the functions of V over all individuals, where V has its zero."""
        landscape = self.drift.landscape
        if landscape is None:
            return np.zeros(0)
        means = [w.weights @ landscape.bumps.values(w.x) for w in self.found]
        led = np.average(means, axis=0, weights=[len(w.x) for w in self.found])
        return led if self.springs is None else np.concatenate([led, self.springs.centre])

    def _whole(self, estimate: Estimate) -> tuple[Drift, np.ndarray, np.ndarray | None]:
        """The functions of all directions, their coefficients, and the factor of the covariance."""
        root = None if estimate.posterior is None else estimate.root
        if root is not None and self.entropy is not None and not self.entropy.learn:
            root = np.concatenate([root[:-1], np.zeros_like(root[-1:])])
        landscape = self.drift.landscape
        if self.frame is None or self.springs is None or landscape is None:
            return self.drift, estimate.c, root
        beta = estimate.beta if self.entropy is not None else constants.NO_NOISE
        fit = self.springs.fit(float(np.log(beta)), estimate.same)
        led = landscape.bumps
        bumps = FramedBumps(led.centres, led.widths, self.frame.axes)
        drift = Drift((Landscape(bumps, landscape.powers),))
        wide = None if root is None else whole_root(root, fit)
        return drift, whole_coefficients(estimate.c, fit), wide

    def uncertainty(self, estimate: Estimate, units: Units) -> Uncertainty:
        """The standard errors of an estimate."""
        drift, c, root = self._whole(estimate)
        assert root is not None
        log_beta = None if self.entropy is None else float(np.log(estimate.beta))
        return Uncertainty(drift, c, log_beta, root, self.centre, units)

    def leading(self, known: Uncertainty) -> Uncertainty:
        """Standard errors of the leading directions alone, where there are others."""
        landscape = self.drift.landscape
        if self.frame is None or landscape is None:
            return known
        cut = lambda a: a.reshape(landscape.powers, -1, *a.shape[1:])[:, : landscape.bumps.count]
        flat = lambda a: cut(a).reshape(landscape.count, *a.shape[1:])
        root = np.concatenate([flat(known.root[:-1]), known.root[-1:]])
        centre = known.centre[: landscape.bumps.count]
        own = self.frame.axes[:, : self.frame.lead]
        known = replace(known, drift=self.drift, centre=centre, lead=own)
        return replace(known, c=flat(known.c), root=root)


def _history(looks: list[Estimate]) -> dict[str, np.ndarray]:
    """The rounds as columns; the loss is minus the evidence."""
    return {
        "step": np.arange(1, len(looks) + 1),
        "loss": np.array([-e.posterior.evidence for e in looks if e.posterior is not None]),
        "misfit": np.array([e.misfit for e in looks]),
    }


_POPULATIONS = Basis(
    constants.POPULATION_WIDTHS,
    constants.POPULATION_BUMPS,
    constants.POPULATION_PAIR_WIDTHS,
    constants.POPULATION_RANGES,
)


def _for_populations(crowd: Populations, some: np.ndarray, basis: Basis) -> RoundBumps:
    """The functions of V where populations are followed as wholes."""
    apart = np.linalg.norm(some - some.mean(axis=0), axis=1)
    core = some[apart <= np.quantile(apart, constants.CORE)]
    widths, most = basis.widths or constants.POPULATION_WIDTHS, min(basis.bumps, crowd.told)
    return RoundBumps.around(some, Bumps.for_points(core, widths, most), crowd.told)


def pair_pushes(
    energy: Energy, found: list[Window], basis: Basis, most: int = constants.MOST_KNOTS
) -> tuple[PairPart, ...]:
    """The pushes of pairs that an energy has, up to the largest distance in the data.

    Arguments:
        energy: the terms.
        found: the windows of the data.
        basis: what functions of a distance are made of.
        most: the largest number of knots.
    """
    apart = []
    for w in found[:: max(1, len(found) // 20)]:
        if w.near is not None:
            apart.append(w.x[w.near.first] - w.x[w.near.second])
    if not apart:
        raise BadInput("energy: pair terms need populations of two or more individuals")
    z = np.concatenate(apart)
    far = float(np.quantile(np.sqrt((z**2).sum(axis=1)), constants.FARTHEST))
    reach, dim = constants.REACH * far, z.shape[1]
    count = int(np.clip(np.ceil(reach / (constants.KNOTS * min(basis.pair_widths))), 8, most))
    pushes: list[PairPart] = []
    for term in energy.only(Interaction):
        if term.radial:
            pushes.append(PairPush(Splines(reach, count, True), "interaction"))
        else:
            most = constants.DISPLACEMENT_REACH * max(basis.ranges)
            alone = not energy.only(Potential)
            some = z[np.random.default_rng(0).permutation(len(z))[: constants.MOST_POINTS]]
            end = reach if alone else min(reach, most)
            pushes.append(DisplacementPush.of(some, basis.pair_widths, end))
    if energy.only(VectorKernel):
        free = Splines(reach, count, False)
        # Next to an interaction the radial part of K would be the same thing twice.
        pushes += [] if pushes else [PairPush(free, "radial")]
        pushes += [PairPush(free, "turning")] if dim == 2 else []
    if not pushes:
        raise BadInput("energy: outside the plane a VectorKernel beside an Interaction is nothing")
    return tuple(pushes)


def priors_of(drift: Drift, basis: Basis) -> Priors:
    """The prior of all coefficients: without and with spare blocks, for every range of W."""
    ranges = basis.ranges if drift.landscape is not None else ()
    choices: dict[float, list[Block]] = {0.0: []}
    for part, own in drift.each():
        blocks = {
            span: [block.placed(own.start, drift.count) for block in some]
            for span, some in part.blocks(basis.pair_widths, ranges).items()
        }
        # One part at most has several ranges.
        choices = {max(a, b): x + y for a, x in choices.items() for b, y in blocks.items()}
    found: Priors = {}
    for level in sorted({block.spare for blocks in choices.values() for block in blocks}):
        for span, blocks in choices.items():
            found[level, span] = [block for block in blocks if block.spare <= level]
    return found
