"""One fit to certain data: who is trained on, what is told, and how much is believed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import jax
from jaxtyping import Array

from stitchflow._data.observations import Observations
from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._measure.curve import Curve
from stitchflow._stitching.plan import Plan
from stitchflow._stitching.stages import train
from stitchflow._stitching.start import start_model
from stitchflow._training.checkpoint import Checkpoint
from stitchflow._training.optimise import Optimum
from stitchflow._types import KeyLike, as_key
from stitchflow._weak_form.method import WeakFlow

if TYPE_CHECKING:
    from stitchflow._stitching.stitching import Stitching


@dataclass(frozen=True)
class Task:
    """One fit to certain data.

    Arguments:
        method: the settings, with nothing left open.
        data: all individuals.
        shown: those who are trained on.
        held: those who are held out; None where nobody is.
        told: the energy that averages tell; None where networks learn it.
        key: the random key.
    """

    method: Stitching
    data: Snapshots
    shown: Snapshots
    held: Snapshots | None
    told: WeakFlow | None
    key: Array

    @staticmethod
    def of(method: Stitching, data: Snapshots, key: KeyLike) -> Task:
        """The fit of a method to data."""
        resolved = method.resolved(data)
        plan = Plan.of(resolved)
        told, shown, held = plan.told_by_averages(data), data, None
        # Who multiplies is carried by a rate as well, of which those held out know nothing.
        if told is None and plan.growth is None:
            shown, held = plan.shrinkage.divided(plan.energy, data)
        if held is not None:
            resolved = method.resolved(shown)
        return Task(resolved, data, shown, held, told, as_key(key))

    @cached_property
    def plan(self) -> Plan:
        """The settings as the loop takes them."""
        return Plan.of(self.method)

    @property
    def units(self) -> Units:
        """The internal units, which are those of who is trained on."""
        return self.plan.scaling.units(self.shown)

    @property
    def _keys(self) -> Array:
        """Of the curve's start, of the energy's, and of the loop."""
        return jax.random.split(self.key, 3)

    def start(self) -> tuple[Curve, Energy]:
        """Where the fit starts."""
        known = None if self.told is None else self.told.energy
        curve_key, energy_key, _ = self._keys
        return start_model(self.plan, self.shown, curve_key, energy_key, known)

    def trained(
        self,
        model: tuple[Curve, Energy],
        seen: Callable[[int], Observations],
        progress: bool,
        checkpoint: Checkpoint | None,
    ) -> Optimum:
        """The model after all stages; the arguments are those of `train`."""
        known = self.told is not None
        return train(
            self.plan, model, seen, self._keys[2], self.shown, progress, checkpoint, known=known
        )

    def believed(self, optimum: Optimum) -> Optimum:
        """The energy times the share that individuals who were held out ask for."""
        if self.held is None:
            return optimum
        curve, energy = optimum.model
        words = optimum.status.message
        if left := len(self.data.x) - len(self.shown.x) - len(self.held.x):
            words += f"; isolated and not trained on: {left}"
        key = jax.random.fold_in(self.key, 1)
        share = self.plan.shrinkage.share(energy, self.data, self.held, key)
        if share < 1.0:
            energy = energy.times(share)
            words += f"; individuals who were held out ask for {share:g} of the energy"
        status = replace(optimum.status, message=words)
        return replace(optimum, model=(curve, energy), status=status)
