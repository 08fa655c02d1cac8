"""What can be told on a curve: velocities against an energy, dissipation, and a profile of beta.

Everything is computed at draws from the marginals in the middle between nodes, where velocity,
score and the energy's gradient are known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Entropy, Potential
from stitchflow._judging.regression import Regression
from stitchflow._measure.curve import Curve
from stitchflow._measure.kde import Cloud, Field
from stitchflow._objective.intervals import Intervals

BETAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)  # as shares of the fitted one, itself included
LOOKS = 8  # draws per particle over which the energy is averaged


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
def without(energy: Energy, kind: Any, curve: Curve, draws: Draws) -> Array:
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


def profile_of(
    regression: Regression, curve: Curve, energy: Energy, draws: Draws, motion: float
) -> list[tuple[float, float]]:
    """The explained share of the motion for each of several betas, with V fitted to each."""
    if not energy.only(Entropy):
        return []
    others = without(energy, (Potential, Entropy), curve, draws)
    found = []
    for share in BETAS:
        beta = share * float(energy.diffusion)
        rest = regression.pick(-(draws.velocity + others + beta * draws.score))
        left = regression.residuals(rest, regression.gradients).sum()
        found.append((share * energy.beta, float(1.0 - left / motion)))
    return found
