"""The method `weak-form`: from snapshots to an energy with standard errors."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.snapshots import Snapshots
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
from stitchflow._energy.pair_terms import Interaction
from stitchflow._energy.per_condition import PerCondition
from stitchflow._energy.terms import Entropy, Potential, Term
from stitchflow._energy.vector_field import VectorField
from stitchflow._measure.kde import KDE
from stitchflow._method.contract import Fit, Method, Packed
from stitchflow._method.dividing import simulate_dividing
from stitchflow._method.driven import DrivenFlow
from stitchflow._method.flow import Flow
from stitchflow._objective.growth import Growth
from stitchflow._parts import LATER, made
from stitchflow._status import BadInput, NotAvailable, Status
from stitchflow._training.history import StageHistory
from stitchflow._types import KeyLike, check_count, check_number
from stitchflow._weak_form import constants
from stitchflow._weak_form.basis import Basis
from stitchflow._weak_form.deviation import deviating
from stitchflow._weak_form.estimate import Estimate
from stitchflow._weak_form.problem import Problem
from stitchflow._weak_form.refusals import (
    LEARNED,
    check_conditions,
    check_data,
    check_growth,
    check_term,
)
from stitchflow._weak_form.rest import at_rest
from stitchflow._weak_form.search import Search
from stitchflow._weak_form.stored import packed_uncertainty, uncertainty_from
from stitchflow._weak_form.uncertainty import Uncertainty


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
        energy: which terms are learned: `Potential`, `Entropy`, `Interaction` (one that is not
            radial in at most three dimensions), in the plane a `VectorKernel` that is the same in
            all directions, and a `VectorField` that does not vary in time. Next to a potential the
            field has no divergence. A `PerCondition(Potential())` beside a `Potential` is what
            each condition adds. The `hidden` of terms is not used.
        basis: what they are made of; None is the default `Basis`.
        growth: a learned rate of birth minus death, `Growth()`; None for none. It adds
            $\langle\eta g\rangle - \langle\eta\rangle\langle g\rangle$ to the equation, which
            does not tell the mean of g: it is zero. The settings of `Growth` are not used.

    >>> WeakForm(sf.Potential() + sf.Interaction(radial=False))
    WeakForm(energy=Potential(V(x)) + Interaction(W(x - y)), basis=None, growth=None)
    """

    name = "weak-form"
    setting_names: ClassVar[tuple[str, ...]] = ("conditions", "field", "growth", "radial")

    energy: Energy = field(default_factory=lambda: Potential() + Entropy())
    basis: Basis | None = None
    growth: Growth | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        if isinstance(self.energy, Term):
            object.__setattr__(self, "energy", Energy((self.energy,)))
        for term in self.energy.terms:
            check_term(term)
        for kind in LEARNED:
            if len(self.energy.only(kind)) > 1:
                raise BadInput(f"energy: WeakForm learns one {kind.__name__}, got {self.energy!r}")
        if not self._moving:
            raise BadInput(f"energy needs a term that moves individuals, got {self.energy!r}")
        check_conditions(self.energy)
        check_growth(self.growth)

    @property
    def _moving(self) -> tuple[Any, ...]:
        return tuple(term for term in self.energy.terms if not isinstance(term, Entropy))

    def learning(self, physics: Energy) -> WeakForm:
        return replace(self, energy=physics)

    def with_settings(self, settings: Mapping[str, Any], **terms: bool) -> WeakForm:
        for name, value in settings.items():
            if name not in self.setting_names:
                known = ", ".join(self.setting_names)
                raise BadInput(f"--method {self.name} has the settings {known}, got {name!r}")
            if value not in (0, 1):
                raise BadInput(f"{name} must be true or false, got {value!r}")
        chosen: list[Term] = [Potential(time_varying=terms.get("time_varying", False))]
        chosen += [PerCondition(chosen[0])] if settings.get("conditions") else []
        if terms.get("interaction"):
            chosen.append(Interaction(radial=bool(settings.get("radial", True))))
        chosen += [VectorField(divergence_free=True)] if settings.get("field") else []
        chosen += [] if terms.get("no_entropy") else [Entropy()]
        growth = Growth() if settings.get("growth") else None
        return replace(self, energy=Energy(tuple(chosen)), growth=growth)

    def fit(self, data: Snapshots, key: KeyLike, progress: bool, checkpoint: Any = None) -> Fit:
        began = time.perf_counter()
        check_data(self.energy, self.growth, data)
        grows = self.growth is not None
        problem = Problem.of(self.energy, self.basis or Basis(), data, grows)
        estimate, kind, history = Search(problem).estimate()
        energy = problem.fitted(estimate, data.units)
        # A rate is seen by change, or by the noise of individuals that are known to be the same.
        learned = problem.learns_beta
        # Populations that are followed show their noise, whatever their averages do.
        told = estimate.same or problem.crowd is not None
        rest = learned and not told and at_rest(data)
        known = problem.uncertainty(estimate, data.units)
        known = known.up_to_a_factor() if rest else known
        settled = estimate.converged and not estimate.relaxed
        flow = WeakFlow(self.name, energy, data, known, estimate.misfit, settled)
        message = "; ".join([kind, f"{estimate.rounds} rounds", *estimate.concerns])
        if estimate.span[0] == 0 and self.energy.only(VectorField):
            message += "; the data ask for no field, which is taken as zero"
        if deviating(problem.drift) is not None:
            message += _difference(problem, estimate)
        if problem.entropy is not None:
            beta = flow.uncertainty.beta
            message += f"; beta = {beta.mean:.3g} +- {beta.sd:.1g}"
        if estimate.relaxed:
            message += "; V is told against beta, and beta to orders of magnitude only"
        if rest:
            message += "; nothing changed beyond chance, which tells V and W against beta, no size"
        return Fit(
            self,
            flow,
            energy if energy.terms else None,
            Status(not estimate.concerns, message),
            [StageHistory(self.name, history)],
            len(history["step"]),
            time.perf_counter() - began,
            seed=int(key) if isinstance(key, (int, np.integer)) else None,
            data=data,
        )

    def pack(self, fit: Fit) -> Packed:
        flow = fit.flow
        assert isinstance(flow, WeakFlow)
        own: dict[str, np.ndarray] = {}
        header = packed_method(self, flow.energy) | {"form": terms_of(self.energy)}
        header["drift"] = packed_uncertainty(flow.uncertainty, own)
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
        known = uncertainty_from(header["drift"], arrays, units)
        return method, WeakFlow(cls.name, ready, data, known), ready


