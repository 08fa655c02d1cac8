"""The method `weak-form`: from snapshots to an energy with standard errors."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy, velocity
from stitchflow._energy.packing import (
    energy_from,
    named_arrays,
    packed_method,
    ready_energy,
    terms_of,
    units_from,
    with_arrays,
)
from stitchflow._energy.packing import stored as stored_array
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._energy.terms import Entropy, Potential, Term
from stitchflow._measure.kde import KDE
from stitchflow._method.contract import Fit, Method, Packed
from stitchflow._method.driven import DrivenFlow
from stitchflow._method.flow import Flow
from stitchflow._parts import made
from stitchflow._status import BadInput, NotAvailable, Status
from stitchflow._training.history import StageHistory
from stitchflow._types import KeyLike, check_count, check_number
from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block, Bumps, Splines
from stitchflow._weak_form.carry import Drift
from stitchflow._weak_form.fitted import BumpPotential, SplineInteraction, SplineKernel
from stitchflow._weak_form.moments import Moments, Window, gaps_of, straight_lines, windows
from stitchflow._weak_form.noise import FollowedIndividuals, OtherIndividuals, SameIndividuals
from stitchflow._weak_form.pair_push import PairPush
from stitchflow._weak_form.rest import at_rest
from stitchflow._weak_form.solve import Estimate, Priors, gauss_newton, prefers_same
from stitchflow._weak_form.uncertainty import Uncertainty


@dataclass(frozen=True)
class Basis:
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
class WeakForm(Method):
    r"""V, W, K and beta from averages over the observed individuals alone, with standard errors.

    Individuals of a snapshot are carried to the next one by the present estimate, and averages of
    test functions $\eta$ are compared with those that were seen. By Dynkin's formula this is

    $$\langle\eta\rangle_{k+1} - \langle\eta\rangle_k
      = \int\bigl(-\langle\nabla\eta\cdot\nabla V\rangle
      - \langle\nabla\eta\cdot\nabla W * \rho\rangle + \beta\langle\Delta\eta\rangle\bigr)\,dt$$

    against test functions carried back in time, so that no density and no score is estimated.
    Coefficients are solved for by generalised least squares, in a few Gauss-Newton rounds. Whether
    the same individuals or others were seen at each time decides how far averages fluctuate; it is
    read from the ids, or else found from the size of the fluctuations. The strengths of the
    smoothness priors, and with them how much the data can tell, are chosen by evidence.

    `fit.uncertainty` has the standard errors. The flow simulates and has a velocity, but neither
    samples nor densities.

    Arguments:
        energy: which terms are learned: `Potential`, `Entropy`, a radial `Interaction`, and in the
            plane a `VectorKernel` that is the same in all directions. Their `hidden` is not used.
        basis: what they are made of; None is the default `Basis`.

    >>> WeakForm(sf.Potential() + sf.InternalEnergy(lambda r: r**2))
    Traceback (most recent call last):
    stitchflow._status.BadInput: energy: WeakForm cannot learn InternalEnergy(U)
    """

    name = "weak-form"

    energy: Energy = field(default_factory=lambda: Potential() + Entropy())
    basis: Basis | None = None

    def __post_init__(self) -> None:
        if isinstance(self.energy, Term):
            object.__setattr__(self, "energy", Energy((self.energy,)))
        for term in self.energy.terms:
            check_term(term)
        for kind in (Potential, Entropy, Interaction, VectorKernel):
            if len(self.energy.only(kind)) > 1:
                raise BadInput(f"energy: WeakForm learns one {kind.__name__}, got {self.energy!r}")
        if not self._moving:
            raise BadInput(f"energy needs a term that moves individuals, got {self.energy!r}")

    @property
    def _moving(self) -> tuple[Any, ...]:
        return tuple(term for term in self.energy.terms if not isinstance(term, Entropy))

    def learning(self, physics: Energy) -> WeakForm:
        return replace(self, energy=physics)

    def with_settings(self, settings: Mapping[str, Any], **terms: bool) -> WeakForm:
        if settings:
            raise BadInput(f"--method {self.name} has no settings, got {', '.join(settings)}")
        chosen: list[Term] = [Potential(time_varying=terms.get("time_varying", False))]
        chosen += [Interaction()] if terms.get("interaction") else []
        chosen += [] if terms.get("no_entropy") else [Entropy()]
        return replace(self, energy=Energy(tuple(chosen)))

    def fit(self, data: Snapshots, key: KeyLike, progress: bool, checkpoint: Any = None) -> Fit:
        began = time.perf_counter()
        problem = Problem.of(self, data)
        estimate, kind, history = problem.estimate()
        energy = problem.fitted(estimate, data.units)
        # A rate is seen by change, or by the noise of individuals that are known to be the same.
        learned = problem.entropy is not None and problem.entropy.learn
        rest = learned and at_rest(data)
        known = problem.uncertainty(estimate, data.units)
        flow = WeakFlow(self.name, energy, data, known.up_to_a_factor() if rest else known)
        message = f"{kind}; {estimate.rounds} rounds"
        if not estimate.converged:
            message += ", the last of which still moved the estimate"
        explained = estimate.misfit < constants.UNEXPLAINED
        if not explained:
            message += f"; residuals are {np.sqrt(estimate.misfit):.1f} times what noise explains"
        if problem.entropy is not None:
            beta = flow.uncertainty.beta
            message += f"; beta = {beta.mean:.3g} +- {beta.sd:.1g}"
        if rest:
            message += "; nothing changed beyond chance, which tells V and W against beta, no size"
        return Fit(
            self,
            flow,
            energy if energy.terms else None,
            Status(bool(np.isfinite(estimate.c).all()) and bool(explained), message),
            [StageHistory(self.name, history)],
            len(history["step"]),
            time.perf_counter() - began,
            seed=int(key) if isinstance(key, (int, np.integer)) else None,
            data=data,
        )

    def pack(self, fit: Fit) -> Packed:
        flow = fit.flow
        assert isinstance(flow, WeakFlow)
        known, own = flow.uncertainty, {}
        own["weak/c"], own["weak/root"], own["weak/centre"] = known.c, known.root, known.centre
        if known.log_beta is not None:
            own["weak/log_beta"] = np.asarray(known.log_beta)
        if known.drift.bumps is not None:
            own["weak/centres"] = known.drift.bumps.centres
            own["weak/widths"] = known.drift.bumps.widths
        header = packed_method(self, flow.energy) | {"form": terms_of(self.energy)}
        header["pairs"] = [
            [push.kind, push.splines.reach, push.splines.count, push.splines.even]
            for push in known.drift.pairs
        ]
        header["powers"] = known.drift.powers
        return Packed(header, {**flow.data.arrays, **named_arrays(flow.energy), **own})

    @classmethod
    def unpack(
        cls, packed: Packed, energy: Energy | None = None
    ) -> tuple[Method, Flow, Energy | None]:
        header, arrays, units = packed.header, packed.arrays, units_from(packed.header["units"])
        blank = ready_energy(energy_from(header["energy"], packed.parts), header["energy"], units)
        ready = with_arrays(blank, arrays)
        method = made(header["settings"], packed.parts, cls)
        method = replace(method, energy=energy_from(header["form"], packed.parts))
        data = Snapshots.from_stored(arrays)
        plain = lambda name: np.asarray(arrays[name], np.float64)
        for name in ("weak/c", "weak/root", "weak/centre"):
            stored_array(arrays, name)  # refuses a run that lacks it
        bumps = (
            Bumps(plain("weak/centres"), plain("weak/widths")) if "weak/widths" in arrays else None
        )
        pairs = tuple(
            PairPush(Splines(float(reach), int(count), bool(even)), str(kind))
            for kind, reach, count, even in header["pairs"]
        )
        known = Uncertainty(
            Drift(bumps, int(header["powers"]), pairs),
            plain("weak/c"),
            float(plain("weak/log_beta")) if "weak/log_beta" in arrays else None,
            plain("weak/root"),
            plain("weak/centre"),
            units,
        )
        return method, WeakFlow(cls.name, ready, data, known), ready


def check_term(term: Term) -> None:
    """Refuse a `term` that is not linear in unknown coefficients, or not known to be."""
    plain = type(term) in (Potential, Entropy, Interaction, VectorKernel)
    if not plain or getattr(term, "function", None) is not None:
        raise BadInput(f"energy: WeakForm cannot learn {term!r}")
    if isinstance(term, Interaction) and not term.radial:
        raise BadInput(f"energy: WeakForm learns a radial Interaction only, got {term!r}")
    if isinstance(term, Entropy) and not term.learn and term.start is None:
        raise BadInput("energy: Entropy(learn=False) needs a beta")


class WeakFlow(DrivenFlow):
    """Individuals moved by the learned energy.

    Arguments:
        method: the name of the method, for messages.
        energy: the learned energy.
        data: the training individuals.
        uncertainty: the standard errors of the energy.
    """

    def __init__(self, method: str, energy: Energy, data: Snapshots, uncertainty: Uncertainty):
        super().__init__(method, energy, data)
        self._uncertainty = uncertainty

    @property
    def uncertainty(self) -> Uncertainty:
        return self._uncertainty

    def sample(self, times: Any, n: int, key: KeyLike = 0) -> Float[Array, "t n d"]:
        check_count(n, "n")
        raise NotAvailable(self.method, "sample", "it learns what moves individuals, no marginals")

    def velocity(self, x: Any, t: float) -> Float[Array, "m d"]:
        """The velocity that moves the marginal at time t: the drift minus beta times the score."""
        points, moment = self.units.points_in(x), self.units.moment_in(t)
        cloud = self.units.space_in(np.asarray(super().sample([t], constants.POPULATION)[0]))
        return velocity(self.energy, points, moment, KDE.uniform(cloud)) * self.units.speed


@dataclass(frozen=True)
class Problem:
    """The data of a fit as gaps, and the functions that its energy is made of.

    Arguments:
        found: the windows of the data.
        drift: the functions.
        priors: their prior, for every range of pair terms.
        tests: the test functions.
        entropy: the term of the noise; None without noise.
        beta: where beta starts, or what it is, in internal units.
        followed: whether ids tell who is who.
    """

    found: list[Window]
    drift: Drift
    priors: Priors
    tests: Bumps
    entropy: Entropy | None
    beta: float
    followed: bool

    @staticmethod
    def of(method: WeakForm, data: Snapshots) -> Problem:
        """The problem that a method poses for `data`."""
        energy, basis, dim = method.energy, method.basis or Basis(), data.dim
        paired = bool(energy.only(Interaction) or energy.only(VectorKernel))
        found = windows(data, paired)
        x = np.concatenate([w.x[w.weights > 0] for w in found])
        some = x[np.random.default_rng(0).permutation(len(x))[: constants.MOST_POINTS]]
        widths = basis.widths or constants.WIDTHS[min(dim, 3)]
        # The fluctuations of more averages than this cannot be told from so few individuals.
        told = int(np.median([w.x.size for w in found]) * constants.AVERAGES)
        tests = Bumps.for_points(some, widths, min(basis.bumps, told))
        potential = energy.only(Potential)
        powers = 1
        if potential and potential[0].time_varying:
            powers = max(1, min(basis.powers, len(found) - 1))
        pushes = pair_pushes(energy, found, basis) if paired else ()
        drift = Drift(tests if potential else None, powers, pushes)
        entropy = energy.only(Entropy)
        start = constants.START_BETA
        if entropy and entropy[0].start is not None:
            start = entropy[0].start / data.units.energy
        return Problem(
            found,
            drift,
            priors_of(drift, basis),
            tests,
            entropy[0] if entropy else None,
            start,
            data.paired,
        )

    def estimate(self) -> tuple[Estimate, str, dict[str, np.ndarray]]:
        """The estimate, which noise model it has, and its history."""
        looks: list[Estimate] = []
        gaps, diffuses = gaps_of(self.found, 0), self.entropy is not None
        learn = self.entropy is None or self.entropy.learn
        start = Estimate(np.zeros(self.drift.count), self.beta)
        moments = Moments(gaps, self.drift, self.tests, diffuses)
        rounds = constants.MOST_ROUNDS
        if self.followed:
            found = gauss_newton(
                moments, FollowedIndividuals(), self.priors, start, learn, rounds, looks.append
            )
            return found, "individuals are followed", _history(looks)
        seen_again = "the same individuals were seen again"
        if moments.plainly_same:
            found = gauss_newton(
                moments, SameIndividuals(), self.priors, start, learn, rounds, looks.append
            )
            return found, seen_again, _history(looks)
        # Draws of few individuals tell the fluctuations of few averages.
        size = float(np.median([w.effective for w in self.found]))
        most = min(constants.MOST_DRAWN, int(size * constants.DRAWN_AVERAGES))
        coarse = self.tests.fewer(most)
        drawn = Moments(gaps, self.drift, coarse, diffuses)
        apart = gauss_newton(
            drawn, OtherIndividuals(), self.priors, start, learn and diffuses, rounds, looks.append
        )
        if not apart.misfit < constants.MISFIT and not self.drift.pairs:
            # Gaps that are too long for a start from nothing are first filled by straight lines.
            lines = Moments(gaps_of(straight_lines(self.found), 0), self.drift, coarse, diffuses)
            filled = gauss_newton(
                lines, SameIndividuals(), self.priors, start, learn, constants.FULL_ROUNDS
            )
            filled = replace(filled, beta=start.beta)
            apart = gauss_newton(
                drawn,
                OtherIndividuals(),
                self.priors,
                filled,
                learn and diffuses,
                rounds,
                looks.append,
            )
        # Test functions that are as narrow as the noise of a gap do not fluctuate linearly with it.
        gap = float(np.median([g.duration for g in gaps]))
        noise = np.sqrt(2.0 * apart.beta * gap) if diffuses else 0.0
        wide = self.tests.wider(constants.TESTS_PER_NOISE * noise)
        smooth = Moments(gaps, self.drift, wide, diffuses)
        same, together = SameIndividuals(), None
        for first in (apart,) if apart.converged else (apart, start):
            found = gauss_newton(smooth, same, self.priors, first, learn, rounds, looks.append)
            if together is None or found.misfit < together.misfit:
                together = found
            if together.converged and together.misfit < constants.MISFIT:
                break
        assert together is not None
        # Powers tell best: narrow functions change as much within a gap as between draws.
        none = Bumps(self.tests.centres[:0], self.tests.widths[:0])
        if prefers_same(Moments(gaps, self.drift, none, diffuses), together, apart):
            return together, seen_again, _history(looks)
        return apart, "other individuals were seen at each time", _history(looks)

    def fitted(self, estimate: Estimate, units: Units) -> Energy:
        """The energy with the coefficients of an estimate."""
        pieces = self.drift.parts(estimate.c, 0.0)[1]
        terms: list[Term] = []
        bumps = self.drift.bumps
        if bumps is not None:
            c = estimate.c[: bumps.count * self.drift.powers].reshape(self.drift.powers, -1)
            potential = BumpPotential(bumps=len(bumps.widths), powers=self.drift.powers)
            constant = -c @ self.centre
            terms.append(potential.of(c, constant, bumps.centres, bumps.widths))
        by_kind = {
            p.kind: (p.splines, piece) for p, piece in zip(self.drift.pairs, pieces, strict=True)
        }
        if "interaction" in by_kind:
            splines, piece = by_kind["interaction"]
            term = SplineInteraction(knots=splines.count)
            terms.append(term.of(splines.unfold(piece), splines.reach))
        if "turning" in by_kind or "radial" in by_kind:
            splines = next(by_kind[k][0] for k in ("turning", "radial") if k in by_kind)
            radial, turning = (
                splines.unfold(by_kind[k][1]) if k in by_kind else np.zeros(splines.count + 5)
                for k in ("radial", "turning")
            )
            terms.append(SplineKernel(knots=splines.count).of(radial, turning, splines.reach))
        if self.entropy is not None:
            ready = self.entropy.init(np.eye(2, units.dim), units, jax.random.key(0))
            terms.append(ready.with_diffusion(estimate.beta))
        return Energy(tuple(terms), units)

    @property
    def centre(self) -> np.ndarray:
        """The mean of the functions of V over all individuals, where V has its zero."""
        if self.drift.bumps is None:
            return np.zeros(0)
        means = [w.weights @ self.drift.bumps.values(w.x) for w in self.found]
        return np.average(means, axis=0, weights=[len(w.x) for w in self.found])

    def uncertainty(self, estimate: Estimate, units: Units) -> Uncertainty:
        """The standard errors of an estimate."""
        assert estimate.posterior is not None
        root = estimate.posterior.root
        if self.entropy is not None and not self.entropy.learn:
            root = np.concatenate([root[:-1], np.zeros_like(root[-1:])])
        log_beta = None if self.entropy is None else float(np.log(estimate.beta))
        return Uncertainty(self.drift, estimate.c, log_beta, root, self.centre, units)


def _history(looks: list[Estimate]) -> dict[str, np.ndarray]:
    """The rounds as columns; the loss is minus the evidence."""
    return {
        "step": np.arange(1, len(looks) + 1),
        "loss": np.array([-e.posterior.evidence for e in looks if e.posterior is not None]),
        "misfit": np.array([e.misfit for e in looks]),
    }


def pair_pushes(energy: Energy, found: list[Window], basis: Basis) -> tuple[PairPush, ...]:
    """The pushes of pairs that an energy has, up to the largest distance in the data."""
    far = []
    for w in found[:: max(1, len(found) // 20)]:
        if w.near is not None:
            z = w.x[w.near.first] - w.x[w.near.second]
            far.append(np.sqrt((z**2).sum(axis=1)))
    if not far:
        raise BadInput("energy: pair terms need populations of two or more individuals")
    reach = constants.REACH * float(np.quantile(np.concatenate(far), constants.FARTHEST))
    count = int(np.clip(np.ceil(reach / (constants.KNOTS * min(basis.pair_widths))), 8, 120))
    pushes = []
    if energy.only(Interaction):
        pushes.append(PairPush(Splines(reach, count, True), "interaction"))
    if energy.only(VectorKernel):
        free = Splines(reach, count, False)
        # Next to an interaction the radial part of K would be the same thing twice.
        pushes += [] if pushes else [PairPush(free, "radial")]
        pushes += [PairPush(free, "turning")] if found[0].x.shape[1] == 2 else []
    if not pushes:
        raise BadInput("energy: outside the plane a VectorKernel beside an Interaction is nothing")
    return tuple(pushes)


def priors_of(drift: Drift, basis: Basis) -> Priors:
    """The prior of all coefficients, for every range of the interaction."""
    fixed: list[Block] = []
    size, first = drift.count, 0
    for wave in range(drift.powers if drift.bumps is not None else 0):
        assert drift.bumps is not None
        blocks = drift.bumps.blocks()
        fixed += [_placed(b, first, size, f"V({wave}) ", b.flat and wave == 0) for b in blocks]
        first += drift.bumps.count
    choices: dict[float, list[Block]] = {0.0: []}
    for push in drift.pairs:
        splines, name = push.splines, push.kind
        spans: tuple[float, ...] = (splines.reach,)
        if push.kind == "interaction" and drift.bumps is not None:
            spans = tuple(s for s in basis.ranges if s <= splines.reach) or spans
        if push.kind == "interaction":
            choices = {s: splines.blocks(name, basis.pair_widths, s) for s in spans}
            choices = {s: [_placed(b, first, size) for b in own] for s, own in choices.items()}
        else:
            more = splines.blocks(name, basis.pair_widths, splines.reach)
            more = [_placed(b, first, size) for b in more]
            choices = {s: own + more for s, own in choices.items()}
        first += splines.count
    return {span: fixed + own for span, own in choices.items()}


def _placed(block: Block, first: int, size: int, name: str = "", flat: bool = False) -> Block:
    """A block whose coefficients are some of all `size` coefficients, from the `first` on."""
    factor = np.zeros((size, block.factor.shape[1]))
    factor[first : first + len(block.factor)] = block.factor
    return Block(name + block.name, factor, flat)
