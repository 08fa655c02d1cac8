r"""Consistency: individuals that the energy alone carries must look like those observed next.

$$C[F] = \sum_k D(\Phi_{t_k\to t_{k+1}}\#q_k, q_{k+1}) + D(\Phi_{t_0\to t_{k+1}}\#q_0, q_{k+1})$$

with $\Phi$ the simulated dynamics and $D$ the energy distance. A residual compares velocities on a
smoothed curve. Consistency compares where individuals arrive, noise included, so that it has no
bias from a kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from stitchflow._data.observations import Observations
from stitchflow._energy.energy import Energy, density_for
from stitchflow._energy.pair_terms import distances
from stitchflow._measure.kde import KDE, Cloud, silverman
from stitchflow._parts import Part
from stitchflow._stitching import defaults
from stitchflow._training.optimise import Optimiser
from stitchflow._types import Scalar, check_count, check_number


class Consistency(eqx.Module, Part):
    r"""The second stage of a fit: the energy is trained on where it carries individuals.

    $$C[F] = \sum_k D(\Phi_{t_k\to t_{k+1}}\#q_k, q_{k+1})
      + D(\Phi_{t_0\to t_{k+1}}\#q_0, q_{k+1})$$

    with $\Phi$ the simulated dynamics and $D$ the energy distance, on random individuals of a few
    neighbouring snapshots. A third stage then trains the curve alone under the energy found.

    Arguments:
        weight: the factor of C in the objective, in which the residual has its own weight.
        steps: the number of steps of the second stage; 0 leaves it out, None derives it from the
            steps of the first.
        settling: the number of steps of the third stage; None derives it from `steps`.
        rate: the learning rate of the second stage, reached after a warm-up.
        individuals: how many of each snapshot are carried; None takes a share of the snapshots.
        moves: the number of time steps per gap; where a step sees fewer snapshots than `times`, its
            longer gaps have proportionally more.
        times: the largest number of snapshots in one step, neighbours or at equal strides.

    >>> sf.Stitching(consistency=Consistency(steps=0)).consistency.steps
    0
    """

    weight: float = eqx.field(static=True, default=defaults.CONSISTENCY_WEIGHT)
    steps: int | None = eqx.field(static=True, default=None)
    settling: int | None = eqx.field(static=True, default=None)
    rate: float = eqx.field(static=True, default=defaults.CONSISTENCY_RATE)
    individuals: int | None = eqx.field(static=True, default=None)
    moves: int = eqx.field(static=True, default=defaults.CONSISTENCY_MOVES)
    times: int = eqx.field(static=True, default=defaults.CONSISTENCY_TIMES)

    def __check_init__(self) -> None:
        check_number(self.weight, "weight", 0.0, open_low=True)
        check_number(self.rate, "rate", 0.0, open_low=True)
        for name in ("steps", "settling"):
            if getattr(self, name) is not None:
                check_count(getattr(self, name), name, 0)
        if self.individuals is not None:
            check_count(self.individuals, "individuals", 2)
        check_count(self.moves, "moves")
        check_count(self.times, "times", 2)

    @property
    def optimiser(self) -> Optimiser:
        """The optimiser of the second stage."""
        return Optimiser(
            steps=self.steps, learning_rate=self.rate, warmup=defaults.CONSISTENCY_WARMUP
        )

    @property
    def settler(self) -> Optimiser:
        """The optimiser of the third stage, with a smaller rate since the curve is good."""
        return Optimiser(steps=self.settling, learning_rate=defaults.SETTLING_RATE * self.rate)

    def __call__(self, energy: Energy, data: Observations, key: Array) -> Scalar:
        size = self.individuals or defaults.MOST_CARRIED, self.times, self.moves
        return arrival_distance(energy, data, energy_distance, *size, key)


def arrival_distance(
    energy: Energy,
    data: Observations,
    distance: Callable[[Array, Array, Array, Array], Scalar],
    individuals: int,
    most_times: int,
    moves: int,
    key: Array,
) -> Scalar:
    """The sum above for any distance between clouds; the arguments are of `arrival_distances`."""
    each = arrival_distances(energy, data, distance, individuals, most_times, moves, key)
    return each.sum(axis=1).sum()


def arrival_distances(
    energy: Energy,
    data: Observations,
    distance: Callable[[Array, Array, Array, Array], Scalar],
    individuals: int,
    most_times: int,
    moves: int,
    key: Array,
) -> Float[Array, "g 2"]:
    """The terms of the sum: after each gap, of those rolled out and of those carried over it alone.

    Arguments:
        energy: the energy, with parameters.
        data: the individuals of all snapshots in internal units.
        distance: called as `distance(x, weights of x, y, weights of y)`.
        individuals: how many of each snapshot are carried.
        most_times: the largest number of snapshots that are looked at.
        moves: the number of time steps per gap, if there are `most_times` snapshots.
        key: the random key of the choice and of the noise.
    """
    choose, draw, noise = jax.random.split(key, 3)
    chosen = window(len(data), most_times, choose)
    times = data.times[chosen]
    seen, weights = data.individuals(chosen, individuals, draw)
    moves = moves * (most_times - 1) // (len(times) - 1)

    def gap(rolled: Array, entry: tuple) -> tuple[Array, Float[Array, " 2"]]:
        t0, t1, (here, there), (w, target), gap_key = entry
        clouds, shares = jnp.stack([rolled, here]), jnp.stack([weights[0], w])
        ends = carry(energy, clouds, shares, t0, t1, moves, gap_key)
        apart = jax.vmap(distance, (0, 0, None, None))(ends, shares, there, target)
        return ends[0], apart

    keys = jax.random.split(noise, times.shape[0] - 1)
    pairs = lambda a: (a[:-1], a[1:])
    entries = (*pairs(times), pairs(seen), pairs(weights), keys)
    return jax.lax.scan(gap, seen[0], entries)[1]


def window(total: int, most: int, key: Array) -> Int[Array, " s"]:
    """The numbers of all `total` snapshots, or of `most` of them at a random equal stride.

    Strides are short, so that a few time steps carry a cloud over each gap. `key` is the random key
    of the stride and of the first snapshot.
    """
    if total <= most:
        return jnp.arange(total)
    pick_stride, pick_start = jax.random.split(key)
    longest = max(1, min(total // defaults.LONGEST_STRIDE, total // most))
    stride = jax.random.randint(pick_stride, (), 1, longest + 1)
    start = jax.random.randint(pick_start, (), 0, total - stride * (most - 1))
    return start + stride * jnp.arange(most)


def carry(
    energy: Energy,
    x: Float[Array, "s n d"],
    weights: Float[Array, "s n"],
    t0: Scalar,
    t1: Scalar,
    moves: int,
    key: Array,
) -> Float[Array, "s n d"]:
    """Several clouds moved by the SDE, each interacting only with itself; differentiable.

    Arguments:
        energy: the energy, with parameters.
        x: the positions of the clouds at time `t0`.
        weights: their weights, which sum to one in each cloud.
        t0: the internal time at which they start.
        t1: the internal time at which they arrive.
        moves: the number of time steps.
        key: the random key of the noise.
    """
    step = (t1 - t0) / moves
    spread, drifting = jnp.sqrt(2.0 * energy.diffusion * step), energy.without_noise
    density = lambda c, w: density_for(drifting, KDE(c, silverman(c, w), jnp.log(w)), c)

    def drift(y: Array, t: Scalar) -> Array:
        times, cloud = jnp.broadcast_to(t, y.shape[:1]), Cloud(y, weights)
        return -drifting.gradient(y, times, cloud, jax.vmap(density)(y, weights))

    def kick(i: Array) -> Array:
        return spread * jax.random.normal(jax.random.fold_in(key, i), x.shape, x.dtype)

    def stage(state: tuple[Array, Array, Array], rule: tuple) -> tuple[tuple, None]:
        base, y, before = state
        i, at, now_share, before_share, ahead, keep = rule
        now = drift(y, t0 + at * step)
        y = base + step * (now_share * now + before_share * before) + kick(i)
        return (jnp.where(ahead, base, y), y, jnp.where(keep, before, now)), None

    # The rule of Adams and Bashforth evaluates the network once per time step. Heun's makes the
    # first step, in two stages with the same noise, of which the first is only a prediction. All
    # stages are one loop, so that the drift is compiled once.
    stages = jnp.arange(moves + 1)
    ahead, second = stages == 0, stages == 1
    number = jnp.maximum(stages - 1, 0)
    at = jnp.where(second, 1, number)
    now_share = jnp.where(ahead, 1.0, jnp.where(second, 0.5, 1.5)).astype(x.dtype)
    rules = number, at, now_share, 1.0 - now_share, ahead, second
    return jax.lax.scan(stage, (x, x, jnp.zeros_like(x)), rules)[0][1]


def energy_distance(
    x: Float[Array, "n d"], a: Float[Array, " n"], y: Float[Array, "m d"], b: Float[Array, " m"]
) -> Scalar:
    """$2E|X-Y| - E|X-X'| - E|Y-Y'|$ of weighted clouds.

    The estimate is unbiased: pairs of a point with itself are left out, because with them few
    individuals would favour clouds that are too narrow. Scores use `metrics.energy_distance`, which
    counts those pairs and is never negative, but has no derivative.

    Arguments:
        x: the points of the first cloud.
        a: their weights, which sum to one.
        y: the points of the second cloud.
        b: their weights, which sum to one.
    """
    within = lambda z, w: w @ distances(z, z) @ w / jnp.maximum(1.0 - (w**2).sum(), 1e-6)
    return 2.0 * a @ distances(x, y) @ b - within(x, a) - within(y, b)
