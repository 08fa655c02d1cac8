"""Is this population driven by an energy, and how certain is that?

All numbers are computed on a curve, at draws from its marginals in the middle between nodes, where
velocity, score and the energy's gradient are known. Additional fields are linear combinations of
fixed waves, so that they are least-squares problems with a unique solution.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Entropy, Potential
from stitchflow._judging.change import change
from stitchflow._judging.diagnosis import Carried, Diagnosis, as_good
from stitchflow._judging.evaluate import evaluate
from stitchflow._judging.protocols import Protocol
from stitchflow._judging.regression import Regression
from stitchflow._measure.curve import Curve
from stitchflow._measure.kde import Cloud, Field
from stitchflow._method.contract import Fit
from stitchflow._objective.intervals import Intervals
from stitchflow._status import BadInput, BadInputType, NotAvailable, Status
from stitchflow._stitching.ensemble import Ensemble
from stitchflow._types import KeyLike, as_key, as_rng
from stitchflow.rivals._nearest import Nearest, NearestFlow

# A residual below this share of the motion counts as this much: it needs no explanation.
SMALL = 0.05
BETAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)  # as shares of the fitted one, itself included
LOOKS = 8  # draws per particle over which the energy is averaged
CARRIED, CARRIED_TIMES = 300, 15  # held-out individuals per time, and times, that are carried


class Draws(NamedTuple):
    """Points of the curve in the middle between nodes, and what is known there (internal units).

    Arguments:
        x: the points.
        times: the time of each interval's middle.
        velocity: the velocity of the curve.
        score: the gradient of the log density.
        gradient: the gradient of the whole energy.
        mass: the duration of the interval times the weight of the particle.
    """

    x: Float[Array, "i n d"]
    times: Float[Array, " i"]
    velocity: Float[Array, "i n d"]
    score: Float[Array, "i n d"]
    gradient: Float[Array, "i n d"]  # of the whole energy
    mass: Float[Array, "i n"]  # duration times weight


def diagnose(
    fit: Fit | Ensemble,
    data: Snapshots | None = None,
    *,
    test: Snapshots | None = None,
    key: KeyLike = 0,
) -> Diagnosis:
    """Test whether the fitted population is driven by an energy.

    Three questions come first: whether the snapshots differ by more than sampling noise, whether
    growth in place could have changed them as much, and whether the energy carries held-out
    individuals nearer to the next snapshot than no motion at all.

    Rotation is then looked for on paths through matched individuals, because the fitted curve was
    already drawn towards a gradient flow. A time-varying potential explains any smooth curve and is
    replaced here by the best static one.

    Arguments:
        fit: a fit with a curve and an energy, or an ensemble, whose first member is examined and
            whose spread over all members is reported.
        data: the individuals to look for rotation in; None takes those of the fit. A loaded fit has
            none, and its fitted curve is used instead.
        test: individuals that the fit has not seen. Without them no population is called a gradient
            flow.
        key: a JAX key or an integer seed.

    Returns:
        The numbers, and two sentences to quote.

    >>> print(sf.diagnose(fit, test=test))                    # doctest: +SKIP
    """
    spread: dict[str, float] = {}
    if isinstance(fit, Ensemble):
        fit, spread = fit.members[0], fit.spread()
    flow = fit.flow
    curve, energy = flow.fitted_curve, fit.energy
    if curve is None or energy is None or energy.units is None:
        raise NotAvailable(fit.method.name, "diagnose", "it has no curve with an energy")
    for name, given in (("data", data), ("test", test)):
        if given is not None and not isinstance(given, Snapshots):
            raise BadInputType(f"{name} must be Snapshots, got {type(given).__name__}")
        if given is not None and given.dim != flow.dim:
            raise BadInput(f"{name} must have {flow.dim} dimensions, got {given.dim}")
    data = fit.data if data is None else data
    seen = _everybody(data, test)
    draws = draw_from(curve, energy, as_key(key))
    regression = Regression.of(draws.x, draws.mass, as_rng(key))
    motion = regression.squares(regression.pick(draws.velocity)).sum()
    varying = energy.time_varying
    if varying:
        rest = _without(energy, Potential, curve, draws)
        target = regression.pick(-(draws.velocity + rest))
        left = regression.residuals(target, regression.gradients)
    else:
        left = regression.squares(regression.pick(draws.velocity + draws.gradient))
    untouched = curve
    if data is not None:
        untouched = fit.method.start_of(data, energy.units, key) or curve
    removed, interval = non_gradient(untouched, energy, key)
    profile = _profile(regression, curve, energy, draws, motion)
    counts = () if data is None else tuple((data.counts / data.counts[0]).tolist())
    return Diagnosis(
        explained=float(1.0 - left.sum() / motion),
        dissipation=dissipation(curve, energy, draws),
        non_gradient=removed,
        non_gradient_interval=interval,
        profile=tuple(profile),
        beta=energy.beta,
        beta_interval=as_good(profile, energy.beta),
        spread=spread,
        masses=counts,
        time_varying=varying,
        change=None if seen is None else change(seen, key),
        one_step=None if test is None else one_step(fit, test, key),
    )


def _everybody(data: Snapshots | None, test: Snapshots | None) -> Snapshots | None:
    """Training and held-out individuals in one table; ids are kept if all are followed."""
    if data is None or test is None or data.paired:
        return test if data is None else data
    parts = (data, test)
    return Snapshots.from_table(
        np.concatenate([part.x for part in parts]),
        np.concatenate([part.times[part.index] for part in parts]),
        weights=np.concatenate([part.weights for part in parts]),
    )


def one_step(fit: Fit, test: Snapshots, key: KeyLike) -> Carried | None:
    """W1 after one gap with the fit and without motion, both scored by `evaluate`.

    Arguments:
        fit: the fit.
        test: held-out individuals; with many times only some of them are used.
        key: the random key.

    Returns:
        Both distances, or None where there is no score.
    """
    kept = np.unique(np.linspace(0, len(test) - 1, CARRIED_TIMES).round().astype(int))
    test = test.keep_times(test.times[kept]).subsample(CARRIED, key)
    still = Fit(Nearest(), NearestFlow(test), None, Status(True, ""), [], 0, 0.0, times=fit.times)
    ask = {"metrics": ("w1",), "protocols": (Protocol.ONE_STEP,), "key": key}
    try:
        return Carried(
            *(evaluate(one, test, **ask).mean(Protocol.ONE_STEP) for one in (fit, still))
        )
    except KeyError:  # no such time, or individuals were carried to infinity
        return None


def non_gradient(curve: Curve, energy: Energy, key: KeyLike) -> tuple[float, tuple[float, float]]:
    """The share of the residual that divergence-free fields remove in addition to a potential.

    V is fitted again, without the stretch of time on which it is judged: a flexible V explains
    every path that never returns to a place, but not the next path.

    Arguments:
        curve: the paths.
        energy: its potential is replaced by the fitted one; other terms are kept.
        key: the random key.

    Returns:
        The share and its 90 % interval.
    """
    draws = draw_from(curve, energy, as_key(key))
    regression = Regression.of(draws.x, draws.mass, as_rng(key))
    motion = regression.squares(regression.pick(draws.velocity)).sum()
    target = regression.pick(-(draws.velocity + _without(energy, Potential, curve, draws)))
    both = np.concatenate([regression.gradients, regression.rotations], axis=2)
    alone = regression.residuals(target, regression.gradients)
    return regression.removed(alone, regression.residuals(target, both), SMALL * motion)


@eqx.filter_jit
def draw_from(curve: Curve, energy: Energy, key: Array) -> Draws:
    """One draw per particle of a `curve` at the middle of every interval; `key` is the random key.

    The gradient is that of `energy`.
    """
    intervals = Intervals.of(curve)
    times, centres, logits = intervals.at(0.5)
    noise = jax.random.normal(key, centres.shape, centres.dtype)
    x = centres + jnp.broadcast_to(curve.bandwidth, centres.shape[1:])[None] * noise
    fields = _fields(curve, intervals, x)
    gradient = energy.gradient(x, times, _around(curve, centres, logits), fields)
    assert fields.velocity is not None
    mass = intervals.step[:, None] * intervals.weights
    return Draws(x, times, fields.velocity, fields.score, gradient, mass)


def _around(curve: Curve, centres: Array, logits: Array) -> Cloud:
    """The marginals as one draw around each particle interacts with them."""
    return curve.cloud(centres, logits, jnp.arange(centres.shape[1]))


def _fields(curve: Curve, intervals: Intervals, x: Array) -> Field:
    _, centres, logits = intervals.at(0.5)
    at = lambda entry: curve.kde(*entry[:2]).field(entry[3], entry[2])
    return jax.lax.map(at, (centres, logits, intervals.velocities(), x))


@eqx.filter_jit
def _without(energy: Energy, kind: Any, curve: Curve, draws: Draws) -> Array:
    """The energy's gradient at the draws without the terms of some kinds."""
    rest = Energy(tuple(term for term in energy.terms if not isinstance(term, kind)))
    intervals = Intervals.of(curve)
    _, centres, logits = intervals.at(0.5)
    fields = _fields(curve, intervals, draws.x)
    return rest.gradient(draws.x, draws.times, _around(curve, centres, logits), fields)


