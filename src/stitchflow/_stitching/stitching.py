r"""Stitching: fit a curve and an energy together (the paper's method).

The objective is eq:stitch_ideal_global_approx,

$$\sum_{t\in obs} D(\rho_t, q_t) + \text{weight}\cdot R_{vel}[F, (\rho, v)],$$

minimised over the particles, weights and bandwidth of the curve and the parameters of the energy.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from stitchflow._data.advice import advice
from stitchflow._data.checks import check_data
from stitchflow._data.observations import POOL, Observations
from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._energy.packing import (
    named_arrays,
    packed_method,
    plan_of,
    stored,
    unpacked_method,
    with_arrays,
)
from stitchflow._energy.terms import Entropy, Potential, Term
from stitchflow._measure.curve import Curve
from stitchflow._measure.kde import PAIR_BUDGET
from stitchflow._measure.spline import Spline, SplineCurve
from stitchflow._method.contract import Fit, Method, Packed
from stitchflow._method.flow import Flow
from stitchflow._objective.consistency import Consistency
from stitchflow._objective.divergence import KL, Divergence
from stitchflow._objective.growth import Growth
from stitchflow._objective.intervals import Forward
from stitchflow._objective.residual import Residual, VelocityResidual
from stitchflow._parts import LATER
from stitchflow._status import BadInput, BadInputType, DataWarning
from stitchflow._stitching.defaults import resolve
from stitchflow._stitching.named_settings import with_settings
from stitchflow._stitching.stages import train
from stitchflow._stitching.start import start
from stitchflow._stitching.stitched_flow import StitchedFlow
from stitchflow._training.checkpoint import Checkpoint
from stitchflow._training.optimise import Optimiser, Optimum
from stitchflow._training.sharding import Devices
from stitchflow._types import KeyLike, Scalar, as_key, check_count
from stitchflow.tracking import Callback, watched_by

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stitching(Method):
    """The paper's method, with its parts as objects. None leaves a choice to the data.

    `particles` and `nodes` are the size of the curve; `batch` the individuals looked at per step.
    `learn_weights`, `learn_bandwidth` and `learn_particles` free or freeze parts of the curve,
    whose paths are straight between nodes unless `curve` is a `Spline`.
    """

    energy: Energy = field(default_factory=lambda: Potential() + Entropy())
    particles: int | None = None
    nodes: int | None = None
    residual: Residual = field(default_factory=VelocityResidual)
    divergence: Divergence = field(default_factory=KL)
    consistency: Consistency = field(default_factory=Consistency)
    growth: Growth | None = None
    optimiser: Optimiser = field(default_factory=Optimiser)
    batch: int | None = None
    learn_particles: bool | None = None
    learn_weights: bool | None = None
    learn_bandwidth: bool | None = None
    curve: Spline | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        # A single term is an energy too.
        energy = Energy((self.energy,)) if isinstance(self.energy, Term) else self.energy
        kinds = {"energy": Energy, "residual": Residual}
        kinds |= {"divergence": Divergence, "optimiser": Optimiser, "consistency": Consistency}
        kinds |= {"growth": Growth, "curve": Spline}
        object.__setattr__(self, "energy", energy)
        for name, kind in kinds.items():
            value = getattr(self, name)
            absent = name in ("growth", "curve") and value is None
            if not absent and not isinstance(value, kind):
                raise BadInputType(f"{name} must be a {kind.__name__}, got {value!r}")
        for name, least in (("particles", 1), ("nodes", 2), ("batch", 1)):
            if getattr(self, name) is not None:
                check_count(getattr(self, name), name, least)

    @classmethod
    def by_name(cls) -> dict[str, Callable[[], Method]]:
        return {"stitching": cls, "stitching-varying": cls.varying}

    @staticmethod
    def varying() -> Stitching:
        """The defaults with a potential V(x, t) that changes in time."""
        return Stitching(energy=Potential(time_varying=True) + Entropy())

    @property
    def name(self) -> str:
        return "stitching-varying" if self.energy.time_varying else "stitching"

    def resolved(self, data: Snapshots) -> Stitching:
        """These settings with every None replaced by what suits the data."""
        return resolve(self, data)

    def memory(self, data: Snapshots) -> int:
        """About how many bytes a fit needs beside the program itself."""
        method = self.resolved(data)
        n, k = method.particles or 0, method.nodes or 0
        largest, times = int(data.counts.max()), len(data)
        batch = min(largest * times, max(method.batch or 0, 32))
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
        method = self.resolved(data)
        start_key, energy_key, loop_key = jax.random.split(as_key(key), 3)
        model, seen = method.model(data, start_key, energy_key), Observations.source(data)
        optimum = train(method, model, seen, loop_key, data, progress, checkpoint)
        return method._as_fit(optimum, data, key)

    def fit_on(
        self,
        devices: Sequence[Any],
        data: Snapshots,
        key: KeyLike,
        progress: bool,
        checkpoint: Checkpoint | None = None,
    ) -> Fit:
        """Particles and individuals are cut into one part for each of the devices."""
        method = self.resolved(data)
        start_key, energy_key, loop_key = jax.random.split(as_key(key), 3)
        parts = Devices(devices)
        assert method.particles is not None, "settings are not resolved"
        method = replace(method, particles=parts.multiple(method.particles))
        curve, energy = method.model(data, start_key, energy_key)
        model = parts.spread((curve, energy), [(curve.particles, 1), (curve.log_weights, 0)])
        place = lambda seen: parts.spread(seen, [(seen.points, 1), (seen.weights, 1)])
        seen = Observations.source(data, len(parts), place)
        optimum = train(method, model, seen, loop_key, data, progress, checkpoint)
        return method._as_fit(replace(optimum, model=parts.whole(optimum.model)), data, key)

    def fit_together(
        self, data: Snapshots, parts: Sequence[Snapshots], key: KeyLike, progress: bool
    ) -> list[Fit]:
        """A fit to each of `parts`, reweighted copies of `data`, in one compiled loop."""
        method = self.resolved(data)
        start_key, loop_key = jax.random.split(as_key(key))
        starts = jax.random.split(start_key, (len(parts), 2))
        models = [method.model(part, *keys) for part, keys in zip(parts, starts, strict=True)]
        arrays = [eqx.filter(model, eqx.is_array) for model in models]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)
        model = eqx.combine(stacked, eqx.filter(models[0], eqx.is_array, inverse=True))
        weights = jnp.stack([Observations.of(part).weights for part in parts])
        seen = eqx.tree_at(lambda o: o.weights, Observations.of(data), weights)
        keys = jax.random.split(loop_key, len(parts))
        optimum = train(method, model, lambda _: seen, keys, data, progress, together=True)
        member = lambda i: jax.tree.map(lambda a: a[i] if eqx.is_array(a) else a, optimum.model)
        return [
            method._as_fit(replace(optimum, model=member(i)), part) for i, part in enumerate(parts)
        ]

    def start_of(self, data: Snapshots, units: Units, key: KeyLike) -> Curve:
        return start(self.resolved(data), data, key, units)

    def model(self, data: Snapshots, start_key: Array, energy_key: Array) -> tuple[Curve, Energy]:
        """Where the fit starts: a curve along the least bent paths, an energy of the right size."""
        units = data.units
        curve = start(self, data, start_key, units)
        energy = self.energy.init(np.asarray(units.space_in(data.x)), units, energy_key)
        return curve, energy.sized_for(curve.speed)

    def _as_fit(self, optimum: Optimum, data: Snapshots, key: KeyLike = None) -> Fit:
        curve, energy = optimum.model
        return Fit.of(optimum, self, StitchedFlow(curve, energy, data.units), energy, data, key)

    def pack(self, fit: Fit) -> Packed:
        flow = fit.flow
        assert isinstance(flow, StitchedFlow)
        header = packed_method(self, flow.energy) | {"nodes": flow.curve.times}
        if self.curve is not None:
            header["knots"] = flow.curve.held_at
        return Packed(header, named_arrays((flow.curve, flow.energy)))

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
        curve = with_arrays(curve, arrays, "[0]")
        return method, StitchedFlow(curve, ready, units), ready

    def loss(
        self, model: tuple[Curve, Energy], data: Observations, key: Array
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """The boxed objective on one minibatch, and its two parts."""
        curve, energy = model
        draw, noise, quadrature = jax.random.split(key, 3)
        assert self.batch is not None, "settings are not resolved"
        times, points, weights, scale = data.minibatch(self.batch, draw)

        def divergence(t: Scalar, x: Array, w: Array, k: Array) -> Scalar:
            return self.divergence(curve.at(t), x, w, k)

        keys = jax.random.split(noise, times.shape[0])
        fit = scale * jax.vmap(divergence)(times, points, weights, keys).sum()
        # Weights answer to the individuals alone: a residual would empty paths it cannot explain.
        held = eqx.tree_at(lambda c: c.log_weights, curve, jax.lax.stop_gradient(curve.log_weights))
        residual = self.residual(held, energy, quadrature)
        parts = {"divergence": fit, "residual": residual}
        total = fit + self.residual.factor * residual
        if self.growth is not None:
            parts["growth"] = self.growth.loss(curve, data)
            total += parts["growth"]
        return total, parts

    def energy_loss(
        self, energy: Energy, data: tuple[Curve, Observations], key: Array
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """What the energy alone answers for once the curve is fixed, and its two parts."""
        curve, seen = data
        simulate, quadrature = jax.random.split(key)
        apart = self.consistency(energy, seen, simulate)
        residual = self.residual(curve, energy, quadrature)
        total = self.consistency.weight * apart + self.residual.factor * residual
        return total, {"consistency": apart, "residual": residual}

    def curve_loss(
        self, curve: Curve, data: tuple[Energy, Observations], key: Array
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """The boxed objective of a curve under a fixed energy."""
        energy, seen = data
        return self.loss((curve, energy), seen, key)


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
    """Fit a method to snapshots; the default is stitching with defaults that suit the data.

    A `checkpoint` keeps the state of the fit on disk and resumes from it. `devices`, some of
    `jax.devices()`, share one fit of stitching; with `jax.distributed` every process makes the
    same call and gets the same result. A `callback` is told every look at the loss
    (`stitchflow.tracking`).
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
