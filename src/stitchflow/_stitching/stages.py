"""The stages of a fit: curve and energy together, the energy alone, the curve alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
from jaxtyping import Array

from stitchflow._data.observations import Observations
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._measure.curve import Curve
from stitchflow._stitching.defaults import STEPS
from stitchflow._training.checkpoint import Checkpoint
from stitchflow._training.optimise import Optimum, minimise

if TYPE_CHECKING:
    from stitchflow._stitching.stitching import Stitching

# A curve settles under an energy that leaves no more than this share of its motion unexplained;
# one that another law drives is better left where the individuals put it.
MOST_UNEXPLAINED = 0.2


def train(
    method: Stitching,
    model: tuple[Curve, Energy],
    seen: Callable[[int], Observations],
    key: Array,
    data: Snapshots,
    progress: bool,
    checkpoint: Checkpoint | None = None,
    together: bool = False,
) -> Optimum:
    """Curve and energy by the boxed objective; the energy made consistent; the curve settled.

    `together`: arrays of the model and keys have a leading axis of members.
    """
    own = None
    if together:  # members differ in the weights of the individuals alone
        nothing, absent = jax.tree.map(lambda _: None, seen(0)), lambda leaf: leaf is None
        own = eqx.tree_at(lambda o: o.weights, nothing, 0, is_leaf=absent)
    # Bound methods compare by identity; this compares by settings, so that fits share programs.
    # The energy that is trained is the model's: one's own may hold arrays, which do not compare.
    settings = replace(method, energy=Energy(()))
    objective = lambda loss: jax.tree_util.Partial(loss, settings)
    first = minimise(
        objective(type(method).loss),
        model,
        seen,
        key,
        method.optimiser,
        STEPS,
        progress,
        label=method.name,
        checkpoint=checkpoint,
        pace=lambda ones: _slowed(ones, pace(method, data)),
        shared=own,
    )
    if not method.consistency.steps or not first.status.ok:
        return first
    curve, energy = first.model
    later = lambda stage: (
        jax.vmap(jax.random.fold_in, (0, None))(key, stage)
        if together
        else jax.random.fold_in(key, stage)
    )
    saved = lambda name: None if checkpoint is None else checkpoint.following(name)
    beside = lambda part: lambda tenth: (part, seen(tenth))
    second = minimise(
        objective(type(method).energy_loss),
        energy,
        beside(curve),
        later(1),
        method.consistency.optimiser,
        STEPS,
        progress,
        label="consistency",
        checkpoint=saved("energy"),
        shared=(0, own) if together else None,
    )
    both = first.then(second, (curve, second.model))
    if not method.consistency.settling or not second.status.ok:
        return both
    one = jax.tree.map(lambda a: a[0] if eqx.is_array(a) else a, curve) if together else curve
    unexplained = second.history["residual"][-1] / one.speed**2
    if unexplained > MOST_UNEXPLAINED:
        return both
    third = minimise(
        objective(type(method).curve_loss),
        curve,
        beside(second.model),
        later(2),
        method.consistency.settler,
        STEPS,
        progress,
        label="settling",
        checkpoint=saved("curve"),
        pace=lambda ones: _slowed((ones, None), pace(method, data))[0],
        shared=(0, own) if together else None,
    )
    return both.then(third, (third.model, second.model))


def pace(method: Stitching, data: Snapshots) -> float:
    """The particles' share of the learning rate.

    Paths without diffusion are seen as they are, and steps that are large beside the motion
    between two nodes would drown them.
    """
    if method.energy.needs_density:
        return 1.0
    assert method.nodes is not None, "settings are not resolved"
    return min(1.0, data.motion.distance / method.nodes)


def _slowed(paces: tuple[Curve, Any], share: float) -> tuple[Curve, Any]:
    """Particles step by a share of the motion there is, lest steps drown it."""
    curve, energy = paces
    return eqx.tree_at(lambda c: c.particles, curve, curve.particles * share), energy
