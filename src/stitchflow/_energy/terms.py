"""The terms of an energy that depend on one point at a time, each with its coefficient inside.

Terms work in a fit's internal units and on several marginals at once (axis `s`): the network then
evaluates all points of all times in one product.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.units import Units
from stitchflow._energy.networks import MLP, Declared, PlainNetwork, with_time
from stitchflow._measure.kde import Cloud, Field
from stitchflow._parts import Part, is_own
from stitchflow._status import BadInput, BadInputType, NotAvailable
from stitchflow._stitching import defaults
from stitchflow._types import Scalar, check_hidden, check_number


class Positive(eqx.Module):
    """A positive number, learned through a softplus or held fixed.

    Arguments:
        raw: the value before the softplus.
        learn: whether gradients reach it.
    """

    raw: Scalar
    learn: bool = eqx.field(static=True)

    @staticmethod
    def of(value: float, learn: bool) -> Positive:
        """The number `value`, free or fixed."""
        # log(expm1(v)) without overflow
        return Positive(jnp.asarray(value + np.log(-np.expm1(-value)), float), learn)

    def times(self, share: Any) -> Positive:
        """The number `share` times as large, for a positive share that may be traced."""
        value = jax.nn.softplus(self.raw) * share
        return Positive(value + jnp.log(-jnp.expm1(-value)), self.learn)

    def __call__(self) -> Scalar:
        return jax.nn.softplus(self.raw if self.learn else jax.lax.stop_gradient(self.raw))


class Term(eqx.Module, Part):
    """One summand of the energy; terms are added with `+`.

    A subclass writes `init`, which gives it parameters and units, `gradient`, `first_variation` and
    `settings`; `local` and `divergence` where they are needed (see `docs/extend.md`). Its class
    variables declare what the term depends on. Their defaults never give wrong numbers: a term that
    reads `field` without declaring `reads_density` raises an error, and one that does not declare
    `sees_others = False` is given the whole cloud, which is only slower.

    >>> sf.Potential() + sf.Interaction()
    Potential(V(x)) + Interaction(W(r))
    """

    is_gradient: ClassVar[bool] = True  # whether `gradient` is a gradient
    reads_density: ClassVar[bool] = False  # whether it uses `field`
    sees_others: ClassVar[bool] = True  # whether it uses `cloud` or `field`
    resolvable: ClassVar[bool] = True  # whether small enough time steps resolve it
    time_varying = False  # whether it depends on time; a field where that is a setting

    @abstractmethod
    def init(self, cloud: np.ndarray, units: Units, key: Array) -> Term:
        """The same term with parameters.

        Arguments:
            cloud: points (n, d) in internal units that look like the data.
            units: the scales between internal units and the user's.
            key: a random key.
        """

    def sized_for(self, speed: float) -> Term:
        """The same term, scaled to move a cloud at about `speed` at the start (internal units)."""
        return self

    @abstractmethod
    def gradient(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m d"]:
        r"""$\nabla\,\delta F/\delta\rho$ at points, or minus a non-gradient velocity.

        Arguments:
            x: points (s, m, d), m for each of s marginals.
            t: the internal time (s,) of each marginal, between 0 and 1 within the data.
            cloud: the particles of the marginals and their weights.
            field: log density and score of the marginals at x, computed once for all terms; only a
                term that declares `reads_density` may use it.
        """

    @abstractmethod
    def first_variation(
        self, x: Array, t: Array, cloud: Cloud, field: Field
    ) -> Float[Array, "s m"]:
        r"""$\delta F/\delta\rho$ at points; the arguments are those of `gradient`."""

    def local(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m"]:
        r"""The function $f$ at x for which this term's share of the energy is $E_\rho[f]$.

        It is zero for a velocity that is not a gradient; every other term has to define it.
        """
        if self.is_gradient:
            reason = "it does not say its share of the energy: write `local` in its class"
            raise NotAvailable(type(self).__name__, "for the value of the energy", reason)
        return jnp.zeros(x.shape[:2], x.dtype)

    def functional(self, t: Array, cloud: Cloud, field: Field) -> Float[Array, " s"]:
        r"""This term's share of $F[\rho]$; `field` is taken at the centres."""
        return cloud.mean(self.local(cloud.centres, t, cloud, field))

    def divergence(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m"]:
        r"""$\nabla\cdot$ `gradient` at x; a term that reads the density has to define its own."""
        if self.reads_density:
            reason = "it reads the density, which changes with x: write `divergence` in its class"
            raise NotAvailable(type(self).__name__, "for the divergence of its gradient", reason)
        push = jax.linearize(lambda y: self.gradient(y, t, cloud, field), x)[1]
        along = lambda e: (push(jnp.broadcast_to(e, x.shape)) * e[None, None, :]).sum(-1)
        return jax.vmap(along)(jnp.eye(x.shape[2], dtype=x.dtype)).sum(0)

    @property
    def diffusion(self) -> Scalar | None:
        r"""$\beta$ where this term is the noise $\sqrt{2\beta}\,dB$ of the SDE (internal units).

        None where it is part of the SDE's drift. That may also be a term that reads the density: it
        then moves individuals by the score of their kernel density.
        """
        return None

    def with_diffusion(self, beta: float) -> Term:
        """The same noise with another coefficient `beta` (internal units)."""
        raise NotAvailable(type(self).__name__, "with_diffusion", "it is no noise")

    @property
    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The arguments with which the constructor makes this term again, without functions."""

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        """How many numbers a term of these stored settings would hold, without making it."""
        return Declared.networks(settings, dim)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Term):
            from stitchflow._energy.energy import (
                Energy,  # `energy.py` imports this module
            )

            return Energy((self, other))
        return NotImplemented


class Potential(Term):
    r"""$E_\rho[V(x)]$, or $E_\rho[V(x, t)]$ with `time_varying=True`.

    Individuals move down the slope of V. A learned V is determined up to a constant, which may
    differ between times if V varies in time.

    Arguments:
        function: a known V, any JAX function `V(x)` or `V(x, t)` of one point of shape (d,), in the
            user's units; None learns a network.
        hidden: the widths of the network's layers.
        time_varying: whether a learned V depends on time; a given function does if it takes two
            arguments.
        learn: whether parameters and the positive coefficient are fitted; None fits a network and
            leaves a given function as it is.
        network: `PlainNetwork()` for the paper's; None for ours.

    >>> Potential(lambda x: 0.5 * (x**2).sum())
    Potential(known V(x))
    >>> Potential(time_varying=True)
    Potential(V(x, t))
    """

    sees_others: ClassVar[bool] = False
    hidden: tuple[int, ...] = eqx.field(static=True)
    time_varying: bool = eqx.field(static=True)
    learn: bool = eqx.field(static=True)
    function: Callable | None
    coefficient: Positive | None
    units: Units | None = eqx.field(static=True)
    network: PlainNetwork | None = eqx.field(static=True)

    def __init__(
        self,
        function: Callable | None = None,
        *,
        hidden: tuple[int, ...] = defaults.POTENTIAL_LAYERS,
        time_varying: bool = False,
        learn: bool | None = None,
        network: PlainNetwork | None = None,
    ):
        check_function(function)
        self.hidden, self.network = check_hidden(hidden), check_network(network)
        self.function = function
        self.time_varying = bool(time_varying) if function is None else arity(function) > 1
        self.learn = function is None if learn is None else bool(learn)
        self.coefficient, self.units = None, None

    def __repr__(self) -> str:
        known = "" if self.learn else "known "
        return f"Potential({known}V({'x, t' if self.time_varying else 'x'}))"

    @property
    def settings(self) -> dict[str, Any]:
        return {**shape_of(self), "time_varying": self.time_varying}

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> Potential:
        function, own_units = self.function, units
        if function is None:
            inputs = cloud.shape[1] + self.time_varying
            function = MLP(inputs, self.hidden, 1, key, last_layer(self.network))
            own_units = None
        coefficient = Positive.of(1.0, self.learn)
        return with_fields(self, function=function, coefficient=coefficient, units=own_units)

    def potential(self, x: Float[Array, "m d"], t: Float[Array, " m"]) -> Float[Array, " m"]:
        """V at points (m, d), each with its time (m,), in internal units."""
        function, units = detached_unless_learned(self.function, self.learn), self.units
        coefficient = ready(self.coefficient)
        if units is None:  # a network
            if self.time_varying:
                plain = self.network is not None
                x = jnp.concatenate([x, t[:, None]], axis=1) if plain else with_time(x, t)
            return coefficient() * function(x)[:, 0]
        one = function if self.time_varying else lambda p, _: function(p)
        value = lambda p, s: jnp.asarray(one(p, s)).reshape(())
        values = jax.vmap(value)(units.space_out(x), units.time_out(t))
        return coefficient() * values / units.energy

    def first_variation(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        return self.potential(*flat(x, t)).reshape(x.shape[:2])

    def gradient(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        points, times = flat(x, t)
        return jax.grad(lambda y: self.potential(y, times).sum())(points).reshape(x.shape)

    def local(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        return self.first_variation(x, t, cloud, field)


class Entropy(Term):
    r"""$\beta\,E_\rho[\log\rho]$, the diffusion of $dX = \dots + \sqrt{2\beta}\,dB$.

    Arguments:
        beta: the coefficient in the user's units, a squared length per time, at which a fit starts;
            None starts at a value that suits the scale of the data.
        learn: whether beta is fitted; False keeps the given one.

    >>> Entropy(0.1, learn=False)
    Entropy(beta=0.1, learn=False)
    """

    reads_density: ClassVar[bool] = True
    start: float | None = eqx.field(static=True)
    learn: bool = eqx.field(static=True)
    coefficient: Positive | None

    def __init__(self, beta: float | None = None, *, learn: bool = True):
        if beta is not None:
            beta = check_number(beta, "beta", 0.0, open_low=True)
        self.start, self.learn, self.coefficient = beta, bool(learn), None

    def __repr__(self) -> str:
        beta = "auto" if self.start is None else f"{self.start:g}"
        return f"Entropy(beta={beta}, learn={self.learn})"

    @property
    def settings(self) -> dict[str, Any]:
        return {"beta": self.start, "learn": self.learn}

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> Entropy:
        beta = defaults.START_BETA if self.start is None else self.start / units.energy
        return with_fields(self, coefficient=Positive.of(beta, self.learn))

    @property
    def beta(self) -> Scalar:
        """The coefficient in internal units."""
        return ready(self.coefficient)()

    @property
    def diffusion(self) -> Scalar:
        return self.beta

    def with_diffusion(self, beta: float) -> Entropy:
        return with_fields(self, coefficient=Positive.of(beta, self.learn))

    def first_variation(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        return self.beta * (field.log_density + 1.0)

    def gradient(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        return self.beta * field.score

    def divergence(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        return self.beta * field.laplacian

    def local(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        return self.beta * field.log_density


class InternalEnergy(Term):
    r"""$c\int U(\rho)\,dx$ for a given $U$ in the user's units (paper, eq:functional_app).

    Its gradient is $\nabla U'(\rho) = \rho\,U''(\rho)\,\nabla\log\rho$. The porous medium equation
    $\partial_t\rho = \Delta\rho^m$ has `U = lambda r: r**m / (m - 1)`.

    Arguments:
        U: a JAX function of one density, which is twice differentiable where densities lie.
        learn: whether the positive coefficient c is fitted; False keeps it at 1.

    >>> sf.Potential() + InternalEnergy(lambda r: r**2)
    Potential(V(x)) + InternalEnergy(U)
    """

    reads_density: ClassVar[bool] = True
    U: Callable
    learn: bool = eqx.field(static=True)
    coefficient: Positive | None
    units: Units | None = eqx.field(static=True)

    def __init__(self, U: Callable, *, learn: bool = False):
        if not callable(U):
            raise BadInputType(f"U must be a function of the density, got {U!r}")
        self.U, self.learn, self.coefficient, self.units = U, bool(learn), None, None

    def __repr__(self) -> str:
        return "InternalEnergy(U)"

    @property
    def settings(self) -> dict[str, Any]:
        return {"learn": self.learn}

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> InternalEnergy:
        return with_fields(self, coefficient=Positive.of(1.0, self.learn), units=units)

    def _internal(self, r: Scalar) -> Scalar:
        """U for an internal density r = L^d rho: int U(rho) dx = L^d int U(r / L^d) dx'."""
        units, U = ready(self.units), detached_unless_learned(self.U, self.learn)
        volume = units.length**units.dim
        return (
            ready(self.coefficient)()
            * jnp.asarray(U(r / volume)).reshape(())
            * volume
            / units.energy
        )

    def first_variation(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        slope = jax.vmap(jax.grad(self._internal))
        return slope(jnp.exp(field.log_density).reshape(-1)).reshape(x.shape[:2])

    def gradient(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        density = jnp.exp(field.log_density)
        curvature = jax.vmap(jax.grad(jax.grad(self._internal)))(density.reshape(-1))
        return (density * curvature.reshape(density.shape))[:, :, None] * field.score

    def divergence(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        r"""$p\,\Delta\log\rho + \rho\,p'(\rho)\,|\nabla\log\rho|^2$ with $p = \rho\,U''$."""
        pressure = lambda r: r * jax.grad(jax.grad(self._internal))(r)
        both = lambda r: (pressure(r), r * jax.grad(pressure)(r))
        p, rise = jax.vmap(jax.vmap(both))(jnp.exp(field.log_density))
        return p * field.laplacian + rise * (field.score**2).sum(-1)

    def local(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Array:
        density = jnp.exp(field.log_density)
        values = jax.vmap(self._internal)(density.reshape(-1)).reshape(density.shape)
        return values / density


def flat(
    x: Float[Array, "s m d"], t: Float[Array, " s"]
) -> tuple[Float[Array, "p d"], Float[Array, " p"]]:
    """The points `x` of several marginals as one list, and the time of each from the times `t`."""
    s, m, d = x.shape
    return x.reshape(s * m, d), jnp.repeat(t, m, total_repeat_length=s * m)


def arity(function: Callable) -> int:
    """How many positional arguments `function` takes."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds for p in inspect.signature(function).parameters.values())


def check_function(function: Any) -> None:
    """Refuse a `function` that is neither None nor callable."""
    if function is not None and not callable(function):
        raise BadInputType(f"function must be a JAX function or None, got {function!r}")


def check_network(network: Any) -> PlainNetwork | None:
    """The `network` itself if it is None or a `PlainNetwork`."""
    if network is not None and not isinstance(network, PlainNetwork):
        raise BadInputType(f"network must be PlainNetwork() or None, got {network!r}")
    return network


def last_layer(network: PlainNetwork | None) -> float:
    """The factor of the last layer's weights at the start."""
    return defaults.LAST_LAYER if network is None else network.last_layer


def shape_of(term: Any) -> dict[str, Any]:
    """The settings `hidden`, `learn` and `network` of a `term`, as far as they matter.

    Widths are left out where the user supplied a function, and `learn` where it has its default.
    """
    own = is_own(term.function)
    network = getattr(term, "network", None)  # a vector field has no choice of it
    plain = {} if network is None else {"network": network}
    shape = {} if own else {"hidden": term.hidden}
    return shape | ({"learn": own} if term.learn == own else {}) | plain


T = TypeVar("T")


def ready(part: T | None) -> T:
    """`part` itself, or an error if it is None because the term has no parameters yet."""
    if part is None:
        raise BadInput("this energy has no parameters yet: fit it, or use Energy.known")
    return part


def detached_unless_learned(function: Any, learn: bool) -> Any:
    """`function` itself if `learn`, otherwise with its parameters detached from the gradient."""
    function = ready(function)
    if learn:
        return function
    return jax.tree.map(lambda a: jax.lax.stop_gradient(a) if eqx.is_array(a) else a, function)


def with_fields(term: Any, **changes: Any) -> Any:
    """A copy of `term` with `changes` of its fields; constructors take settings, not fields."""
    copy = object.__new__(type(term))
    for name in term.__dataclass_fields__:
        object.__setattr__(copy, name, changes.get(name, getattr(term, name)))
    return copy
