r"""Consistency: individuals carried by the energy alone must look like those seen next.

$$C[F] = \sum_k D(\Phi_{t_k\to t_{k+1}}\#q_k, q_{k+1}) + D(\Phi_{t_0\to t_{k+1}}\#q_0, q_{k+1})$$

with $\Phi$ the simulated dynamics and $D$ the energy distance. Residuals judge velocities on a
smoothed curve; this judges where individuals arrive, noise included, so that it has no kernel bias.
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
    """How far carried clouds are from seen ones, on random individuals of a few times.

    `weight` is its share of the objective, over `steps` steps whose rate rises to `rate` (0: no
    second stage), after which the curve alone settles under the energy found for `settling` more.
    `individuals` of each of at most `times` neighbouring snapshots are carried by
    `moves` steps a gap, and by more over fewer, longer gaps. None leaves a choice to the data.
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
        return Optimiser(
            steps=self.steps, learning_rate=self.rate, warmup=defaults.CONSISTENCY_WARMUP
        )

    @property
    def settler(self) -> Optimiser:
        """The curve is good already: smaller steps."""
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
    """The sum above for any `distance(x, weights of x, y, weights of y)` of clouds."""
    choose, draw, noise = jax.random.split(key, 3)
    chosen = window(len(data), most_times, choose)
    times = data.times[chosen]
    seen, weights = data.individuals(chosen, individuals, draw)
    moves = moves * (most_times - 1) // (len(times) - 1)

    def gap(rolled: Array, entry: tuple) -> tuple[Array, Scalar]:
        t0, t1, (here, there), (w, target), gap_key = entry
        clouds, shares = jnp.stack([rolled, here]), jnp.stack([weights[0], w])
        ends = carry(energy, clouds, shares, t0, t1, moves, gap_key)
        apart = jax.vmap(distance, (0, 0, None, None))(ends, shares, there, target)
        return ends[0], apart.sum()

    keys = jax.random.split(noise, times.shape[0] - 1)
    pairs = lambda a: (a[:-1], a[1:])
    entries = (*pairs(times), pairs(seen), pairs(weights), keys)
    return jax.lax.scan(gap, seen[0], entries)[1].sum()


def window(total: int, most: int, key: Array) -> Int[Array, " s"]:
    """All of `total` snapshots, or `most` neighbours, some left out between where there are many.

    Gaps stay short, so that a few moves carry a cloud over each.
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
    """Several clouds moved from t0 to t1 by the SDE, each seeing only itself; differentiable."""
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

    # Adams and Bashforth's rule asks the network once a move. Heun's starts it, in two stages of
    # one kick, the first of which only looks ahead. One loop: the drift is compiled once.
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
    r"""$2E|X-Y| - E|X-X'| - E|Y-Y'|$ of weighted clouds (weights sum to one).

    Unbiased: pairs of a point with itself are left out, so that few individuals do not draw clouds
    together. Scores are by `metrics.energy_distance`, which counts those pairs and is never
    negative, but is in NumPy and has no derivative.
    """
    within = lambda z, w: w @ distances(z, z) @ w / jnp.maximum(1.0 - (w**2).sum(), 1e-6)
    return 2.0 * a @ distances(x, y) @ b - within(x, a) - within(y, b)