@eqx.filter_jit
def _functional(energy: Energy, curve: Curve, key: Array) -> tuple[Array, Array]:
    r"""$F[\rho]$ in the middle of every interval, and $E[\partial_t V]$, the work of a changing V.

    Both are means under the density itself, as the velocity is: at the centres alone a diffusing
    cloud would lose more energy than it has. Offsets are the same at all times, so that their noise
    cancels.
    """
    intervals = Intervals.of(curve)
    times, centres, logits = intervals.at(0.5)
    cloud, changing = _around(curve, centres, logits), Energy(energy.only(Potential))

    def look(own: Array) -> tuple[Array, Array]:
        noise = jax.random.normal(own, centres.shape[1:], centres.dtype)
        x = centres + (jnp.broadcast_to(curve.bandwidth, noise.shape) * noise)[None]
        fields = _fields(curve, intervals, x)
        heat = jax.grad(lambda t: cloud.mean(changing.local(x, t, cloud, fields)).sum())(times)
        return cloud.mean(energy.local(x, times, cloud, fields)), heat

    found = jax.lax.map(look, jax.random.split(key, LOOKS))
    return found[0].mean(axis=0), found[1].mean(axis=0)


def dissipation(curve: Curve, energy: Energy, draws: Draws) -> float:
    r"""$[F(\rho_T)-F(\rho_0)-\int E\,\partial_t V] \,/\, -\tfrac12\int(|v|^2+|\nabla\delta F|^2)$.

    It is one for a gradient flow (energy-dissipation equality) and smaller otherwise.

    Arguments:
        curve: the curve, from the middle of its first interval to the middle of its last.
        energy: the energy.
        draws: velocities and gradients at points of the curve.
    """
    along, heating = (
        np.asarray(part, np.float64) for part in _functional(energy, curve, jax.random.key(0))
    )
    times = np.asarray(draws.times, np.float64)
    heat = np.trapezoid(heating, times)
    weights = np.asarray(Intervals.of(curve).weights, np.float64)
    squares = (
        np.asarray(draws.velocity, np.float64) ** 2 + np.asarray(draws.gradient, np.float64) ** 2
    )
    lost = 0.5 * np.trapezoid((squares.sum(-1) * weights).sum(1), times)
    return float((along[-1] - along[0] - heat) / -max(lost, 1e-300))


def _profile(
    regression: Regression, curve: Curve, energy: Energy, draws: Draws, motion: float
) -> list[tuple[float, float]]:
    """The explained share of the motion for each of several betas, with V fitted to each."""
    if not energy.only(Entropy):
        return []
    others = _without(energy, (Potential, Entropy), curve, draws)
    found = []
    for share in BETAS:
        beta = share * float(energy.diffusion)
        rest = regression.pick(-(draws.velocity + others + beta * draws.score))
        left = regression.residuals(rest, regression.gradients).sum()
        found.append((share * energy.beta, float(1.0 - left / motion)))
    return found
