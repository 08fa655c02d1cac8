r"""The energy: a sum of terms, answering in the user's units.

$$F[\rho] = E_\rho[V(x, t)] + \beta E_\rho[\log\rho] + \tfrac12 E_{\rho\times\rho}[W(x - x')]
            + \int U(\rho)\,dx .$$
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._energy.terms import Potential, Term
from stitchflow._html import table
from stitchflow._measure.kde import KDE, Cloud, Field
from stitchflow._status import BadInput, BadInputType
from stitchflow._types import Scalar, as_cloud, check_count


class Energy(eqx.Module):
    """A sum of terms: `Potential() + Entropy() + Interaction()`."""

    terms: tuple[Term, ...]
    units: Units | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        for term in self.terms:
            if not isinstance(term, Term):
                raise BadInputType(f"an energy is a sum of terms such as Potential(), got {term!r}")

    def __add__(self, other: Term | Energy) -> Energy:
        return Energy(self.terms + (other.terms if isinstance(other, Energy) else (other,)))

    def __radd__(self, other: Term) -> Energy:
        return Energy((other, *self.terms))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))

    def _repr_html_(self) -> str:
        rows = [(repr(term), *_settings(term)) for term in self.terms]
        known = self.units is not None and len(self.without_noise.terms) < len(self.terms)
        return table("Energy", [*rows, ("beta", f"{self.beta:.4g}")] if known else rows)

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> Energy:
        """Parameters for data like `cloud` (internal units)."""
        keys = jax.random.split(key, len(self.terms))
        pairs = zip(self.terms, keys, strict=True)
        return Energy(tuple(term.init(cloud, units, k) for term, k in pairs), units)

    def init_for(self, data: Snapshots, key: Array) -> Energy:
        """Parameters for these individuals, in their units."""
        return self.init(np.asarray(data.units.space_in(data.x)), data.units, key)

    @staticmethod
    def known(energy: Energy | Term, dim: int) -> Energy:
        """An energy of given functions, ready to simulate; nothing is learned."""
        energy = energy if isinstance(energy, Energy) else Energy((energy,))
        return energy.init(np.eye(2, dim), Units.identity(dim), jax.random.key(0))

    def only(self, kind: type) -> tuple[Any, ...]:
        """The terms of one kind."""
        return tuple(term for term in self.terms if isinstance(term, kind))

    @property
    def time_varying(self) -> bool:
        """Whether any term changes in time."""
        return any(term.time_varying for term in self.terms)

    def sized_for(self, speed: float) -> Energy:
        """Every term started at the size that moves a cloud at this speed (internal units)."""
        return Energy(tuple(term.sized_for(speed) for term in self.terms), self.units)

    @property
    def needs_density(self) -> bool:
        """Whether the velocity depends on the density itself, not only on where particles are."""
        return any(term.reads_density for term in self.terms)

    @property
    def without_noise(self) -> Energy:
        """The terms that are drift in the SDE; the others are its noise."""
        return Energy(tuple(term for term in self.terms if term.diffusion is None), self.units)

    # Internal units, traced, for several marginals at once: what residuals and simulators call.

    def gradient(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m d"]:
        r"""$\nabla\,\delta F/\delta\rho$ minus non-gradient velocities (eq:grad_functional_nn)."""
        one = lambda term, seen: term.gradient(x, t, cloud, seen)
        return self._sum(one, field, jnp.zeros_like(x))

    def first_variation(
        self, x: Array, t: Array, cloud: Cloud, field: Field
    ) -> Float[Array, "s m"]:
        r"""$\delta F/\delta\rho$."""
        one = lambda term, seen: term.first_variation(x, t, cloud, seen)
        return self._sum(one, field, jnp.zeros(x.shape[:2], x.dtype))

    def divergence(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m"]:
        r"""The divergence of `gradient`; `field` must hold second derivatives."""
        one = lambda term, seen: term.divergence(x, t, cloud, seen)
        return self._sum(one, field, jnp.zeros(x.shape[:2], x.dtype))

    def circulation(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m d"]:
        """The share of `gradient` that is none: minus the velocities that no energy gives."""
        rest = tuple(term for term in self.terms if not term.is_gradient)
        return Energy(rest).gradient(x, t, cloud, field)

    def local(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m"]:
        r"""$f$ at x, where $F[\rho] = E_\rho[f]$."""
        one = lambda term, seen: term.local(x, t, cloud, seen)
        return self._sum(one, field, jnp.zeros(x.shape[:2], x.dtype))

    def functional(self, t: Array, cloud: Cloud, field: Field) -> Float[Array, " s"]:
        r"""$F[\rho]$ (eq:functional, with the factor 1/2); `field` is taken at the centres."""
        one = lambda term, seen: term.functional(t, cloud, seen)
        return self._sum(one, field, jnp.zeros(t.shape, cloud.centres.dtype))

    def _sum(self, one: Callable[[Term, Field], Array], field: Field, zero: Array) -> Array:
        """The sum over terms; only those that read the density are shown it."""
        return sum((one(term, _shown(term, field)) for term in self.terms), zero)

    @property
    def diffusion(self) -> Scalar:
        """The sum of the coefficients of noise, internal units."""
        found = (term.diffusion for term in self.terms)
        return sum((beta for beta in found if beta is not None), jnp.zeros(()))

    # The user's units.

    @property
    def beta(self) -> float:
        """The entropy coefficient; 0 where there is no entropy term."""
        return float(self.diffusion) * self._units.energy

    def potential(self, x: Any, t: float | None = None) -> Float[Array, " m"]:
        """V at points (m, d). A time-varying V needs `t` and is free up to a constant c(t)."""
        points, time = self._arguments(x, t)
        return _potential(self, points, time) * self._units.energy

    def force(self, x: Any, t: float | None = None) -> Float[Array, "m d"]:
        """-grad V at points (m, d)."""
        points, time = self._arguments(x, t)
        return _force(self, points, time) * self._units.speed

    def interaction(self, r: Any) -> Float[Array, " m"]:
        """W at distances r (radial interactions)."""
        terms = self.only(Interaction)
        if not terms or not all(term.radial for term in terms):
            raise BadInput(f"this energy has no radial interaction: {self!r}")
        distances = jnp.asarray(np.atleast_1d(np.asarray(r, float)) / self._units.length, float)
        values = [term.interaction(distances) for term in terms]
        return jnp.stack(values).sum(0) * self._units.energy

    def kernel(self, r: Any) -> Float[Array, "m d"]:
        """K at displacements r of shape (m, d)."""
        terms = self.only(VectorKernel)
        if not terms:
            raise BadInput(f"this energy has no vector kernel: {self!r}")
        z = jnp.asarray(as_cloud(r, "r", self._units.dim) / self._units.length, float)
        return jnp.stack([term.kernel(z) for term in terms]).sum(0) * self._units.speed

    def velocity(self, x: Any, t: float | None, measure: Any) -> Float[Array, "m d"]:
        """-grad dF/drho (+ K * rho) at x, for a cloud (n, d) or a `KDE` in the user's units."""
        points, time = self._arguments(x, t)
        return velocity(self, points, time, self._measure(measure)) * self._units.speed

    def value(self, measure: Any, t: float | None = None) -> float:
        """F of a cloud (n, d) or a `KDE` in the user's units."""
        units, rho = self._units, self._measure(measure)
        internal = float(_functional(self, self._time(t), rho)) * units.energy
        # log rho' = log rho + d log L in the entropy; every other term is converted already.
        return internal - self.beta * units.dim * float(np.log(units.length))

    @property
    def _units(self) -> Units:
        if self.units is None:
            raise BadInput("this energy has no parameters yet: fit it, or use Energy.known")
        return self.units

    def _time(self, t: float | None) -> Scalar:
        if t is None:
            if self.time_varying:
                raise BadInput("t is needed: the potential of this energy varies in time")
            t = self._units.start
        return self._units.moment_in(t)

    def _arguments(self, x: Any, t: float | None) -> tuple[Array, Scalar]:
        return self._units.points_in(x), self._time(t)

    def _measure(self, measure: Any) -> KDE:
        units = self._units
        if isinstance(measure, KDE):
            centres = units.space_in(np.asarray(measure.centres))
            return KDE(centres, measure.bandwidth / units.length, measure.log_weights)
        cloud = as_cloud(measure, "measure", units.dim)
        check_count(cloud.shape[0], "number of points in measure", 2)
        return KDE.uniform(units.space_in(cloud))


