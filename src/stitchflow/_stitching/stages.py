r"""The stages of a fit, as data: what each trains, by which loss, and when it is run.

The first is the paper's: curve and energy together by the boxed objective
(eq:stitch_ideal_global_approx),

$$\sum_{t\in obs} D(\rho_t, q_t) + \text{weight}\cdot R_{vel}[F, (\rho, v)].$$

Then the energy alone is trained on where it carries individuals, and the curve alone is trained
under the energy that was found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array

from stitchflow._data.observations import Observations
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._measure.curve import Curve
from stitchflow._stitching.defaults import MOST_UNEXPLAINED, STEPS
from stitchflow._stitching.plan import Plan
from stitchflow._training.checkpoint import Checkpoint
from stitchflow._training.history import StageHistory
from stitchflow._training.optimise import Optimiser, Optimum, minimise
from stitchflow._types import Scalar

# A loss of (plan, curve, energy, individuals, key), and the parts it is made of.
Loss = Callable[[Plan, Curve, Energy, Observations, Array], tuple[Scalar, dict[str, Scalar]]]


@dataclass(frozen=True)
class Stage:
    """One minimisation of a fit.

    Arguments:
        name: shown by progress bars, trackers and histories.
        loss: what is minimised.
        trains: the parts of the model whose parameters change; the others stay as they are.
        optimiser: the rule and the number of steps, as the plan has them.
        when: whether the stage is run, given the plan, the curve and the histories so far.
    """

    name: str
    loss: Loss
    trains: tuple[str, ...]
    optimiser: Callable[[Plan], Optimiser]
    when: Callable[[Plan, Curve, list[StageHistory]], bool]


def boxed_objective(
    plan: Plan, curve: Curve, energy: Energy, seen: Observations, key: Array
) -> tuple[Scalar, dict[str, Scalar]]:
    """The boxed objective (eq:stitch_ideal_global_approx) on one minibatch, and its parts."""
    draw, noise, quadrature = jax.random.split(key, 3)
    batch = seen.minibatch(plan.batch, draw)

    def divergence(t: Scalar, x: Array, w: Array, k: Array) -> Scalar:
        return plan.divergence(curve.at(t), x, w, k)

    keys = jax.random.split(noise, batch.times.shape[0])
    each = jax.vmap(divergence)(batch.times, batch.points, batch.weights, keys)
    fit = plan.divergence.over_times(each, batch)
    residual = plan.residual(plan.weights.shown(curve), energy, quadrature)
    parts = {"divergence": fit, "residual": residual}
    total = fit + plan.residual.factor * residual
    if plan.growth is not None:
        parts["growth"] = plan.growth.loss(curve, seen)
        total += parts["growth"]
    return total, parts


def consistency_objective(
    plan: Plan, curve: Curve, energy: Energy, seen: Observations, key: Array
) -> tuple[Scalar, dict[str, Scalar]]:
    """How far carried individuals are from those seen next, and the residual on a fixed curve."""
    simulate, quadrature = jax.random.split(key)
    apart = plan.consistency(energy, seen, simulate)
    residual = plan.residual(curve, energy, quadrature)
    total = plan.consistency.weight * apart + plan.residual.factor * residual
    return total, {"consistency": apart, "residual": residual}


def _explained(plan: Plan, curve: Curve, histories: list[StageHistory]) -> bool:
    """Whether the energy explains the curve's motion well enough for the curve to follow it."""
    if not plan.consistency.steps or not plan.consistency.settling:
        return False
    return histories[-1]["residual"][-1] / curve.speed**2 <= MOST_UNEXPLAINED


STAGES = (
    Stage(
        "stitching",
        boxed_objective,
        ("curve", "energy"),
        optimiser=lambda plan: plan.optimiser,
        when=lambda plan, curve, histories: True,
    ),
    Stage(
        "consistency",
        consistency_objective,
        ("energy",),
        optimiser=lambda plan: plan.consistency.optimiser,
        when=lambda plan, curve, histories: bool(plan.consistency.steps),
    ),
    Stage(
        "settling",
        boxed_objective,
        ("curve",),
        optimiser=lambda plan: plan.consistency.settler,
        when=_explained,
    ),
)

# Where averages tell the energy, the curve is fitted under it by the same objective.
UNDER_KNOWN_ENERGY = replace(STAGES[0], trains=("curve",))


