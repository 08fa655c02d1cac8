r"""Test functions of the weak form: waves $\eta(x) = \cos(\omega\cdot x + \phi)$, blurred exactly.

Under a Gaussian kernel of width h a wave keeps its shape and loses height,
$E\,\eta(x + hz) = e^{-|h\omega|^2/2}\,\eta(x)$, so that averages over a mixture are closed forms.
"""

from __future__ import annotations

from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._measure.curve import CLOSEST
from stitchflow._types import Scalar

# The slowest and the fastest waves, in radians per spread of the cloud. The slow ones are
# coordinates and products of two, up to a sixth of the square: 0.2 % one spread from the centre.
LONG, SHORT = 0.1, 3.0

# Up to so many dimensions all products of two coordinates are tests, beyond it squares alone.
FEW = 5

# Combinations of tests whose gradients are smaller than this share of those of single tests do not
# count: they are differences of nearly equal numbers.
DEPENDENT = 1e-3

# The least mean square of a test's slope, as a share of the largest: a single point may lie where a
# test is flat.
FLAT = 1e-6

# The narrowest dimension that tests resolve, as a share of the widest.
NARROWEST = 1e-3


class Waves(eqx.Module):
    r"""Waves $\eta_a(x) = \cos(\omega_a\cdot(x - c) + \phi_a)$, which suit one cloud.

    They are no parameters: no gradient reaches them.

    Arguments:
        centre: c, the centre of the cloud.
        frequencies: the wave vectors, one column for each test.
        phases: the phases.
    """

    centre: Float[Array, " d"]
    frequencies: Float[Array, "d a"]
    phases: Float[Array, " a"]

    @staticmethod
    def around(
        x: Float[Array, "n d"],
        weights: Float[Array, " n"],
        blur: Float[Array, "g d"],
        number: int,
    ) -> Waves:
        """Waves whose lengths suit the spread of a cloud along each dimension.

        Arguments:
            x: the centres of the kernels.
            weights: their weights.
            blur: the squared widths of the kernels, one row for all or one for each.
            number: how many waves there are beside the long ones.
        """
        x, weights, blur = jax.lax.stop_gradient((x, weights, blur))
        vectors, phases = wave_vectors(x.shape[1], number)
        centre = weights @ x
        spread = jnp.sqrt(weights @ (x - centre[None, :]) ** 2 + blur.mean(axis=0))
        spread = jnp.maximum(spread, jnp.maximum(NARROWEST * spread.max(), CLOSEST))
        frequencies = jnp.asarray(vectors, x.dtype) / spread[:, None]
        return Waves(centre, frequencies, jnp.asarray(phases, x.dtype))

    def angles(self, x: Float[Array, "n d"]) -> Float[Array, "n a"]:
        """The angles whose cosines are the tests, at points."""
        return (x - self.centre[None, :]) @ self.frequencies + self.phases[None, :]

    def heights(self, blur: Float[Array, "g d"]) -> Float[Array, "g a"]:
        r"""The heights $e^{-|h\omega|^2/2}$ of the waves under kernels of squared widths `blur`."""
        return jnp.exp(-0.5 * blur @ self.frequencies**2)

    def change(
        self,
        left: Float[Array, "n d"],
        right: Float[Array, "n d"],
        weights: Float[Array, " n"],
        blur: Float[Array, "g d"],
    ) -> Float[Array, " a"]:
        r"""$\langle\eta\rangle$ around `right` minus that around `left`, kernel by kernel."""
        a, b = self.angles(left), self.angles(right)
        # cos b - cos a, without the difference of nearly equal numbers.
        grown = -2.0 * jnp.sin(0.5 * (a + b)) * jnp.sin(0.5 * (b - a))
        return weights @ (self.heights(blur) * grown)

    def mean(self, x: Float[Array, "n d"], weights: Float[Array, " n"]) -> Float[Array, " a"]:
        r"""$\langle\eta\rangle$ over points."""
        return weights @ jnp.cos(self.angles(x))

    def laplacian(
        self, x: Float[Array, "n d"], weights: Float[Array, " n"], blur: Float[Array, "g d"]
    ) -> Float[Array, " a"]:
        r"""$\langle\Delta\eta\rangle$ over kernels around x."""
        bends = weights @ (self.heights(blur) * jnp.cos(self.angles(x)))
        return -bends * (self.frequencies**2).sum(axis=0)

    def along(
        self, x: Float[Array, "n d"], field: Float[Array, "n d"], weights: Float[Array, " n"]
    ) -> Float[Array, " a"]:
        r"""$\langle\nabla\eta\cdot u\rangle$ over points x at which the `field` u is known."""
        return -weights @ (jnp.sin(self.angles(x)) * (field @ self.frequencies))

    def metric(
        self, x: Float[Array, "n d"], weights: Float[Array, " n"], blur: Float[Array, "g d"]
    ) -> Float[Array, "a a"]:
        r"""$\langle\nabla\eta_a\cdot\nabla\eta_b\rangle$ over kernels around x.

        $$E[\sin\alpha\sin\beta] = \tfrac12\bigl(
          e^{-|h(\omega_a-\omega_b)|^2/2}\cos(\alpha-\beta)
          - e^{-|h(\omega_a+\omega_b)|^2/2}\cos(\alpha+\beta)\bigr)$$
        """
        angles, w = self.angles(x), self.frequencies
        # |h(a - b)|^2 = |ha|^2 + |hb|^2 - 2 ha.hb
        mixed, alone = (blur[:, None, :] * w.T[None]) @ w, 0.5 * blur @ w**2
        alone = alone[:, :, None] + alone[:, None, :]
        apart, together = jnp.exp(mixed - alone), jnp.exp(-mixed - alone)
        cosines, sines = jnp.cos(angles), jnp.sin(angles)
        products = _weighted(cosines, weights, apart - together)
        products += _weighted(sines, weights, apart + together)
        return 0.5 * products * (w.T @ w)

    def product(
        self, one: Float[Array, " a"], other: Float[Array, " a"], metric: Float[Array, "a a"]
    ) -> Scalar:
        r"""$r^T G^{-1} r'$: the product of two fields, projected on the gradients of the tests.

        Arguments:
            one: r, the averages $\langle\nabla\eta_a\cdot u\rangle$ of a field u.
            other: r', those of another field.
            metric: G, the products of the gradients.
        """
        metric = jax.lax.stop_gradient(metric)
        sizes = jnp.sqrt(jnp.diag(metric) + FLAT * (self.frequencies**2).sum(axis=0))
        scaled = metric / (sizes[:, None] * sizes[None, :])
        scaled = scaled + DEPENDENT * jnp.eye(len(sizes), dtype=metric.dtype)
        root = jax.scipy.linalg.cho_factor(scaled, lower=True)
        return (one / sizes) @ jax.scipy.linalg.cho_solve(root, other / sizes)