def _settings(term: Term) -> tuple[str, ...]:
    """The choices that made a term, as one word."""
    given = ((name, value) for name, value in term.settings.items() if value is not None)
    return (", ".join(f"{name} = {value}" for name, value in given),)


def _shown(term: Term, field: Field) -> Field:
    if term.reads_density:
        return field
    name = type(term).__name__
    words = f"{name} does not say that it reads the density: set reads_density = True in its class"
    return Field(words)


def density_for(energy: Energy, rho: KDE, x: Float[Array, "m d"]) -> Field:
    """What the terms of an energy may ask about a density at x: nothing, where none reads it."""
    return rho.field(x) if energy.needs_density else Field()


def at_one(function: Any, x: Array, t: Scalar, rho: KDE, field: Field) -> Array:
    """One of an energy's stacked functions, for a single marginal."""
    stacked = jax.tree.map(lambda a: a[None], field)
    return function(x[None], t[None], Cloud(rho.centres[None], rho.weights[None]), stacked)[0]


@eqx.filter_jit
def velocity(energy: Energy, x: Array, t: Scalar, rho: KDE) -> Float[Array, "m d"]:
    """The energy's velocity at x in internal units."""
    return -at_one(energy.gradient, x, t, rho, density_for(energy, rho, x))


@eqx.filter_jit
def _potential(energy: Energy, x: Array, t: Scalar) -> Array:
    times = jnp.broadcast_to(t, x.shape[:1])
    values = (term.potential(x, times) for term in energy.only(Potential))
    return sum(values, jnp.zeros(x.shape[0], x.dtype))


@eqx.filter_jit
def _force(energy: Energy, x: Array, t: Scalar) -> Array:
    return -jax.grad(lambda y: _potential(energy, y, t).sum())(x)


@eqx.filter_jit
def _functional(energy: Energy, t: Scalar, rho: KDE) -> Scalar:
    field = jax.tree.map(lambda a: a[None], rho.field(rho.centres))
    return energy.functional(t[None], Cloud(rho.centres[None], rho.weights[None]), field)[0]
