"""The learned functions behind the terms: a perceptron, a radial table, a planar field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._parts import Part, built_in, constructor_defaults
from stitchflow._stitching import defaults
from stitchflow._types import check_hidden, check_number


class MLP(eqx.Module):
    """A perceptron with SiLU layers and residual skips between layers of equal width.

    It acts on the last axis of an array of any shape. The last layer starts small, so that a fit
    starts from an almost flat function whose gradients still reach every layer.

    Arguments:
        inputs: the size of the last axis of what goes in.
        hidden: the widths of the layers between.
        outputs: the size of the last axis of what comes out.
        key: the random key of the weights.
        last: the factor of the last layer's weights.
    """

    weights: tuple[Float[Array, ...], ...]
    biases: tuple[Float[Array, ...], ...]

    def __init__(
        self,
        inputs: int,
        hidden: tuple[int, ...],
        outputs: int,
        key: Array,
        last: float = defaults.LAST_LAYER,
    ):
        widths = (inputs, *hidden, outputs)
        keys = jax.random.split(key, len(widths) - 1)
        weights = []
        for i, (k, a, b) in enumerate(zip(keys, widths[:-1], widths[1:], strict=True)):
            gain = last if i == len(hidden) else 1.0
            weights.append(gain * jax.random.normal(k, (a, b)) / jnp.sqrt(a))
        self.weights = tuple(weights)
        self.biases = tuple(jnp.zeros(b) for b in widths[1:])

    def __call__(self, x: Float[Array, "*batch i"]) -> Float[Array, "*batch o"]:
        def affine(h: Array, layer: int) -> Array:
            bias = self.biases[layer]
            return h @ self.weights[layer] + bias.reshape((1,) * (h.ndim - 1) + bias.shape)

        for layer in range(len(self.weights) - 1):
            update = jax.nn.silu(affine(x, layer))
            x = x + update if x.shape == update.shape else update
        return affine(x, len(self.weights) - 1)

    @staticmethod
    def size(inputs: int, hidden: Any, outputs: int) -> int:
        """The number of parameters of a network of these widths."""
        return sum((a + 1) * b for a, b in pairwise((inputs, *check_hidden(hidden), outputs)))


def with_time(x: Float[Array, "*m d"], t: Float[Array, "*m"]) -> Float[Array, "*m i"]:
    """The input of a network: points `x` and, mapped from [0, 1] to [-1, 1], their time `t`."""
    return jnp.concatenate([x, (2.0 * t - 1.0)[..., None].astype(x.dtype)], axis=-1)


@dataclass(frozen=True)
class PlainNetwork(Part):
    """The paper's networks: inputs as they are, no symmetry imposed, not sized for the motion.

    Without it a potential sees the time from -1 to 1, W the distance as a share of its range, and K
    is odd, a series in polar coordinates in the plane.

    Arguments:
        last_layer: the factor of the last layer's random weights at the start; 0 starts from zero.

    >>> sf.Potential(hidden=(64, 64), network=PlainNetwork()).network
    PlainNetwork(last_layer=1.0)
    """

    last_layer: float = 1.0

    def __post_init__(self) -> None:
        check_number(self.last_layer, "last_layer", 0.0)


class Declared(NamedTuple):
    """How many numbers stored settings declare, counted before memory is allocated.

    Arguments:
        made: about how many numbers networks hold, not all of which are stored.
        kept: the least number that every run with these settings stores.
    """

    made: int  # about as many in networks; some of them are not stored
    kept: int = 0  # at least as many that every run of these settings stores

    @staticmethod
    def networks(settings: Mapping[str, Any], dim: int) -> Declared:
        """The size of networks whose widths are settings ending in `hidden`, also of parts."""
        widths = [value for name, value in settings.items() if name.endswith("hidden")]
        made = [MLP.size(dim + 1, v, dim) for v in widths if isinstance(v, (list, tuple))]
        for part in (value for value in settings.values() if isinstance(value, dict)):
            kind = built_in(part.get("class"))
            whole = (constructor_defaults(kind) if kind else {}) | part
            made.append(Declared.networks(whole, dim).made)
        return Declared(sum(made))


class Chebyshev(eqx.Module):
    r"""A function of one variable on $[0, \text{reach}]$ as a short Chebyshev series.

    A pair term needs its radial function at every pair of particles. Sampling the network once at
    the nodes and summing the series at the pairs costs a few products per pair, and gradients
    flow back to the network through the samples.

    Arguments:
        coefficients: those of the Chebyshev polynomials, from degree 0.
        reach: the end of the interval; beyond it the value at the end is used.
    """

    coefficients: Float[Array, " c"]
    reach: float = eqx.field(static=True)

    @staticmethod
    def nodes(degree: int, reach: float) -> np.ndarray:
        """The `degree` points in [0, `reach`] at which a series of that many terms interpolates."""
        angles = np.pi * (np.arange(degree) + 0.5) / degree
        return 0.5 * reach * (1.0 + np.cos(angles))

    @staticmethod
    def through(values: Float[Array, " c"], reach: float) -> Chebyshev:
        """The series that interpolates `values` at `nodes(len(values), reach)`."""
        degree = values.shape[0]
        angles = np.pi * (np.arange(degree) + 0.5) / degree
        transform = 2.0 / degree * np.cos(np.outer(np.arange(degree), angles))
        transform[0] *= 0.5
        return Chebyshev(jnp.asarray(transform, values.dtype) @ values, reach)

    def __call__(self, r: Float[Array, "*m"]) -> Float[Array, "*m"]:
        s = jnp.minimum(2.0 * r / self.reach - 1.0, 1.0)
        return _series(self.coefficients, s)


def _clenshaw(c: Float[Array, " c"], s: Float[Array, "*m"]) -> Float[Array, "*m"]:
    above, top = jnp.zeros_like(s), jnp.zeros_like(s)
    for k in range(c.shape[0] - 1, 0, -1):
        above, top = top, c[k] + 2.0 * s * top - above
    return c[0] + s * top - above


# Differentiating the recurrence would store every partial sum; the derivative of a series is a
# series, and the recurrence is linear in its coefficients.
_series = jax.custom_jvp(_clenshaw)


@_series.defjvp
def _series_jvp(primals, tangents):
    (c, s), (c_dot, s_dot) = primals, tangents
    slope = np.polynomial.chebyshev.chebder(np.eye(c.shape[0]))
    derivative = _clenshaw(jnp.asarray(slope, c.dtype) @ c, s)
    return _clenshaw(c, s), _clenshaw(c_dot, s) + derivative * s_dot


class PolarSeries(eqx.Module):
    r"""An odd vector field in the unit disc, $K(z) = \sum_h R_h(r)\,e_h(\theta)$.

    The $e_h$ are odd harmonics of the angle and the $R_h$ Chebyshev series in $\sqrt r$. The field
    is free in every direction, may be steep at the origin and take any direction there, and costs a
    few products per pair instead of a network.

    Arguments:
        key: the random key of the coefficients, which start small.
    """

    coefficients: Float[Array, "c h d"]

    HARMONICS: ClassVar[tuple[int, ...]] = defaults.KERNEL_HARMONICS
    DEGREE: ClassVar[int] = defaults.KERNEL_DEGREE

    def __init__(self, key: Array):
        shape = (self.DEGREE, 2 * len(self.HARMONICS), 2)
        self.coefficients = defaults.KERNEL_COEFFICIENTS * jax.random.normal(key, shape)

    def __call__(self, z: Float[Array, "*m d"]) -> Float[Array, "*m d"]:
        r = jnp.sqrt((z**2).sum(-1) + 1e-12)
        direction = z / r[..., None]
        s = jnp.minimum(2.0 * jnp.sqrt(r) - 1.0, 1.0)
        radial = [jnp.ones_like(s), s]
        for _ in range(self.DEGREE - 2):
            radial.append(2.0 * s * radial[-1] - radial[-2])
        # Higher degrees are scaled down, so that smooth fields are learned first.
        scaled = self.coefficients / jnp.arange(1.0, self.DEGREE + 1.0)[:, None, None]
        waves = jnp.einsum("...c,chd->...hd", jnp.stack(radial, axis=-1), scaled)
        return jnp.einsum("...h,...hd->...d", self._harmonics(direction), waves)

    def _harmonics(self, direction: Float[Array, "*m d"]) -> Float[Array, "*m h"]:
        """Cosines and sines of odd multiples of the angle, by rotating by twice the angle."""
        x, y = direction[..., 0], direction[..., 1]
        double = x**2 - y**2, 2.0 * x * y
        found = []
        for _ in self.HARMONICS:
            found += [x, y]
            x, y = x * double[0] - y * double[1], x * double[1] + y * double[0]
        return jnp.stack(found, axis=-1)
