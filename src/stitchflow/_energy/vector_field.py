"""A velocity of place and time that need not be a gradient (paper, app. H)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.units import Units
from stitchflow._energy.networks import MLP, Declared, with_time
from stitchflow._energy.terms import (
    Term,
    arity,
    check_function,
    detached_unless_learned,
    flat,
    shape_of,
    with_fields,
)
from stitchflow._measure.kde import Cloud, Field
from stitchflow._status import BadInput
from stitchflow._stitching import defaults
from stitchflow._types import check_hidden


class VectorField(Term):
    r"""A velocity $u(x)$, or $u(x, t)$, in addition to that of the energy.

    It adds velocity and no energy. A free field can replace any potential; with
    `divergence_free=True` it is $u = \sum_k S_k\nabla\psi_k$ with antisymmetric $S_k$, whose
    divergence is zero, so that it leaves to a potential what a potential can explain.

    Arguments:
        function: a known `u(x)` or `u(x, t)` of one point of shape (d,), which returns (d,), in the
            user's units; None learns a network.
        hidden: the widths of the network's layers.
        time_varying: whether a learned u depends on time; a given function does if it takes two
            arguments.
        divergence_free: whether a learned u is restricted to fields without divergence, in two or
            more dimensions.
        learn: whether the parameters are fitted; None fits a network and leaves a given function as
            it is.

    >>> VectorField(divergence_free=True)
    VectorField(divergence-free u(x))
    """

    is_gradient: ClassVar[bool] = False
    sees_others: ClassVar[bool] = False
    hidden: tuple[int, ...] = eqx.field(static=True)
    time_varying: bool = eqx.field(static=True)
    divergence_free: bool = eqx.field(static=True)
    learn: bool = eqx.field(static=True)
    function: Callable | None
    turns: Float[Array, "k d d"] | None
    units: Units | None = eqx.field(static=True)

    def __init__(
        self,
        function: Callable | None = None,
        *,
        hidden: tuple[int, ...] = defaults.PAIR_LAYERS,
        time_varying: bool = False,
        divergence_free: bool = False,
        learn: bool | None = None,
    ):
        check_function(function)
        if function is not None and divergence_free:
            raise BadInput("divergence_free shapes a learned field; a known function is as it is")
        self.hidden, self.function = check_hidden(hidden), function
        self.time_varying = bool(time_varying) if function is None else arity(function) > 1
        self.divergence_free = bool(divergence_free)
        self.learn = function is None if learn is None else bool(learn)
        self.turns, self.units = None, None

    def __repr__(self) -> str:
        kind = "divergence-free " if self.divergence_free else "" if self.learn else "known "
        return f"VectorField({kind}u({'x, t' if self.time_varying else 'x'}))"

    @property
    def settings(self) -> dict[str, Any]:
        names = ("time_varying", "divergence_free")
        return {**shape_of(self), **{name: getattr(self, name) for name in names}}

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        turns = defaults.STREAMS * dim**2 if settings["divergence_free"] else 0
        return Declared(turns + Declared.networks(settings, dim).made)

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> VectorField:
        if self.function is not None:
            return with_fields(self, units=units)
        d = cloud.shape[1]
        if not self.divergence_free:
            return with_fields(self, function=MLP(d + self.time_varying, self.hidden, d, key))
        if d < 2:
            raise BadInput("divergence_free: on a line nothing but a constant is")
        streams = 1 if d == 2 else defaults.STREAMS
        network = MLP(d + self.time_varying, self.hidden, streams, key)
        turns = jax.random.normal(jax.random.fold_in(key, 1), (streams, d, d)) / np.sqrt(d)
        return with_fields(self, function=network, turns=turns)

    def velocity(self, x: Float[Array, "m d"], t: Float[Array, " m"]) -> Float[Array, "m d"]:
        """u at points (m, d), each with its time (m,), in internal units."""
        function, units = detached_unless_learned(self.function, self.learn), self.units
        if units is not None:
            one = function if self.time_varying else lambda p, _: function(p)
            return jax.vmap(one)(units.space_out(x), units.time_out(t)) / units.speed
        inputs = lambda y: with_time(y, t) if self.time_varying else y
        if self.turns is None:
            return function(inputs(x))
        antisymmetric = self.turns - self.turns.transpose(0, 2, 1)
        _, pull = jax.vjp(lambda y: function(inputs(y)), x)
        ones = jnp.eye(len(antisymmetric), dtype=x.dtype)
        slopes = [pull(jnp.broadcast_to(one, (len(x), len(one))))[0] for one in ones]
        return jnp.einsum("kij,kmj->mi", antisymmetric, jnp.stack(slopes))

    def first_variation(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        return jnp.zeros(x.shape[:2], x.dtype)

    def gradient(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        """Minus the velocity, as for every term that is not a gradient."""
        return -self.velocity(*flat(x, t)).reshape(x.shape)
