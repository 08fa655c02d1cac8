"""Simulation of a cloud under the energy alone: the SDE, or the probability flow ODE."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import lineax
import numpy as np
from jaxtyping import Array, Float

from stitchflow._energy.energy import Energy, at_one, density_for
from stitchflow._energy.within import Populations
from stitchflow._measure.kde import KDE, silverman
from stitchflow._stitching import defaults
from stitchflow._types import Scalar

SHORTEST = 1.0 / 4000.0  # step of the adaptive solver, as a share of the whole time


def simulate(
    energy: Energy,
    x0: Float[Array, "n d"],
    times: np.ndarray,
    key: Array,
    ode: bool = False,
    weights: Array | np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> Float[Array, "t n d"]:
    r"""Positions at `times` of a cloud that is at `x0` at `times[0]`, in internal units.

    $$dX = -\nabla\frac{\delta F}{\delta\rho}\,dt + \sqrt{2\beta}\,dB,$$

    where the entropy is the noise and all other terms are the drift. Interactions and densities
    come from the cloud itself; interactions act within groups, where there are any, and densities
    are those of the whole cloud. The number of steps follows the steepness of the drift, which is
    measured again after every gap.

    Arguments:
        energy: an energy with parameters.
        x0: the positions at the first time.
        times: when positions are returned; increasing for the SDE.
        key: the random key of the noise.
        ode: replace the noise by the score of the cloud's kernel density, which gives a
            deterministic flow with the same marginals; it also runs backwards in time.
        weights: the weight of each point in the population that the others interact with; None
            weighs all equally.
        groups: the group of each point; None makes one population of the cloud.
    """
    n = x0.shape[0]
    # Clouds are padded to a few common sizes with weightless copies, so that gaps and protocols
    # with other counts reuse one compilation.
    padded = -(-n // 256) * 256 if n > 64 else n
    fill = jnp.arange(padded) % n
    w = jnp.ones(n) if weights is None else jnp.asarray(weights, x0.dtype)
    log_weights = jnp.where(jnp.arange(padded) < n, jnp.log(w)[fill], -jnp.inf)
    x = x0[fill]
    within = None
    if groups is not None and pairs_apart(energy)[0].terms and len(np.unique(groups)) > 1:
        within = Populations.of(groups, np.asarray(w, np.float64)).padded(fill)
    if ode:
        return _ode(energy, x, log_weights, within, jnp.asarray(times, float))[:, :n]
    path = [x0]
    for i, (t0, t1) in enumerate(pairwise(times)):
        t0, t1 = jnp.asarray(t0, float), jnp.asarray(t1, float)
        x = _sde_gap(energy, x, log_weights, within, t0, t1, jax.random.fold_in(key, i))
        path.append(x[:n])
    return jnp.stack(path)


def _sde_gap(
    energy: Energy,
    x: Array,
    log_weights: Array,
    within: Populations | None,
    t0: Array,
    t1: Array,
    key: Array,
) -> Float[Array, "n d"]:
    """One gap, repeated with smaller steps if the drift turned out to be steeper at its end."""
    gap = float(t1 - t0)
    slope = max(float(_steepness(energy, x, log_weights, t, within)) for t in (t0, t1))
    least = int(np.clip(np.ceil(defaults.STEPS_PER_UNIT * gap), 2, defaults.STEPS_PER_GAP))
    limit = (
        defaults.MOST_STEPS
        if all(term.resolvable for term in energy.terms)
        else defaults.MOST_UNRESOLVED
    )
    most = int(np.clip(defaults.MOST_STEPS_PER_UNIT * gap, defaults.MOST_UNRESOLVED, limit))
    while True:
        # A cloud with a point at infinity is continued with the least number of steps.
        lost = not np.isfinite(slope)
        steps = least if lost else int(np.clip(np.ceil(gap * slope / defaults.STABLE), least, most))
        y = _sde(energy, x, log_weights, within, t0, t1, jnp.asarray(steps), key)
        end = float(_steepness(energy, y, log_weights, t1, within))
        stable = np.isfinite(end) and gap * end / steps <= 3.0 * defaults.STABLE
        if stable or lost or steps >= most:
            return y
        slope = max(2.0 * steps * defaults.STABLE / gap, end if np.isfinite(end) else 0.0)


def pairs_apart(energy: Energy) -> tuple[Energy, Energy]:
    """The terms through which individuals act on each other directly, and all other terms.

    A term that reads the density is among the others: a density is that of the whole cloud.
    """
    direct = lambda term: term.sees_others and not term.reads_density
    pairs = tuple(term for term in energy.terms if direct(term))
    rest = tuple(term for term in energy.terms if not direct(term))
    return Energy(pairs, energy.units), Energy(rest, energy.units)


def _velocity(
    energy: Energy, x: Array, log_weights: Array, t: Any, within: Populations | None = None
) -> Float[Array, "n d"]:
    """The energy's velocity of a cloud whose own kernel density stands for the marginal."""
    rho = KDE(x, silverman(x, jax.nn.softmax(log_weights)), log_weights)
    if within is None:
        return -at_one(energy.gradient, x, t, rho, density_for(energy, rho, x))
    pairs, rest = pairs_apart(energy)
    alone = at_one(rest.gradient, x, t, rho, density_for(rest, rho, x))
    return -alone - within.gradient(pairs, x, t)


