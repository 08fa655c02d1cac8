r"""A curve of distributions as a normalizing flow: invertible maps $x(z, t)$ of one Gaussian."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._networks import MLP
from stitchflow._types import Scalar

SHAPES = 6  # numbers that shape the map of one coordinate


class Warp(NamedTuple):
    r"""$x = a + e^c\,\bigl(b + w\sinh(e^\delta\,\mathrm{asinh}((u-b)/w) + \epsilon)\bigr)$.

    Monotone and smooth on the whole line, with an inverse in closed form. One stretches or squeezes
    around $b$ at scale $w$; several in a row can part one bump into two. All zero: the identity.
    """

    a: Array
    c: Array
    b: Array
    w: Array
    delta: Array
    epsilon: Array

    @staticmethod
    def of(raw: Float[Array, "m c s"]) -> Warp:
        a, c, b, log_w, delta, epsilon = jnp.moveaxis(raw, -1, 0)
        # Bounds keep the tails, which no individual ever sees, from running off.
        bounded = lambda r, most: most * jnp.tanh(r / most)
        return Warp(
            a, bounded(c, 3.0), b, jnp.exp(bounded(log_w, 4.0)), bounded(delta, 1.0), epsilon
        )

    def forward(self, u: Float[Array, "m c"]) -> Float[Array, "m c"]:
        angle = jnp.exp(self.delta) * jnp.arcsinh((u - self.b) / self.w) + self.epsilon
        return self.a + jnp.exp(self.c) * (self.b + self.w * jnp.sinh(angle))

    def inverse(self, x: Float[Array, "m c"]) -> tuple[Float[Array, "m c"], Float[Array, " m"]]:
        """Where x came from, and the log of the inverse's slopes, summed."""
        bent = ((x - self.a) * jnp.exp(-self.c) - self.b) / self.w
        angle = (jnp.arcsinh(bent) - self.epsilon) * jnp.exp(-self.delta)
        log_cosh = jnp.logaddexp(angle, -angle) - np.log(2.0)
        slopes = log_cosh - 0.5 * jnp.log1p(bent**2) - self.c - self.delta
        return self.b + self.w * jnp.sinh(angle), slopes.sum(-1)


class Coupling(eqx.Module):
    """A warp of some coordinates, shaped by the others and the time."""

    network: MLP
    active: tuple[int, ...] = eqx.field(static=True)
    passive: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self, active: tuple[int, ...], passive: tuple[int, ...], hidden: tuple[int, ...], key: Array
    ):
        self.active, self.passive = active, passive
        self.network = MLP(len(passive) + 1, hidden, SHAPES * len(active), key)

    def warp(self, x: Float[Array, "m d"], t: Float[Array, " m"]) -> Warp:
        seen = jnp.concatenate([x[:, list(self.passive)], (2.0 * t - 1.0)[:, None]], axis=1)
        return Warp.of(self.network(seen).reshape(len(x), len(self.active), SHAPES))

    def forward(self, u: Float[Array, "m d"], t: Float[Array, " m"]) -> Float[Array, "m d"]:
        chosen = np.array(self.active)
        return u.at[:, chosen].set(self.warp(u, t).forward(u[:, chosen]))

    def inverse(
        self, x: Float[Array, "m d"], t: Float[Array, " m"]
    ) -> tuple[Float[Array, "m d"], Float[Array, " m"]]:
        chosen = np.array(self.active)
        u, slopes = self.warp(x, t).inverse(x[:, chosen])
        return x.at[:, chosen].set(u), slopes


class FlowCurve(eqx.Module):
    r"""$\rho_t$ = the law of $x(z, t)$, $z\sim N(0, I)$; density and velocity in closed form.

    Couplings turn by turn warp one half of the coordinates as the other half says, all as the time
    says; the last layer, and on a line every layer, warps each coordinate by the time alone.
    """

    layers: tuple[Coupling, ...]
    centre: Float[Array, " d"]
    log_spread: Float[Array, " d"]

    def __init__(self, cloud: np.ndarray, layers: int, hidden: tuple[int, ...], key: Array):
        d, keys = cloud.shape[1], jax.random.split(key, layers)
        everyone = tuple(range(d))
        made = []
        for i, k in enumerate(keys[:-1]):
            # Pairs of layers that share a split, each pair another one.
            order = np.roll(np.arange(d), i // 2)
            halves = tuple(order[: d // 2].tolist()), tuple(order[d // 2 :].tolist())
            active, passive = halves[::-1] if i % 2 else halves
            made.append(
                Coupling(active, passive, hidden, k) if d > 1 else Coupling((0,), (), hidden, k)
            )
        self.layers = (*made, Coupling(everyone, (), hidden, keys[-1]))
        spread = np.maximum(cloud.std(axis=0), 1e-3)
        self.centre = jnp.asarray(cloud.mean(axis=0), float)
        self.log_spread = jnp.asarray(np.log(spread), float)

    def place(self, z: Float[Array, "m d"], t: Float[Array, " m"]) -> Float[Array, "m d"]:
        """x(z, t), each z with its time."""
        for layer in self.layers:
            z = layer.forward(z, t)
        return self.centre[None] + jnp.exp(self.log_spread)[None] * z

    def moving(
        self, z: Float[Array, "m d"], t: Float[Array, " m"]
    ) -> tuple[Float[Array, "m d"], Float[Array, "m d"]]:
        r"""$x(z, t)$ and $\partial_t x(z, t)$."""
        return jax.jvp(lambda s: self.place(z, s), (t,), (jnp.ones_like(t),))

    def origin(
        self, x: Float[Array, "m d"], t: Float[Array, " m"]
    ) -> tuple[Float[Array, "m d"], Float[Array, " m"]]:
        """z(x, t), and the log determinant of its derivative."""
        z = (x - self.centre[None]) * jnp.exp(-self.log_spread)[None]
        total = jnp.broadcast_to(-self.log_spread.sum(), t.shape)
        for layer in self.layers[::-1]:
            z, slopes = layer.inverse(z, t)
            total = total + slopes
        return z, total

    def log_density(self, x: Float[Array, "m d"], t: Float[Array, " m"]) -> Float[Array, " m"]:
        z, slopes = self.origin(x, t)
        return slopes - 0.5 * (z**2).sum(-1) - 0.5 * x.shape[1] * np.log(2.0 * np.pi)

    def score(self, x: Float[Array, "m d"], t: Float[Array, " m"]) -> Float[Array, "m d"]:
        return jax.grad(lambda y: self.log_density(y, t).sum())(x)

    def velocity(self, x: Float[Array, "m d"], t: Float[Array, " m"]) -> Float[Array, "m d"]:
        """What transports the density: the speed of whoever is at x."""
        return self.moving(self.origin(x, t)[0], t)[1]

    def sample(self, t: Scalar, n: int, key: Array) -> Float[Array, "n d"]:
        z = jax.random.normal(key, (n, self.centre.shape[0]))
        return self.place(z, jnp.broadcast_to(t, (n,)))