def train(
    plan: Plan,
    model: tuple[Curve, Energy],
    seen: Callable[[int], Observations],
    key: Array,
    data: Snapshots,
    progress: bool,
    checkpoint: Checkpoint | None = None,
    together: bool = False,
    known: bool = False,
) -> Optimum:
    """All stages that apply, one after the other; the optimum's model is (curve, energy).

    Arguments:
        known: whether the energy is known already, so that the curve alone is trained.
        seen: the individuals of each tenth of a stage.
        together: arrays of the model and keys have a leading axis of members.
    """
    parts: dict[str, Any] = {"curve": model[0], "energy": model[1]}
    found: Optimum | None = None
    for number, stage in enumerate((UNDER_KNOWN_ENERGY,) if known else STAGES):
        if found is not None:
            one = _first_member(parts["curve"]) if together else parts["curve"]
            if not found.status.ok:
                break
            if not stage.when(plan, one, found.history):
                continue
        optimum = _carried_out(
            stage, number, plan, parts, seen, key, data, progress, checkpoint, together
        )
        parts |= dict(zip(stage.trains, optimum.model, strict=True))
        whole = (parts["curve"], parts["energy"])
        found = replace(optimum, model=whole) if found is None else found.then(optimum, whole)
    assert found is not None  # the first stage is always run
    return found


def _carried_out(
    stage: Stage,
    number: int,
    plan: Plan,
    parts: dict[str, Any],
    seen: Callable[[int], Observations],
    key: Array,
    data: Snapshots,
    progress: bool,
    checkpoint: Checkpoint | None,
    together: bool,
) -> Optimum:
    """One stage: its parts are trained beside the others, which the loss sees as data."""
    fixed = tuple(part for name, part in parts.items() if name not in stage.trains)
    shared = None
    if together:  # members share the individuals, and differ in their weights
        nothing, absent = jax.tree.map(lambda _: None, seen(0)), lambda leaf: leaf is None
        own = eqx.tree_at(lambda o: o.weights, nothing, 0, is_leaf=absent)
        shared = (0,) * len(fixed), own
    if number:
        later = lambda k: jax.random.fold_in(k, number)
        key = jax.vmap(later)(key) if together else later(key)
        checkpoint = None if checkpoint is None else checkpoint.following(stage.trains[0])
    # Bound methods compare by identity; this compares by settings, so that fits share programs.
    # The energy that is trained is the model's: one's own may hold arrays, which do not compare.
    settings = replace(plan, energy=Energy(()))
    optimiser = stage.optimiser(plan)
    return minimise(
        jax.tree_util.Partial(_stage_loss, settings, stage),
        tuple(parts[name] for name in stage.trains),
        lambda tenth: (fixed, seen(tenth)),
        key,
        optimiser,
        STEPS,
        progress,
        label=stage.name,
        checkpoint=checkpoint,
        pace=lambda ones: _paced(stage, ones, pace(plan, data)),
        shared=shared,
        last=optimiser.last,
    )


def _stage_loss(
    plan: Plan, stage: Stage, trained: tuple, data: tuple[tuple, Observations], key: Array
) -> tuple[Scalar, dict[str, Scalar]]:
    fixed, seen = data
    others = [name for name in ("curve", "energy") if name not in stage.trains]
    parts = dict(zip((*stage.trains, *others), (*trained, *fixed), strict=True))
    return stage.loss(plan, parts["curve"], parts["energy"], seen, key)


def _first_member(model: Any) -> Any:
    return jax.tree.map(lambda a: a[0] if eqx.is_array(a) else a, model)


def pace(plan: Plan, data: Snapshots) -> float:
    """The particles' share of the learning rate.

    Without diffusion particles are paths of individuals, which are observed as they are: steps
    that are larger than the motion between two nodes would destroy them.
    """
    if plan.optimiser.pace is not None:
        return plan.optimiser.pace
    if plan.energy.needs_density:
        return 1.0
    return min(1.0, data.motion.distance / plan.nodes)


def _paced(stage: Stage, ones: tuple, rate: float) -> tuple:
    """Multipliers of the learning rate: particles step by their own share of it."""
    slowed = lambda curve: eqx.tree_at(lambda c: c.particles, curve, curve.particles * rate)
    named = zip(stage.trains, ones, strict=True)
    return tuple(slowed(part) if name == "curve" else part for name, part in named)