@eqx.filter_jit
def _sde(
    energy: Energy,
    x: Array,
    log_weights: Array,
    within: Populations | None,
    t0: Scalar,
    t1: Scalar,
    steps: Array,
    key: Array,
) -> Float[Array, "n d"]:
    drifting = energy.without_noise
    noise = jnp.sqrt(2.0 * energy.diffusion)
    spread = lineax.DiagonalLinearOperator(jnp.broadcast_to(noise, x.shape))
    path = diffrax.UnsafeBrownianPath(jax.ShapeDtypeStruct(x.shape, x.dtype), key)
    terms = diffrax.MultiTerm(
        diffrax.ODETerm(lambda t, y, _: _velocity(drifting, y, log_weights, t, within)),
        diffrax.ControlTerm(lambda t, y, _: spread, path),
    )
    solution = diffrax.diffeqsolve(
        terms,
        diffrax.Heun(),  # second order in the drift, and exact noise since it is additive
        t0,
        t1,
        (t1 - t0) / steps,
        x,
        saveat=diffrax.SaveAt(t1=True),
        adjoint=diffrax.ForwardMode(),
        max_steps=None,
        throw=False,
    )
    assert solution.ys is not None
    return solution.ys[0]


@eqx.filter_jit
def _ode(
    energy: Energy, x: Array, log_weights: Array, within: Populations | None, times: Array
) -> Float[Array, "t n d"]:
    tolerance = 1e-4 if x.dtype == jnp.float32 else 1e-8
    # At a kink of the energy no step meets the tolerance: shorter steps than this are not tried.
    least = jnp.abs(times[-1] - times[0]) * SHORTEST
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, _: _velocity(energy, y, log_weights, t, within)),
        diffrax.Tsit5(),
        times[0],
        times[-1],
        None,
        x,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(
            rtol=tolerance, atol=tolerance, dtmin=least, force_dtmin=True
        ),
        max_steps=int(10 / SHORTEST),
        throw=False,
    )
    assert solution.ys is not None
    return solution.ys


@eqx.filter_jit
def _steepness(
    energy: Energy,
    x: Array,
    log_weights: Array,
    t: Scalar,
    within: Populations | None = None,
    most: int = 256,
) -> Scalar:
    """About the largest singular value of the drift's Jacobian over (a part of) the cloud.

    The cloud moves along with its points: the force of a point on itself is always zero, however
    steep a pair term is there. Weightless copies, which coincide with a point, are left out.
    """
    if within is None:
        rows = slice(None, None, max(1, x.shape[0] // most))
        some, weights = x[rows], log_weights[rows]
    else:
        rows, within = within.some(most)
        shares = jnp.concatenate([share.reshape(-1) for share in within.weights])
        some, weights = x[rows], jnp.log(shares)
    asked = (weights > -jnp.inf)[:, None]
    direction = jax.random.normal(jax.random.key(0), some.shape, some.dtype)

    def drift(y: Array) -> Array:
        return _velocity(energy.without_noise, y, weights, t, within)

    def image(v: Array) -> Array:
        return jnp.where(asked, jax.jvp(drift, (some,), (jnp.where(asked, v, 0.0),))[1], 0.0)

    def sharpen(_, v):
        longer = image(v)
        return longer / (jnp.linalg.norm(longer, axis=1, keepdims=True) + 1e-12)

    v = jax.lax.fori_loop(0, 6, sharpen, direction / jnp.linalg.norm(direction, axis=1)[:, None])
    return jnp.linalg.norm(image(v), axis=1).max()
