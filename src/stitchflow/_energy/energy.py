r"""The energy: a sum of terms. Its public methods take and return the user's units.

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
from stitchflow._energy.per_condition import PerCondition
from stitchflow._energy.terms import Potential, Term, ready, with_fields
from stitchflow._energy.vector_field import VectorField
from stitchflow._html import table
from stitchflow._measure.kde import KDE, Cloud, Field
from stitchflow._status import BadInput, BadInputType
from stitchflow._types import Scalar, as_cloud, check_count


class Energy(eqx.Module):
    r"""The energy of a population, a sum such as `Potential() + Entropy() + Interaction()`.

    $$F[\rho] = E_\rho[V(x, t)] + \beta E_\rho[\log\rho]
                + \tfrac12 E_{\rho\times\rho}[W(x - x')] + \int U(\rho)\,dx .$$

    A population moves by $\partial_t\rho = \nabla\cdot(\rho\,\nabla\,\delta F/\delta\rho)$. The sum
    of two terms is an energy without parameters. A fit returns one with parameters and units as
    `fit.energy`, and `Energy.known` makes one from given functions.

    Arguments:
        terms: the summands, each with its coefficient inside.
        units: the scales between the user's units and the internal ones; None before a fit, when
            the energy cannot be evaluated.

    >>> sf.Potential() + sf.Entropy()
    Potential(V(x)) + Entropy(beta=auto, learn=True)
    >>> well = sf.Energy.known(sf.Potential(lambda x: 0.5 * (x**2).sum()), dim=2)
    >>> well.potential(np.array([[1.0, 1.0]])).tolist()
    [1.0]
    """

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
        """The same terms with parameters.

        Arguments:
            cloud: points (n, d) in internal units that look like the data.
            units: the scales of the values that the energy returns.
            key: the random key of the networks' weights.
        """
        keys = jax.random.split(key, len(self.terms))
        pairs = zip(self.terms, keys, strict=True)
        return Energy(tuple(term.init(cloud, units, k) for term, k in pairs), units)

    def init_for(self, data: Snapshots, key: Array) -> Energy:
        """Parameters for these individuals, in their units."""
        return self.init(np.asarray(data.units.space_in(data.x)), data.units, key)

    @staticmethod
    def known(energy: Energy | Term, dim: int) -> Energy:
        """An energy of given functions that can be evaluated and simulated without a fit.

        Arguments:
            energy: a term or a sum of terms whose functions and coefficients are given. A term
                without a function gets an untrained network.
            dim: the number of coordinates of a point.

        >>> spring = sf.Potential(lambda x: 0.5 * (x**2).sum()) + sf.Entropy(0.1)
        >>> known = sf.Energy.known(spring, dim=1)
        >>> known.force(np.array([[2.0]])).tolist(), round(known.beta, 3)
        ([[-2.0]], 0.1)
        """
        energy = energy if isinstance(energy, Energy) else Energy((energy,))
        return energy.init(np.eye(2, dim), Units.identity(dim), jax.random.key(0))

    def only(self, kind: type) -> tuple[Any, ...]:
        """The terms that are instances of `kind`, in their order."""
        return tuple(term for term in self.terms if isinstance(term, kind))

    @property
    def conditions(self) -> tuple[str, ...]:
        """The names of the conditions between which this energy differs; none where it does not."""
        return next((term.labels for term in self.only(PerCondition)), ())

    def of(self, condition: Any) -> Energy:
        """The energy of one condition: what all share, and what this one adds.

        Arguments:
            condition: its label. An unknown one is refused, and any where the energy is the same
                under all conditions.
        """
        own = lambda term: term.of(condition) if isinstance(term, PerCondition) else term
        if not self.only(PerCondition):
            raise BadInput(f"{self!r} is the same under all conditions, got {condition!r}")
        return Energy(tuple(own(term) for term in self.terms), self.units)

    @property
    def time_varying(self) -> bool:
        """Whether any term depends on time."""
        return any(term.time_varying for term in self.terms)

    def sized_for(self, speed: float) -> Energy:
        """The same energy with terms scaled to move a cloud at about `speed` (internal units)."""
        return Energy(tuple(term.sized_for(speed) for term in self.terms), self.units)

    def times(self, share: Any) -> Energy:
        """All terms `share` times as large: a population that moves as before, at that speed."""
        coefficient = lambda term: ready(getattr(term, "coefficient", None)).times(share)
        terms = (with_fields(term, coefficient=coefficient(term)) for term in self.terms)
        return Energy(tuple(terms), self.units)

    @property
    def needs_density(self) -> bool:
        """Whether the velocity depends on the density, beyond where the particles are."""
        return any(term.reads_density for term in self.terms)

    @property
    def without_noise(self) -> Energy:
        """The terms that are the drift of the SDE; the remaining ones are its noise."""
        return Energy(tuple(term for term in self.terms if term.diffusion is None), self.units)

    # In internal units, traced, for several marginals at once: called by residuals and simulators.

    def gradient(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m d"]:
        r"""$\nabla\,\delta F/\delta\rho$ minus non-gradient velocities (eq:grad_functional_nn).

        Arguments:
            x: points (s, m, d), m for each of s marginals, in internal units.
            t: the internal time (s,) of each marginal.
            cloud: the particles of the marginals, for terms of pairs.
            field: log density and score of the marginals at x, for terms that read the density.
        """
        one = lambda term, seen: term.gradient(x, t, cloud, seen)
        return self._sum(one, field, jnp.zeros_like(x))

    def first_variation(
        self, x: Array, t: Array, cloud: Cloud, field: Field
    ) -> Float[Array, "s m"]:
        r"""$\delta F/\delta\rho$ at points; the arguments are those of `gradient`."""
        one = lambda term, seen: term.first_variation(x, t, cloud, seen)
        return self._sum(one, field, jnp.zeros(x.shape[:2], x.dtype))

    def divergence(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m"]:
        """The divergence of `gradient`; `field` must hold second derivatives."""
        one = lambda term, seen: term.divergence(x, t, cloud, seen)
        return self._sum(one, field, jnp.zeros(x.shape[:2], x.dtype))

    def circulation(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m d"]:
        """The part of `gradient` that is not one: minus the non-gradient velocities."""
        rest = tuple(term for term in self.terms if not term.is_gradient)
        return Energy(rest).gradient(x, t, cloud, field)

    def local(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m"]:
        r"""The function $f$ at x for which $F[\rho] = E_\rho[f]$."""
        one = lambda term, seen: term.local(x, t, cloud, seen)
        return self._sum(one, field, jnp.zeros(x.shape[:2], x.dtype))

    def functional(self, t: Array, cloud: Cloud, field: Field) -> Float[Array, " s"]:
        r"""$F[\rho]$ of each marginal (eq:functional, with 1/2); `field` is at the centres."""
        one = lambda term, seen: term.functional(t, cloud, seen)
        return self._sum(one, field, jnp.zeros(t.shape, cloud.centres.dtype))

    def _sum(self, one: Callable[[Term, Field], Array], field: Field, zero: Array) -> Array:
        """The sum over terms; only terms that declare it are given the density."""
        return sum((one(term, _shown(term, field)) for term in self.terms), zero)

    @property
    def diffusion(self) -> Scalar:
        """The sum of the noise coefficients in internal units."""
        found = (term.diffusion for term in self.terms)
        return sum((beta for beta in found if beta is not None), jnp.zeros(()))

    # In the user's units.

    @property
    def beta(self) -> float:
        r"""The coefficient of the entropy in the user's units; 0 without an entropy term.

        Individuals move with the noise $\sqrt{2\beta}\,dB$.
        """
        return float(self.diffusion) * self._units.energy

    def potential(self, x: Any, t: float | None = None) -> Float[Array, " m"]:
        """V at points, one value for each.

        Arguments:
            x: points of shape (m, d).
            t: the time, which a potential that varies in time needs. Such a V is determined up to a
                constant c(t) only.
        """
        points, time = self._arguments(x, t)
        return _potential(self, points, time) * self._units.energy

    def force(self, x: Any, t: float | None = None) -> Float[Array, "m d"]:
        r"""$-\nabla V$ at points of shape (m, d), with the arguments of `potential`."""
        points, time = self._arguments(x, t)
        return _force(self, points, time) * self._units.speed

    def interaction(self, r: Any) -> Float[Array, " m"]:
        """W at distances `r` of shape (m,), or at displacements (m, d) where W is not radial.

        >>> pairs = sf.Energy.known(sf.Interaction(lambda r: r**2), dim=2)
        >>> pairs.interaction([1.0, 3.0]).tolist()
        [1.0, 9.0]
        """
        terms, radial = self.only(Interaction), np.ndim(r) < 2
        if not terms or any(term.radial != radial for term in terms):
            kind = "radial interaction" if radial else "interaction of displacements"
            raise BadInput(f"this energy has no {kind}: {self!r}")
        if not radial:
            z = jnp.asarray(as_cloud(r, "r", self._units.dim) / self._units.length, float)
            values = [term.of_displacements(z) for term in terms]
            return jnp.stack(values).sum(0) * self._units.energy
        distances = jnp.asarray(np.atleast_1d(np.asarray(r, float)) / self._units.length, float)
        values = [term.interaction(distances) for term in terms]
        return jnp.stack(values).sum(0) * self._units.energy

    def kernel(self, r: Any) -> Float[Array, "m d"]:
        """K at displacements `r` (m, d): the velocity that one individual gives another."""
        terms = self.only(VectorKernel)
        if not terms:
            raise BadInput(f"this energy has no vector kernel: {self!r}")
        z = jnp.asarray(as_cloud(r, "r", self._units.dim) / self._units.length, float)
        return jnp.stack([term.kernel(z) for term in terms]).sum(0) * self._units.speed

    def field(self, x: Any, t: float | None = None) -> Float[Array, "m d"]:
        """The velocity of the vector fields at points `x` (m, d), with the `t` of `potential`.

        >>> turn = sf.VectorField(lambda x: np.array([[0.0, -1.0], [1.0, 0.0]]) @ x)
        >>> sf.Energy.known(turn, dim=2).field([[1.0, 0.0]]).tolist()
        [[0.0, 1.0]]
        """
        terms = self.only(VectorField)
        if not terms:
            raise BadInput(f"this energy has no vector field: {self!r}")
        points, time = self._arguments(x, t)
        times = jnp.broadcast_to(time, points.shape[:1])
        return jnp.stack([term.velocity(points, times) for term in terms]).sum(0) * (
            self._units.speed
        )

    def velocity(self, x: Any, t: float | None, measure: Any) -> Float[Array, "m d"]:
        r"""The velocity $-\nabla\,\delta F/\delta\rho$ (plus $K * \rho$) at points.

        Arguments:
            x: points of shape (m, d).
            t: the time; None is allowed where the energy does not vary in time.
            measure: the population, as individuals (n, d) or a `KDE`. The density of individuals is
                estimated by kernels of Silverman's width.
        """
        points, time = self._arguments(x, t)
        return velocity(self, points, time, self._measure(measure)) * self._units.speed

    def value(self, measure: Any, t: float | None = None) -> float:
        """F of a population, as a number.

        Arguments:
            measure: individuals (n, d) or a `KDE`, in the user's units.
            t: the time; None is allowed where the energy does not vary in time.

        >>> well = sf.Energy.known(sf.Potential(lambda x: (x**2).sum()), dim=1)
        >>> well.value(np.array([[1.0], [3.0]]))
        5.0
        """
        units, rho = self._units, self._measure(measure)
        internal = float(_functional(self, self._time(t), rho)) * units.energy
        # log rho' = log rho + d log L in the entropy; every other term is converted already.
        return internal - self.beta * units.dim * float(np.log(units.length))

    @property
    def _units(self) -> Units:
        return ready(self.units)

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
    """The settings that a term was made from, as one text."""
    given = ((name, value) for name, value in term.settings.items() if value is not None)
    return (", ".join(f"{name} = {value}" for name, value in given),)


def _shown(term: Term, field: Field) -> Field:
    if term.reads_density:
        return field
    name = type(term).__name__
    words = f"{name} does not say that it reads the density: set reads_density = True in its class"
    return Field(words)


def density_for(energy: Energy, rho: KDE, x: Float[Array, "m d"]) -> Field:
    """Log density and score of `rho` at `x`, or nothing if no term of `energy` reads them."""
    return rho.field(x) if energy.needs_density else Field()


def at_one(function: Any, x: Array, t: Scalar, rho: KDE, field: Field) -> Array:
    """`function`, a method of an energy for several marginals, at points of a single marginal.

    Arguments:
        function: such as `energy.gradient`.
        x: points (m, d).
        t: the internal time.
        rho: the marginal.
        field: what is known about `rho` at x, without the axis of marginals.
    """
    stacked = jax.tree.map(lambda a: a[None], field)
    return function(x[None], t[None], Cloud(rho.centres[None], rho.weights[None]), stacked)[0]


@eqx.filter_jit
def velocity(energy: Energy, x: Array, t: Scalar, rho: KDE) -> Float[Array, "m d"]:
    """The energy's velocity at points x of a marginal `rho` at time `t`, in internal units."""
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
