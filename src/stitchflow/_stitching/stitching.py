r"""Stitching: fit a curve and an energy together (the paper's method).

The objective is eq:stitch_ideal_global_approx,

$$\sum_{t\in obs} D(\rho_t, q_t) + \text{weight}\cdot R_{vel}[F, (\rho, v)],$$

minimised over the particles, weights and bandwidth of the curve and the parameters of the energy.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from stitchflow._data.advice import advice
from stitchflow._data.checks import check_data
from stitchflow._data.observations import POOL, Observations
from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._energy.packing import (
    energy_from,
    named_arrays,
    packed_method,
    plan_of,
    stored,
    terms_of,
    unpacked_method,
    with_arrays,
)
from stitchflow._energy.terms import Entropy, Potential, Term, ready
from stitchflow._measure.curve import Curve
from stitchflow._measure.kde import PAIR_BUDGET
from stitchflow._measure.spline import SplineCurve
from stitchflow._method.contract import Fit, Method, Packed
from stitchflow._method.flow import Flow
from stitchflow._objective.intervals import Forward
from stitchflow._objective.residual import VelocityResidual
from stitchflow._status import BadInput, BadInputType, DataWarning
from stitchflow._stitching.named_settings import with_settings
from stitchflow._stitching.plan import Plan, Specification
from stitchflow._stitching.resolve import resolve
from stitchflow._stitching.stages import train
from stitchflow._stitching.start import start, start_model
from stitchflow._stitching.stitched_flow import StitchedFlow
from stitchflow._stitching.task import Task
from stitchflow._training.checkpoint import Checkpoint
from stitchflow._training.optimise import Optimum
from stitchflow._training.sharding import Devices
from stitchflow._types import KeyLike, as_key
from stitchflow._weak_form.method import WeakFlow
from stitchflow._weak_form.stored import packed_uncertainty, uncertainty_from
from stitchflow.tracking import Callback, watched_by

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stitching(Specification, Method):
    """The paper's method, with its parts as objects. None leaves a choice to the data.

    Arguments:
        energy: the sum of terms to learn, such as `Potential() + Entropy() + Interaction()`.
        particles: how many the curve has; more describe finer clouds and cost more.
        nodes: times between which particles move straight, the observed times among them.
        residual: how far the curve is from the energy's flow; its weight is part of it.
        divergence: how far a marginal is from the individuals of its time.
        consistency: the second stage, in which the energy is trained on where it carries
            individuals; `Consistency(steps=0)` leaves it out.
        growth: a learned rate of birth and death; None keeps all masses as they are.
        optimiser: the rule, rate and number of steps of the first stage.
        batch: individuals that a step of the data term looks at.
        learn_particles: whether the particles' paths are trained, or stay where they start.
        learn_weights: whether the particles' weights are trained, or stay equal.
        learn_bandwidth: whether the kernel's width is trained.
        curve: `Spline()` for smooth paths; None for paths that are straight between nodes.
        init: the first paths and beta: `SmoothStart()`, or the paper's `StraightStart()`.
        spacing: where nodes lie in time: `ByAction()`, or the paper's `Even()`.
        kernel: the widths of the kernels: `BoundedKernel()`, or the paper's `FreeKernel()`.
        weights: what trains the weights: `DataWeights()`, or the paper's `JointWeights()`.
        scaling: the internal units: `Standardised()`, or the paper's `Unscaled()`.
        anchor: `ByAverages()` takes the energy from averages, with standard errors, where they
            tell it, and fits the curve under it; the paper's `NoAnchor()` always trains networks.
            None is the former for fits of at least 500 steps.
        shrinkage: `ByHeldOut()` holds some of few individuals out, and believes the share of the
            energy that carries them best; the paper's `NoShrinkage()` believes all of it. None is
            the former for fits of at least 500 steps.

    >>> Stitching(energy=Potential() + Entropy(), particles=100, nodes=50).name
    'stitching'
    """

    @classmethod
    def by_name(cls) -> dict[str, Callable[[], Method]]:
        return {"stitching": cls, "stitching-varying": cls.varying}

    @staticmethod
    def varying() -> Stitching:
        """The defaults with a potential V(x, t) that changes in time."""
        return Stitching(energy=Potential(time_varying=True) + Entropy())

    @staticmethod
    def paper(energy: Energy | Term | None = None, **experiment: Any) -> Stitching:
        """The published method, as the paper's text and appendices have it.

        Arguments:
            energy: the sum of terms to learn; None is V(x) and an entropy. Networks that are given
                stay as they are; `Potential(hidden=(64, 64), network=PlainNetwork())` is the
                paper's.
            experiment: what differs between the published runs, such as `particles`, `nodes`,
                `batch`, `learn_weights` and `optimiser` (docs/decisions.md), or any other setting.

        Returns:
            A `Stitching` with the name `stitching-paper`, or `stitching-paper-varying`.

        Examples:
            >>> sf.Stitching.paper(particles=200).spacing
            Even()
        """
        from stitchflow._stitching.published import (
            PaperStitching,  # `published.py` imports this module
        )

        given = {} if energy is None else {"energy": energy}
        return PaperStitching(**given, **experiment)

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "stitching-varying" if self.energy.time_varying else "stitching"

    def resolved(self, data: Snapshots) -> Stitching:
        """These settings with every None replaced by what suits the data."""
        return resolve(self, data)

    def plan(self, data: Snapshots) -> Plan:
        """What a fit to this data uses: these settings with nothing left open."""
        return Plan.of(self.resolved(data))

    def memory(self, data: Snapshots) -> int:
        """About how many bytes a fit needs beside the program itself."""
        plan = self.plan(data)
        n, k, largest, times = plan.particles, plan.nodes, int(data.counts.max()), len(data)
        batch = min(largest * times, max(plan.batch, 32))
        pairs = min(k * n * n, PAIR_BUDGET) + batch * n
        # A pass keeps about four pair arrays for its derivative; Adam two copies of all parameters.
        held = min(times * largest * data.dim, POOL)
        floats = 4 * pairs + 2 * held + 8 * k * n * data.dim
        return 4 * floats

    def advice(self, data: Snapshots) -> list[str]:
        """What to mind about the data, and about the nodes it would get."""
        return advice(data, self.resolved(data).nodes)

    def describe(self, data: Snapshots) -> str:
        """One line of what a fit to this data would use."""
        method = self.resolved(data)
        return (
            f"{method.name}: {method.energy!r}; {method.particles} particles, {method.nodes} "
            f"nodes, {method.residual.describe()}, {method.optimiser.steps} steps"
            f"{method._refining}, "
            f"about {self.memory(data) / 2**20:.0f} MiB"
        )

    @property
    def _refining(self) -> str:
        more, last = self.consistency.steps, self.consistency.settling
        return f", {more} for the energy alone, {last} for the curve alone" if more else ""

    def learning(self, physics: Energy) -> Stitching:
        """The same method for an energy of this form; a potential that varies goes on varying."""
        if self.energy.time_varying and not physics.time_varying:
            (potential,) = physics.only(Potential)
            varying = Potential(hidden=potential.hidden, time_varying=True)
            rest = (term for term in physics.terms if term is not potential)
            physics = Energy((varying, *rest))
        return replace(self, energy=physics)

    def by_euler_steps(self, data: Snapshots) -> Stitching:
        """The curve moves by one explicit step a gap, as the data did."""
        return replace(self, residual=VelocityResidual(Forward()), nodes=len(data))

    def with_settings(self, settings: Mapping[str, Any], **terms: bool) -> Stitching:
        return with_settings(self, settings, **terms)

    def fit(
        self, data: Snapshots, key: KeyLike, progress: bool, checkpoint: Checkpoint | None = None
    ) -> Fit:
        began = time.perf_counter()
        task = Task.of(self, data, key)
        seen = Observations.source(task.shown, task.units)
        optimum = task.trained(task.start(), seen, progress, checkpoint)
        optimum = replace(optimum, seconds=time.perf_counter() - began)
        return task.method._as_fit(task.believed(optimum), data, key, task.told)

    def fit_on(
        self,
        devices: Sequence[Any],
        data: Snapshots,
        key: KeyLike,
        progress: bool,
        checkpoint: Checkpoint | None = None,
    ) -> Fit:
        """Particles and individuals are cut into one part for each of the devices."""
        parts = Devices(devices)
        task = Task.of(self, data, key)
        particles = parts.multiple(task.plan.particles)
        task = replace(task, method=replace(task.method, particles=particles))
        curve, energy = task.start()
        model = parts.spread((curve, energy), [(curve.particles, 1), (curve.log_weights, 0)])
        place = lambda seen: parts.spread(seen, [(seen.points, 1), (seen.weights, 1)])
        seen = Observations.source(task.shown, task.units, len(parts), place)
        optimum = task.trained(model, seen, progress, checkpoint)
        whole = replace(optimum, model=parts.whole(optimum.model))
        return task.method._as_fit(task.believed(whole), data, key, task.told)

    def fit_together(
        self, data: Snapshots, parts: Sequence[Snapshots], key: KeyLike, progress: bool
    ) -> list[Fit]:
        """A fit to each of `parts`, reweighted copies of `data`, in one compiled loop."""
        resolved = self.resolved(data)
        plan, (start_key, loop_key) = Plan.of(resolved), jax.random.split(as_key(key))
        apart = plan.shrinkage.divided(plan.energy, data)[1] is not None
        if apart or plan.told_by_averages(data) is not None:
            # Every member has averages, or individuals held out, of its own; the curves share one
            # compiled program.
            keys = jax.random.split(loop_key, len(parts))
            return [self.fit(part, own, progress) for part, own in zip(parts, keys, strict=True)]
        starts = jax.random.split(start_key, (len(parts), 2))
        models = [start_model(plan, part, *keys) for part, keys in zip(parts, starts, strict=True)]
        arrays = [eqx.filter(model, eqx.is_array) for model in models]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)
        model = eqx.combine(stacked, eqx.filter(models[0], eqx.is_array, inverse=True))
        units = plan.scaling.units(data)
        weights = jnp.stack([Observations.of(part, units).weights for part in parts])
        seen = eqx.tree_at(lambda o: o.weights, Observations.of(data, units), weights)
        keys = jax.random.split(loop_key, len(parts))
        optimum = train(plan, model, lambda _: seen, keys, data, progress, together=True)
        member = lambda i: jax.tree.map(lambda a: a[i] if eqx.is_array(a) else a, optimum.model)
        return [
            resolved._as_fit(replace(optimum, model=member(i)), part)
            for i, part in enumerate(parts)
        ]

    def start_of(self, data: Snapshots, units: Units, key: KeyLike) -> Curve:
        return start(self.plan(data), data, key, units)

    def _as_fit(
        self, optimum: Optimum, data: Snapshots, key: KeyLike = None, told: WeakFlow | None = None
    ) -> Fit:
        curve, energy = optimum.model
        known = None if told is None else told.uncertainty
        flow = StitchedFlow(curve, energy, ready(energy.units), known)
        if told is not None:
            words = f"the energy is told by averages; {optimum.status.message}"
            optimum = replace(optimum, status=replace(optimum.status, message=words))
        return Fit.of(optimum, self, flow, energy, data, key)

    def pack(self, fit: Fit) -> Packed:
        flow = fit.flow
        assert isinstance(flow, StitchedFlow)
        header = packed_method(self, flow.energy) | {"nodes": flow.curve.times}
        if self.curve is not None:
            header["knots"] = flow.curve.held_at
        arrays = named_arrays((flow.curve, flow.energy))
        if flow.known is not None:  # the terms of the fit are not those that were asked for
            header["form"] = terms_of(self.energy)
            header["drift"] = packed_uncertainty(flow.known, arrays)
        return Packed(header, arrays)

    @classmethod
    def unpack(
        cls, packed: Packed, energy: Energy | None = None
    ) -> tuple[Method, Flow, Energy | None]:
        header, arrays = packed.header, packed.arrays
        method, ready = unpacked_method(cls, packed, energy, "[1]")
        assert ready.units is not None
        units = ready.units
        smooth = method.curve is not None
        kind = partial(SplineCurve, knots=tuple(header["knots"])) if smooth else Curve
        curve = kind(
            *(stored(arrays, f"[0].{n}") for n in ("particles", "log_weights", "raw_bandwidth")),
            times=tuple(header["nodes"]),
            growth=None
            if method.growth is None
            else method.growth.init(units.dim, jax.random.key(0)),
        )
        if curve.particles.shape[2] != units.dim:
            raise BadInput(f"particles and units differ in their dimensions ({units.dim})")
        curve, known = with_arrays(curve, arrays, "[0]"), None
        if "form" in header:
            method = replace(method, energy=energy_from(header["form"], packed.parts))
            known = uncertainty_from(header["drift"], arrays, units)
        return method, StitchedFlow(curve, ready, units, known), ready


def fit(
    data: Snapshots,
    method: Method | None = None,
    key: KeyLike = 0,
    *,
    progress: bool = True,
    checkpoint: Checkpoint | None = None,
    devices: Sequence[Any] | None = None,
    callback: Callback | None = None,
) -> Fit:
    """Fit a method to snapshots; the default is `Stitching()` with settings that suit the data.

    The data is checked first: what no method can be fitted to raises an error, and what a fit
    cannot correct is a `DataWarning` with what to do about it. Ctrl-C ends the training loop early,
    with the best model so far.

    Arguments:
        data: the snapshots, from `Snapshots.from_arrays` or `Snapshots.from_table`.
        method: what is fitted, with its settings; None means `Stitching()`.
        key: an integer seed or a JAX key; the same key gives the same result.
        progress: whether a progress bar is shown.
        checkpoint: a file that keeps the state of the fit, from which the fit continues where it
            exists; None keeps no state.
        devices: some of `jax.devices()`, which share one fit of stitching; None uses JAX's default
            device. With `jax.distributed` every process makes the same call and gets the same
            result.
        callback: a function that is called with a row of numbers each time the loss is read
            (`stitchflow.tracking`).

    Returns:
        A `Fit` with the learned `energy`, the `flow` that samples and simulates, the `status` with
        which the fit ended, and its `history`.

    Examples:
        >>> data, _ = sf.datasets.double_well()                # doctest: +SKIP
        >>> fit = sf.fit(data)                                 # doctest: +SKIP
        >>> fit.energy.potential(data.cloud(0))                # doctest: +SKIP
    """
    method = Stitching() if method is None else method
    if not isinstance(method, Method):
        raise BadInputType(f"method must be one such as Stitching(), got {method!r}")
    data, bits = check_data(data), jax.random.key_data(as_key(key)).tolist()
    for words in method.advice(data):
        warnings.warn(f"data: {words}", DataWarning, stacklevel=2)
    if checkpoint is not None:
        checkpoint = checkpoint.owned_by(data.fingerprint, plan_of(method), bits)
    with watched_by(callback):
        if devices is None:
            result = method.fit(data, key, progress, checkpoint)
        else:
            result = method.fit_on(devices, data, key, progress, checkpoint)
    log.info("%s", result.summary())
    return result
