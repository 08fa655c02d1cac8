"""A fit as a problem of least squares: gaps, functions and priors."""

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
from stitchflow._weak_form import constants
from stitchflow._weak_form.assemble import fitted_terms
from stitchflow._weak_form.bases import Bumps
from stitchflow._weak_form.basis import (
    FOR_POPULATIONS,
    Basis,
    for_populations,
    pair_pushes,
    priors_of,
)
from stitchflow._weak_form.choices import Priors
from stitchflow._weak_form.deviation import deviation_parts
from stitchflow._weak_form.drift_parts import Drift, Landscape
from stitchflow._weak_form.estimate import Estimate
from stitchflow._weak_form.frame import (
    Frame,
    FramedBumps,
    frame_of,
    whole_coefficients,
    whole_root,
)
from stitchflow._weak_form.growing import Growing
from stitchflow._weak_form.moments import Gap, Moments, Window, gaps_of, windows
from stitchflow._weak_form.population_action import Action
from stitchflow._weak_form.springs import Springs
from stitchflow._weak_form.turning import field_parts
from stitchflow._weak_form.uncertainty import Uncertainty
from stitchflow._weak_form.whole_populations import Populations


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
    def of(
        energy: Energy, basis: Basis, data: Snapshots, grows: bool = False, wholes: bool = True
    ) -> Problem:
        """The problem of learning the terms of an `energy` in a `basis` from `data`.

        Arguments:
            energy: the terms.
            basis: what they are made of.
            data: the snapshots.
            grows: whether individuals multiply at a rate that is learned.
            wholes: whether populations that are seen again whole are followed.
        """
        paired = bool(energy.only(Interaction) or energy.only(VectorKernel))
        frame = frame_of(energy, data, grows)
        dim = data.dim if frame is None else frame.lead
        found = windows(data, paired, frame)
        # Who divides or dies is not seen again.
        crowd = Populations.of(energy, data) if wholes and not grows else None
        if crowd is not None and basis == Basis():
            basis = FOR_POPULATIONS
        x = np.concatenate([w.x[w.weights > 0] for w in found])
        some = x[np.random.default_rng(0).permutation(len(x))[: constants.MOST_POINTS]]
        widths = basis.widths or constants.WIDTHS[min(dim, 3)]
        # The fluctuations of more averages than this cannot be told from so few individuals.
        told = int(np.median([w.x.size for w in found]) * constants.AVERAGES)
        told = basis.bumps if data.paired else told
        most = basis.bumps if dim <= 2 else min(basis.bumps, constants.SPACE_BUMPS)
        tests = Bumps.for_points(some, widths, min(most, told))
        if crowd is not None:
            tests = for_populations(crowd, some, basis)
        potential = energy.only(Potential)
        varies = bool(potential) and potential[0].time_varying
        powers = basis.powers_in(len(found)) if varies else 1
        knots = constants.MOST_KNOTS if crowd is None else min(constants.MOST_KNOTS, crowd.told)
        pushes = pair_pushes(energy, found, basis, knots) if paired else ()
        own = (Landscape(tests, powers, not energy.only(Entropy)),) if potential else ()
        field = field_parts(energy, tests, some)
        growth = Growing.of(tests, some, x) if grows else None
        deviation = deviation_parts(energy, tests, powers, data)
        drift = Drift((*own, *pushes, *field, *deviation), growth)
        entropy, start = _noise_of(energy, data.units)
        return Problem(
            found,
            some,
            drift,
            priors_of(drift, basis),
            tests,
            entropy,
            start,
            data.paired,
            frame,
            None if frame is None else frame.springs(data, powers),
            crowd,
        )

    @cached_property
    def action(self) -> Action | None:
        """The equations of populations that are followed as wholes; None where none are."""
        return None if self.crowd is None else Action(self.crowd, self.drift)

    @property
    def learns_beta(self) -> bool:
        """Whether there is noise, and its size is learned."""
        return self.entropy is not None and self.entropy.learn

    @property
    def _about_beta(self) -> Springs | None:
        """The springs where they tell beta: there is one, and it is learned."""
        return self.springs if self.learns_beta else None

    @property
    def nothing(self) -> Estimate:
        """Where rounds start: nothing moves."""
        return Estimate(np.zeros(self.drift.count), self.beta)

    @cached_property
    def _gaps(self) -> list[Gap]:
        return gaps_of(self.found, 0)

    def moments(self, tests: Bumps, found: list[Window] | None = None) -> Moments:
        """The data seen through test functions; `found` are windows in place of the data's."""
        gaps = self._gaps if found is None else gaps_of(found, 0)
        return Moments(gaps, self.drift, tests, self.entropy is not None, self._about_beta)

    def _noise_length(self, beta: float) -> float:
        """How far noise spreads individuals over a gap, the median of all gaps."""
        gap = float(np.median([gap.duration for gap in self._gaps]))
        return float(np.sqrt(2.0 * beta * gap)) if self.entropy is not None else 0.0

    @property
    def told(self) -> int:
        """How many averages' fluctuations can be told from draws of so few individuals."""
        size = float(np.median([w.effective for w in self.found]))
        return int(size * constants.DRAWN_AVERAGES)

    def coarse_tests(self, beta: float = 0.0) -> Bumps:
        """So many wide averages that even few individuals tell how they fluctuate.

        Arguments:
            beta: the noise, beside whose length over a gap they are wide.
        """
        first = constants.FIRST_DRAWN * self.points.shape[1]
        found = Bumps.as_many(self.points, min(first, self.told))
        return found.wider(constants.TESTS_PER_NOISE * self._noise_length(beta))

    def drawn_tests(self, beta: float, known: float = np.inf) -> Bumps:
        """The test functions for other individuals at every time.

        Averages that are narrower than the noise of a gap are blurred on the way. Far more of them
        than the data determine numbers would add errors of the design, and tell nothing.

        Arguments:
            beta: the noise.
            known: how many numbers the data determine.
        """
        narrowest = constants.TESTS_PER_NOISE * self._noise_length(beta)
        most = int(min(self.told, constants.TESTS_PER_KNOWN * known))
        return Bumps.as_many(self.points, most, narrowest)

    def wide_tests(self, beta: float) -> Bumps:
        """The test functions for the same individuals at every time.

        Those that are as narrow as the noise of a gap do not fluctuate linearly with it.
        """
        return self.tests.wider(constants.TESTS_PER_NOISE * self._noise_length(beta))

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


def _noise_of(energy: Energy, units: Units) -> tuple[Entropy | None, float]:
    """The term of the noise, and where its beta starts in internal units."""
    entropy = next(iter(energy.only(Entropy)), None)
    if entropy is None or entropy.start is None:
        return entropy, constants.START_BETA
    return entropy, entropy.start / units.energy
