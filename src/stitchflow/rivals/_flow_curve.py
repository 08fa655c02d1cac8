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

SHAPES = 6  # parameters of the map of one coordinate


def bounded(r: Array, most: float) -> Array:
    """About `r` where it is small, and never larger than `most` in size."""
    return most * jnp.tanh(r / most)


class Warp(NamedTuple):
    r"""$x = a + e^c\,\bigl(b + w\sinh(e^\delta\,\mathrm{asinh}((u-b)/w) + \epsilon)\bigr)$.

    The map is monotone and smooth on the whole line and has an inverse in closed form. One warp
    stretches or compresses around $b$ at scale $w$; several in a row can split one mode into two.
    With all parameters zero it is the identity.
    """

    a: Array
    c: Array
    b: Array
    w: Array
    delta: Array
    epsilon: Array

    @staticmethod
    def of(raw: Float[Array, "m d s"]) -> Warp:
        """A warp from unconstrained parameters."""
        a, c, b, log_w, delta, epsilon = jnp.moveaxis(raw, -1, 0)
        # Bounds keep the tails finite through many warps, also far from all individuals.
        w, delta = jnp.exp(bounded(log_w, 4.0)), bounded(delta, 0.5)
        return Warp(a, bounded(c, 3.0), b, w, delta, bounded(epsilon, 3.0))

    def forward(self, u: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The map at u."""
        angle = jnp.exp(self.delta) * jnp.arcsinh((u - self.b) / self.w) + self.epsilon
        return self.a + jnp.exp(self.c) * (self.b + self.w * jnp.sinh(angle))

    def inverse(self, x: Float[Array, "m d"]) -> tuple[Float[Array, "m d"], Float[Array, "m d"]]:
        """The u that is mapped to x, and the logarithms of the slopes of the inverse."""
        bent = ((x - self.a) * jnp.exp(-self.c) - self.b) / self.w
        angle = (jnp.arcsinh(bent) - self.epsilon) * jnp.exp(-self.delta)
        log_cosh = jnp.logaddexp(angle, -angle) - np.log(2.0)
        slopes = log_cosh - 0.5 * jnp.log1p(bent**2) - self.c - self.delta
        return self.b + self.w * jnp.sinh(angle), slopes


class Coupling(eqx.Module):
    """A warp of some coordinates whose parameters depend on the other coordinates and the time.

    Coordinates are chosen by masks and not by columns, so that all layers have the same program:
    coordinates that are not warped get parameters of zero, the identity.

    Arguments:
        active: which coordinates are warped.
        hidden: the widths of the network's layers.
        key: the random key of its weights.
    """

    network: MLP
    active: Bool[Array, " d"]

    def __init__(self, active: Bool[Array, " d"], hidden: tuple[int, ...], key: Array):
        d = active.shape[0]
        self.active, self.network = active, MLP(d + 1, hidden, SHAPES * d, key)

    def warp(self, x: Float[Array, "m d"], t: Float[Array, " m"]) -> Warp:
        """The warp at points x and times t."""
        others = bounded(x, 4.0) * ~self.active[None, :]
        raw = self.network(with_time(others, t)).reshape(*x.shape, SHAPES)
        return Warp.of(raw * self.active[None, :, None])

    def forward(self, u: Float[Array, "m d"], t: Float[Array, " m"]) -> Float[Array, "m d"]:
        """The map at u, each point with its time."""
        return self.warp(u, t).forward(u)

    def inverse(
        self, x: Float[Array, "m d"], t: Float[Array, " m"]
    ) -> tuple[Float[Array, "m d"], Float[Array, " m"]]:
        """The u that is mapped to x, and the log determinant of the inverse."""
        u, slopes = self.warp(x, t).inverse(x)
        return u, slopes.sum(-1)


class FlowCurve(eqx.Module):
    r"""$\rho_t$ = the law of $x(z, t)$, $z\sim N(0, I)$, with density and velocity in closed form.

    Alternating couplings warp one half of the coordinates depending on the other half and on time.
    The last layer, and in one dimension every layer, warps each coordinate depending on time alone.

    Arguments:
        cloud: points whose mean and spread the initial Gaussian has.
        layers: the number of couplings.
        hidden: the widths of the layers of their networks.
        key: the random key of their weights.
    """

    layers: Coupling  # stacked along a leading axis, so that one layer is compiled
    centre: Float[Array, " d"]
    log_spread: Float[Array, " d"]

    def __init__(self, cloud: np.ndarray, layers: int, hidden: tuple[int, ...], key: Array):
        d = cloud.shape[1]
        active = np.ones((layers, d), bool)
        for i in range(layers - 1 if d > 1 else 0):
            # Both layers of a pair split the coordinates in the same way, different for each pair.
            active[i] = np.roll(np.arange(d) < d // 2, i // 2) ^ bool(i % 2)
        made = eqx.filter_vmap(lambda mask, k: Coupling(mask, hidden, k))
        self.layers = made(jnp.asarray(active), jax.random.split(key, layers))
        spread = np.maximum(cloud.std(axis=0), 1e-3)
        self.centre = jnp.asarray(cloud.mean(axis=0), float)
        self.log_spread = jnp.asarray(np.log(spread), float)

    def place(self, z: Float[Array, "m d"], t: Float[Array, " m"]) -> Float[Array, "m d"]:
        """x(z, t), for each z at its own time."""
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
        """The log density at points x, each at its own time."""
        z, slopes = self.origin(x, t)
        return slopes - 0.5 * (z**2).sum(-1) - 0.5 * x.shape[1] * np.log(2.0 * np.pi)

    def score(self, x: Float[Array, "m d"], t: Float[Array, " m"]) -> Float[Array, "m d"]:
        """The gradient of the log density."""
        return jax.grad(lambda y: self.log_density(y, t).sum())(x)

    def velocity(self, x: Float[Array, "m d"], t: Float[Array, " m"]) -> Float[Array, "m d"]:
        r"""The velocity that transports the density: $\partial_t x(z, t)$ of the z that is at x."""
        return self.moving(self.origin(x, t)[0], t)[1]

    def sample(self, t: Scalar, n: int, key: Array) -> Float[Array, "n d"]:
        """`n` draws at time `t`."""
        z = jax.random.normal(key, (n, self.centre.shape[0]))
        return self.place(z, jnp.broadcast_to(t, (n,)))