def _weighted(
    u: Float[Array, "n a"], weights: Float[Array, " n"], heights: Float[Array, "g a a"]
) -> Float[Array, "a a"]:
    """The weighted sum over points of products of two columns, times their heights."""
    if heights.shape[0] == 1:
        return (u * weights[:, None]).T @ u * heights[0]
    return jnp.einsum("n,na,nb,nab->ab", weights, u, u, heights)


@lru_cache(maxsize=64)
def wave_vectors(dim: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The vectors (dim, a) and phases (a,) of all waves for a cloud of unit spread.

    Long waves along every axis are coordinates and their squares, those along two axes, up to a few
    dimensions, products of two coordinates. The others come in pairs of a sine and a cosine, of
    evenly spaced frequencies in directions that are random but always the same.

    Arguments:
        dim: the number of coordinates.
        number: how many waves there are beside the long ones.
    """
    axes, half = np.eye(dim), -(-number // 2)
    i, j = np.triu_indices(dim, 1)
    products = axes[i] + axes[j] if dim <= FEW else np.zeros((0, dim))
    ways = np.random.default_rng(0).normal(size=(half, dim))
    ways *= (np.arange(1, half + 1) / half / np.linalg.norm(ways, axis=1))[:, None]
    vectors = [LONG * axes, LONG * axes, LONG * products, SHORT * ways, SHORT * ways[: number // 2]]
    phases = np.repeat([-0.5 * np.pi, 0.0, 0.0, -0.5 * np.pi, 0.0], [len(v) for v in vectors])
    return np.concatenate(vectors).T, phases
