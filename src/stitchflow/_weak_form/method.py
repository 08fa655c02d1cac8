"""The method `weak-form`: from snapshots to an energy with standard errors."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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
from stitchflow._types import KeyLike, check_count
from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Bumps, Splines
from stitchflow._weak_form.carry import Drift
from stitchflow._weak_form.pair_push import PairPush
from stitchflow._weak_form.problem import Basis, Problem
from stitchflow._weak_form.rest import at_rest
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
        problem = Problem.of(self.energy, self.basis or Basis(), data)
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