def _difference(problem: Problem, estimate: Estimate) -> str:
    """Whether the evidence asked for a difference between conditions."""
    found = deviating(problem.drift)
    assert found is not None
    if estimate.c[found[1]].any():
        return "; conditions differ in V"
    return "; the data ask for no difference between conditions, which is taken as zero"


class WeakFlow(DrivenFlow):
    """Individuals moved by the learned energy.

    Arguments:
        method: the name of the method, for messages.
        energy: the learned energy.
        data: the training individuals.
        uncertainty: the standard errors of the energy.
        misfit: the mean square of the residuals of the fit, in units of their noise; None where it
            is not known any more.
        settled: whether rounds have settled, the last of which moved the estimate by less than its
            error; an equilibrium that was assumed has no rounds.
    """

    def __init__(
        self,
        method: str,
        energy: Energy,
        data: Snapshots,
        uncertainty: Uncertainty,
        misfit: float | None = None,
        settled: bool = True,
    ):
        super().__init__(method, energy, data)
        self._uncertainty, self.misfit, self.settled = uncertainty, misfit, settled

    @property
    def uncertainty(self) -> Uncertainty:
        return self._uncertainty

    @property
    def conditions(self) -> tuple[str, ...]:
        return self.energy.conditions

    def of(self, condition: Any) -> WeakFlow:
        energy, known = self.energy.of(condition), self.uncertainty.of(condition)
        return WeakFlow(self.method, energy, self.data.of(condition), known)

    def growth(self, x: Any, t: float) -> Float[Array, " m"]:
        """The learned rate of birth minus death at points `x` (m, d), per unit of time.

        It is the same at all times `t`, and its mean over all individuals is zero.
        """
        check_number(t, "t")
        if self.uncertainty.drift.growth is None:
            raise NotAvailable(self.method, "growth", "it was fitted without growth")
        return jnp.asarray(self.uncertainty.growth(x).mean, float)

    def mass(self, t: float) -> float:
        raise NotAvailable(self.method, "mass", "averages do not tell the size of the population")

    def simulate(
        self,
        x0: Any,
        times: Any,
        key: KeyLike = 0,
        *,
        weights: Any = None,
        groups: Any = None,
        ode: bool = False,
    ) -> Float[Array, "t n d"]:
        """Positions at `times` of individuals that the energy moves from `x0`.

        With a learned growth rate, individuals divide and die along the SDE while their number
        stays constant: a row is then not the same individual at all times.
        """
        if self.uncertainty.drift.growth is None or ode:
            return super().simulate(x0, times, key, weights=weights, groups=groups, ode=ode)
        return simulate_dividing(
            self.energy, self.units, self.growth, x0, times, key, weights, groups
        )

    def simulate_same(
        self, x0: Any, times: Any, key: KeyLike = 0, *, weights: Any = None, groups: Any = None
    ) -> Float[Array, "t n d"]:
        return super().simulate(x0, times, key, weights=weights, groups=groups)

    def sample(self, times: Any, n: int, key: KeyLike = 0) -> Float[Array, "t n d"]:
        check_count(n, "n")
        raise NotAvailable(self.method, "sample", "it learns what moves individuals, no marginals")

    def velocity(self, x: Any, t: float) -> Float[Array, "m d"]:
        """The velocity that moves the marginal at time t: the drift minus beta times the score."""
        points, moment = self.units.points_in(x), self.units.moment_in(t)
        cloud = self.units.space_in(np.asarray(super().sample([t], constants.POPULATION)[0]))
        return velocity(self.energy, points, moment, KDE.uniform(cloud)) * self.units.speed
