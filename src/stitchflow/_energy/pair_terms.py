"""The terms of an energy that depend on pairs: interaction W and vector kernel K."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.units import Units
from stitchflow._energy.networks import MLP, Chebyshev, PlainNetwork, PolarSeries
from stitchflow._energy.terms import (
    Positive,
    Term,
    check_function,
    check_network,
    detached_unless_learned,
    last_layer,
    ready,
    shape_of,
    with_fields,
)
from stitchflow._measure.kde import Cloud, Field, in_blocks, over_stations
from stitchflow._stitching import defaults
from stitchflow._types import Scalar, check_hidden


class Interaction(Term):
    r"""$\tfrac12 E_{\rho\times\rho}[W(x - x')]$ with a symmetric W.

    A positive slope of W attracts. A learned W is a network, and is determined up to a constant.

    Arguments:
        function: a known W in the user's units, a JAX function `W(r)` of a distance, or `W(z)` of a
            displacement of shape (d,) if `radial` is False; None learns a network.
        radial: whether W depends on the distance alone, tabulated once per step as a Chebyshev
            series. False learns $W(z) = \tfrac12(w(z) + w(-z))$ with a network w.
        hidden: the widths of the network's layers.
        learn: whether parameters and the positive coefficient are fitted; None fits a network and
            leaves a given function as it is.
        network: `PlainNetwork()` for the paper's; None for ours.

    >>> Interaction(lambda r: 0.5 * r**2)
    Interaction(known W(r))
    """

    radial: bool = eqx.field(static=True)
    hidden: tuple[int, ...] = eqx.field(static=True)
    learn: bool = eqx.field(static=True)
    function: Callable | None
    coefficient: Positive | None
    units: Units | None = eqx.field(static=True)
    reach: float = eqx.field(static=True)
    network: PlainNetwork | None = eqx.field(static=True)

    def __init__(
        self,
        function: Callable | None = None,
        *,
        radial: bool = True,
        hidden: tuple[int, ...] = defaults.PAIR_LAYERS,
        learn: bool | None = None,
        network: PlainNetwork | None = None,
    ):
        check_function(function)
        self.network = check_network(network)
        self.radial, self.hidden, self.function = bool(radial), check_hidden(hidden), function
        self.learn = function is None if learn is None else bool(learn)
        self.coefficient, self.units, self.reach = None, None, 0.0

    def __repr__(self) -> str:
        known = "" if self.learn else "known "
        return f"Interaction({known}{'W(r)' if self.radial else 'W(x - y)'})"

    @property
    def settings(self) -> dict[str, Any]:
        return {"radial": self.radial, **shape_of(self)}

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> Interaction:
        function, own_units = self.function, units
        if function is None:
            inputs = 1 if self.radial else cloud.shape[1]
            function = MLP(inputs, self.hidden, 1, key, last_layer(self.network))
            own_units = None
        coefficient, reach = Positive.of(1.0, self.learn), reach_of(cloud)
        fields = {"function": function, "coefficient": coefficient, "units": own_units}
        return with_fields(self, reach=reach, **fields)

    def _of_distance(self, r: Scalar) -> Scalar:
        length = self.reach if self.network is None else 1.0
        return self._value(r, lambda network: network(r[None] / length)[0])

    def _of_displacement(self, z: Float[Array, " d"]) -> Scalar:
        return self._value(z, lambda network: 0.5 * (network(z) + network(-z))[0])

    def _value(self, place: Array, of: Callable[[Any], Scalar]) -> Scalar:
        """W at a distance or displacement: what it is `of` a network, or the known function's."""
        function, units = detached_unless_learned(self.function, self.learn), self.units
        coefficient = ready(self.coefficient)
        if units is None:
            return coefficient() * of(function)
        value = jnp.asarray(function(place * units.length)).reshape(())
        return coefficient() * value / units.energy

    def _table(self, one: Callable) -> Callable[[Array], Array]:
        """W or W' (`one`) as a function of an array of distances."""
        if self.units is not None:  # a known function may have kinks that a series would smear
            return lambda r: jax.vmap(one)(r.reshape(-1)).reshape(r.shape)
        nodes = jnp.asarray(Chebyshev.nodes(defaults.RADIAL_DEGREE, self.reach), float)
        return Chebyshev.through(jax.vmap(one)(nodes), self.reach)

    def interaction(self, r: Float[Array, " m"]) -> Float[Array, " m"]:
        """W at distances, internal units."""
        return jax.vmap(self._of_distance)(r)

    def of_displacements(self, z: Float[Array, "m d"]) -> Float[Array, " m"]:
        """W at displacements, internal units, where it is not radial."""
        return jax.vmap(self._of_displacement)(z)

    def first_variation(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        if self.radial:
            table = self._table(self._of_distance)
            return _pairs(lambda y, c, w: _sum(table(distances(y, c)), w), x, cloud)
        at = jax.vmap(jax.vmap(self._of_displacement))
        return _pairs(lambda y, c, w: _sum(at(y[:, None, :] - c[None, :, :]), w), x, cloud)

    def gradient(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        r"""$\sum_l w_l\nabla W(x - x_l)$ (eq:approx_inter_kde); the self pair contributes zero."""
        if self.radial:
            table = self._table(jax.grad(self._of_distance))

            def pull(y: Array, c: Array, w: Array) -> Array:
                r = distances(y, c)
                a = jnp.atleast_2d(w) * table(r) / r
                return y * a.sum(axis=1, keepdims=True) - a @ c

            return _pairs(pull, x, cloud)
        at = jax.vmap(jax.vmap(jax.grad(self._of_displacement)))
        return _pairs(lambda y, c, w: _sum(at(y[:, None] - c[None]), w), x, cloud)

    def divergence(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        r"""$\sum_l w_l\,[W''(r_l) + (d-1)\,W'(r_l)/r_l]$ of a radial W, the self pair left out."""
        if not self.radial:
            return super().divergence(x, t, cloud, field)
        slope = self._table(jax.grad(self._of_distance))
        bend = self._table(jax.grad(jax.grad(self._of_distance)))

        def spread(y: Array, c: Array, w: Array) -> Array:
            r = distances(y, c)
            apart = r > 1e-3 * self.reach
            far = jnp.where(apart, r, 1.0)
            bent = bend(far) + (x.shape[2] - 1) * slope(far) / far
            return _sum(jnp.where(apart, bent, 0.0), w)

        return _pairs(spread, x, cloud)

    def local(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        return 0.5 * self.first_variation(x, t, cloud, field)


class VectorKernel(Term):
    r"""A pair velocity $u = K * \rho$ that need not be a gradient (paper, app. H).

    K is odd, so that no individual moves itself. The term adds velocity and no energy.

    Arguments:
        function: a known odd K in the user's units, from a displacement of shape (d,) to a velocity
            of shape (d,). None learns it: in the plane as a series in polar coordinates, otherwise
            as $\tfrac12(k(z) - k(-z))$ with a network k.
        hidden: the widths of the network's layers; the series has none.
        learn: whether the parameters are fitted; None fits a learned kernel and leaves a given
            function as it is.
        network: `PlainNetwork()` for the paper's free network, which need not be odd; None for
            ours.

    >>> sf.Energy.known(VectorKernel(lambda z: -z), dim=2).kernel([[1.0, 2.0]]).tolist()
    [[-1.0, -2.0]]
    """

    is_gradient: ClassVar[bool] = False
    resolvable: ClassVar[bool] = False  # K changes its direction at zero distance
    hidden: tuple[int, ...] = eqx.field(static=True)
    learn: bool = eqx.field(static=True)
    function: Callable | None
    units: Units | None = eqx.field(static=True)
    reach: float = eqx.field(static=True)
    scale: Array | None
    network: PlainNetwork | None = eqx.field(static=True)

    def __init__(
        self,
        function: Callable | None = None,
        *,
        hidden: tuple[int, ...] = defaults.PAIR_LAYERS,
        learn: bool | None = None,
        network: PlainNetwork | None = None,
    ):
        check_function(function)
        self.network = check_network(network)
        self.hidden, self.function = check_hidden(hidden), function
        self.learn = function is None if learn is None else bool(learn)
        self.units, self.reach, self.scale = None, 0.0, None

    def __repr__(self) -> str:
        return f"VectorKernel({'' if self.learn else 'known '}K(x - y))"

    @property
    def settings(self) -> dict[str, Any]:
        return shape_of(self)

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> VectorKernel:
        d, function, own_units = cloud.shape[1], self.function, units
        if function is None:
            series = d == 2 and self.network is None
            network = lambda: MLP(d, self.hidden, d, key, last_layer(self.network))
            function = PolarSeries(key) if series else network()
            own_units = None
        fields = {"function": function, "units": own_units, "scale": jnp.ones(())}
        return with_fields(self, reach=reach_of(cloud), **fields)

    def sized_for(self, speed: float) -> VectorKernel:
        if self.network is not None:
            return self
        # The velocities that many individuals cause largely cancel: each is larger than the sum.
        return with_fields(self, scale=jnp.asarray(defaults.KERNEL_SPEED * speed, float))

    def kernel(self, z: Float[Array, "*m d"]) -> Float[Array, "*m d"]:
        """K at displacements, internal units."""
        function, units = detached_unless_learned(self.function, self.learn), self.units
        if units is None and self.network is not None:
            return function(z)
        if units is None:
            z, scale = z / self.reach, jax.lax.stop_gradient(ready(self.scale))
            odd = isinstance(function, PolarSeries)
            return scale * (function(z) if odd else 0.5 * (function(z) - function(-z)))
        flat = z.reshape(-1, z.shape[-1]) * units.length
        return jax.vmap(function)(flat).reshape(z.shape) / units.speed

    def first_variation(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        return jnp.zeros(x.shape[:2], x.dtype)

    def gradient(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        r"""$-\sum_l w_l K(x - x_l)$ (eq:approx_chiral_kernel, with the SDE's orientation)."""

        def push(y: Array, c: Array, w: Array) -> Array:
            return -_sum(self.kernel(y[:, None, :] - c[None, :, :]), w)

        return _pairs(push, x, cloud)


def _pairs(function: Callable, x: Float[Array, "s m d"], cloud: Cloud) -> Array:
    """`function(x, centres, weights)` of every marginal, in bounded memory.

    The weights have shape (n,). Where `cloud.own` is set they have shape (m, n), with zero for the
    centre that each point was drawn around.
    """
    n, own = cloud.centres.shape[1], cloud.own
    if own is None:
        rows = lambda y, c, w: in_blocks(lambda some: function(some, c, w), y, n)
    else:
        others = lambda w, k: jnp.where(k[:, None] == jnp.arange(n)[None, :], 0.0, w[None, :])
        rows = lambda y, c, w: in_blocks(
            lambda some: function(some[0], c, others(w, some[1])), (y, own), n
        )
    return over_stations(rows, x.shape[1], n, x, cloud.centres, cloud.weights)


def _sum(pairs: Array, weights: Array) -> Array:
    """Pairs (m, n) or (m, n, d) summed over the n centres with weights (n,) or (m, n)."""
    if weights.ndim == 2:
        return jnp.einsum("mn...,mn->m...", pairs, weights)
    return pairs @ weights if pairs.ndim == 2 else jnp.einsum("mnd,n->md", pairs, weights)


def distances(x: Float[Array, "m d"], y: Float[Array, "n d"]) -> Float[Array, "m n"]:
    """The distances (m, n) between points `x` and points `y`.

    A tiny constant keeps their derivative finite where points coincide.
    """
    squares = (x**2).sum(1)[:, None] + (y**2).sum(1)[None, :] - 2.0 * x @ y.T
    return jnp.sqrt(jnp.maximum(squares, 0.0) + 1e-12)


def reach_of(cloud: np.ndarray, most: int = defaults.REACH_INDIVIDUALS) -> float:
    """1.2 times the largest distance in `cloud`, of a random sample of `most` individuals."""
    sample = np.asarray(cloud)[np.random.default_rng(0).permutation(len(cloud))[:most]]
    squares = ((sample[:, None, :] - sample[None, :, :]) ** 2).sum(-1)
    return defaults.REACH * float(np.sqrt(squares.max()))
