r"""Consistency: individuals carried by the energy alone must look like those seen next.

$$C[F] = \sum_k D(\Phi_{t_k\to t_{k+1}}\#q_k, q_{k+1}) + D(\Phi_{t_0\to t_{k+1}}\#q_0, q_{k+1})$$

with $\Phi$ the simulated dynamics and $D$ the energy distance. Residuals judge velocities on a
smoothed curve; this judges where individuals arrive, noise included, so that it has no kernel bias.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._energy import Energy
from stitchflow._kde import KDE, Field
from stitchflow._observations import Observations
from stitchflow._optimise import Optimiser
from stitchflow._terms import Cloud, InternalEnergy
from stitchflow._types import Scalar, check_count, check_number


class Consistency(eqx.Module):
    """How far carried clouds are from seen ones, on random individuals of a few times.

    `weight` is its share of the objective, over `steps` steps of `rate`; `individuals` of each of
    at most `times` snapshots are carried by `moves` steps of Heun's rule a gap.
    """

    weight: float = eqx.field(static=True, default=10.0)
    steps: int = eqx.field(static=True, default=600)
    rate: float = eqx.field(static=True, default=2e-3)
    individuals: int = eqx.field(static=True, default=128)
    moves: int = eqx.field(static=True, default=4)
    times: int = eqx.field(static=True, default=8)

    def __check_init__(self) -> None:
        check_number(self.weight, "weight", 0.0, open_low=True)
        check_number(self.rate, "rate", 0.0, open_low=True)
        check_count(self.steps, "steps")
        check_count(self.individuals, "individuals", 2)
        check_count(self.moves, "moves")
        check_count(self.times, "times", 2)

    @property
    def optimiser(self) -> Optimiser:
        return Optimiser(steps=self.steps, learning_rate=self.rate)

    def __call__(self, energy: Energy, data: Observations, key: Array) -> Scalar:
        choose, draw, noise = jax.random.split(key, 3)
        chosen = sorted_some(len(data), self.times, choose)
        times, seen = data.times[chosen], data.individuals(chosen, self.individuals, draw)

        def gap(rolled: Array, entry: tuple) -> tuple[Array, Scalar]:
            t0, t1, here, there, gap_key = entry
            ends = carry(energy, jnp.stack([rolled, here]), t0, t1, self.moves, gap_key)
            return ends[0], jax.vmap(energy_distance, (0, None))(ends, there).sum()

        keys = jax.random.split(noise, times.shape[0] - 1)
        entries = (times[:-1], times[1:], seen[:-1], seen[1:], keys)
        return jax.lax.scan(gap, seen[0], entries)[1].sum()


def sorted_some(total: int, most: int, key: Array) -> Array:
    """All of `total` numbers in order, or one random one from each of `most` stretches."""
    if total <= most:
        return jnp.arange(total)
    edges = np.linspace(0, total, most + 1).round().astype(np.int32)
    return jax.random.randint(key, (most,), jnp.asarray(edges[:-1]), jnp.asarray(edges[1:]))


def carry(
    energy: Energy, x: Float[Array, "s n d"], t0: Scalar, t1: Scalar, moves: int, key: Array
) -> Float[Array, "s n d"]:
    """Several clouds moved from t0 to t1 by the SDE, each seeing only itself; differentiable."""
    step = (t1 - t0) / moves
    weights = jnp.full(x.shape[:2], 1.0 / x.shape[1], x.dtype)
    spread = jnp.sqrt(2.0 * energy.diffusion * step)

    def drift(y: Array, t: Scalar) -> Array:
        if energy.only(InternalEnergy):
            field = jax.vmap(lambda c: KDE.uniform(c).field(c))(y)
        else:
            field = Field(y[..., 0], y, None)
        return energy.drift(y, jnp.broadcast_to(t, y.shape[:1]), Cloud(y, weights), field)

    def move(y: Array, i: Array) -> tuple[Array, None]:
        t = t0 + i * step
        kick = spread * jax.random.normal(jax.random.fold_in(key, i), y.shape, y.dtype)
        first = drift(y, t)
        second = drift(y + step * first + kick, t + step)
        return y + 0.5 * step * (first + second) + kick, None

    return jax.lax.scan(move, x, jnp.arange(moves))[0]


def energy_distance(x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Scalar:
    r"""$2E|X-Y| - E|X-X'| - E|Y-Y'|$, unbiased: pairs of a point with itself are left out."""

    def mean(a: Array, b: Array, pairs: int) -> Scalar:
        squares = (a**2).sum(1)[:, None] + (b**2).sum(1)[None, :] - 2.0 * a @ b.T
        return jnp.sqrt(jnp.maximum(squares, 0.0) + 1e-8).sum() / pairs

    n, m = x.shape[0], y.shape[0]
    same = lambda a, k: mean(a, a, k * (k - 1))
    return 2.0 * mean(x, y, n * m) - same(x, n) - same(y, m)
