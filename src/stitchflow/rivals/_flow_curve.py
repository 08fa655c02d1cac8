r"""A curve of distributions as a normalizing flow: invertible maps $x(z, t)$ of one Gaussian."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from stitchflow._energy.networks import MLP, with_time
from stitchflow._types import Scalar

SHAPES = 6  # numbers that shape the map of one coordinate


def bounded(r: Array, most: float) -> Array:
    """r near zero, and never beyond `most` in size."""
    return most * jnp.tanh(r / most)


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
    def of(raw: Float[Array, "m d s"]) -> Warp:
        a, c, b, log_w, delta, epsilon = jnp.moveaxis(raw, -1, 0)
        # Bounds keep far tails finite through many warps, also where no individual was ever seen.
        w, delta = jnp.exp(bounded(log_w, 4.0)), bounded(delta, 0.5)
        return Warp(a, bounded(c, 3.0), b, w, delta, bounded(epsilon, 3.0))

    def forward(self, u: Float[Array, "m d"]) -> Float[Array, "m d"]:
        angle = jnp.exp(self.delta) * jnp.arcsinh((u - self.b) / self.w) + self.epsilon
        return self.a + jnp.exp(self.c) * (self.b + self.w * jnp.sinh(angle))

    def inverse(self, x: Float[Array, "m d"]) -> tuple[Float[Array, "m d"], Float[Array, "m d"]]:
        """Where x came from, and the logs of the inverse's slopes."""
        bent = ((x - self.a) * jnp.exp(-self.c) - self.b) / self.w
        angle = (jnp.arcsinh(bent) - self.epsilon) * jnp.exp(-self.delta)
        log_cosh = jnp.logaddexp(angle, -angle) - np.log(2.0)
        slopes = log_cosh - 0.5 * jnp.log1p(bent**2) - self.c - self.delta
        return self.b + self.w * jnp.sinh(angle), slopes


class Coupling(eqx.Module):
    """A warp of some coordinates, shaped by the others and the time.

    Masks choose instead of picking columns, so that all layers are one program: those not warped
    have shapes of zero, the identity.
    """

    network: MLP
    active: Bool[Array, " d"]

    def __init__(self, active: Bool[Array, " d"], hidden: tuple[int, ...], key: Array):
        d = active.shape[0]
        self.active, self.network = active, MLP(d + 1, hidden, SHAPES * d, key)

    def warp(self, x: Float[Array, "m d"], t: Float[Array, " m"]) -> Warp:
        others = bounded(x, 4.0) * ~self.active[None, :]
        raw = self.network(with_time(others, t)).reshape(*x.shape, SHAPES)
        return Warp.of(raw * self.active[None, :, None])

    def forward(self, u: Float[Array, "m d"], t: Float[Array, " m"]) -> Float[Array, "m d"]:
        return self.warp(u, t).forward(u)

    def inverse(
        self, x: Float[Array, "m d"], t: Float[Array, " m"]
    ) -> tuple[Float[Array, "m d"], Float[Array, " m"]]:
        """Where x came from, and the log determinant of the way back."""
        u, slopes = self.warp(x, t).inverse(x)
        return u, slopes.sum(-1)


class FlowCurve(eqx.Module):
    r"""$\rho_t$ = the law of $x(z, t)$, $z\sim N(0, I)$; density and velocity in closed form.

    Couplings turn by turn warp one half of the coordinates as the other half says, all as the time
    says; the last layer, and on a line every layer, warps each coordinate by the time alone.
    """

    layers: Coupling  # one after the other along a leading axis, so that one is compiled
    centre: Float[Array, " d"]
    log_spread: Float[Array, " d"]

    def __init__(self, cloud: np.ndarray, layers: int, hidden: tuple[int, ...], key: Array):
        d = cloud.shape[1]
        active = np.ones((layers, d), bool)
        for i in range(layers - 1 if d > 1 else 0):
            # Pairs of layers share a split, each pair another one.
            active[i] = np.roll(np.arange(d) < d // 2, i // 2) ^ bool(i % 2)
        made = eqx.filter_vmap(lambda mask, k: Coupling(mask, hidden, k))
        self.layers = made(jnp.asarray(active), jax.random.split(key, layers))
        spread = np.maximum(cloud.std(axis=0), 1e-3)
        self.centre = jnp.asarray(cloud.mean(axis=0), float)
        self.log_spread = jnp.asarray(np.log(spread), float)

    def place(self, z: Float[Array, "m d"], t: Float[Array, " m"]) -> Float[Array, "m d"]:
        """x(z, t), each z with its time."""
        z, _ = jax.lax.scan(lambda u, layer: (layer.forward(u, t), None), z, self.layers)
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
        back = lambda x, layer: layer.inverse(x, t)
        z, slopes = jax.lax.scan(back, z, self.layers, reverse=True)
        return z, slopes.sum(0) - self.log_spread.sum()

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
