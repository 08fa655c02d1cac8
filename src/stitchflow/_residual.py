r"""The velocity residual: how far a curve is from moving as the energy says.

$$R_{vel} = \int_0^T E_{\rho_t}\bigl|v_t + \nabla\,\delta F/\delta\rho_t\bigr|^2\,dt .$$
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._curve import Curve
from stitchflow._energy import Energy
from stitchflow._kde import Field, over_stations
from stitchflow._types import Scalar, check_count, check_number


class Stations(NamedTuple):
    """Where in time the residual is looked at, and how much time each place stands for."""

    times: Float[Array, " s"]
    centres: Float[Array, "s n d"]
    velocities: Float[Array, "s n d"]
    durations: Float[Array, " s"]


class Scheme(eqx.Module):
    """A rule that discretises one interval between nodes."""

    @abstractmethod
    def average(self, curve: Curve, gradient: Callable) -> Float[Array, "i n d"]:
        """The energy gradient each interval is charged with; `gradient(times, centres)`."""

    @abstractmethod
    def stations(self, curve: Curve) -> Stations:
        """The places at which a Monte Carlo estimate draws its points."""


def _velocities(curve: Curve) -> Float[Array, "i n d"]:
    x = curve.positions
    return (x[1:] - x[:-1]) / curve.steps[:, None, None]


class Forward(Scheme):
    """Forward Euler: the gradient at the left end. First order."""

    def average(self, curve: Curve, gradient: Callable) -> Array:
        return gradient(curve.nodes[:-1], curve.positions[:-1])

    def stations(self, curve: Curve) -> Stations:
        return Stations(curve.nodes[:-1], curve.positions[:-1], _velocities(curve), curve.steps)


class Backward(Scheme):
    """Backward Euler: the gradient at the right end. First order."""

    def average(self, curve: Curve, gradient: Callable) -> Array:
        return gradient(curve.nodes[1:], curve.positions[1:])

    def stations(self, curve: Curve) -> Stations:
        return Stations(curve.nodes[1:], curve.positions[1:], _velocities(curve), curve.steps)


class Midpoint(Scheme):
    """The gradient half-way, where the chord is the velocity. Second order."""

    def average(self, curve: Curve, gradient: Callable) -> Array:
        stations = self.stations(curve)
        return gradient(stations.times, stations.centres)

    def stations(self, curve: Curve) -> Stations:
        t, x = curve.nodes, curve.positions
        middle = 0.5 * (x[1:] + x[:-1])
        return Stations(0.5 * (t[1:] + t[:-1]), middle, _velocities(curve), curve.steps)


class Trapezoid(Scheme):
    """The mean of the gradients at both ends. Second order; the paper's choice."""

    def average(self, curve: Curve, gradient: Callable) -> Array:
        g = gradient(curve.nodes, curve.positions)
        return 0.5 * (g[1:] + g[:-1])

    def stations(self, curve: Curve) -> Stations:
        left, right = Forward().stations(curve), Backward().stations(curve)
        both = Stations(*(jnp.concatenate(pair) for pair in zip(left, right, strict=True)))
        return both._replace(durations=0.5 * both.durations)


class VelocityResidual(eqx.Module):
    r"""$\hat R = (1-\alpha)\,\hat R^{centres} + \alpha\,\hat R^{MC}$ (eq:alpha_quadrature).

    At the centres the residual is the boxed objective,
    $\sum_{j,k}\frac{w_k}{\Delta t_j}|\Delta x_{j,k}+\Delta t_j\nabla\delta F/\delta\rho|^2$, with
    leave-one-out scores. By Monte Carlo it is taken at one draw per particle from its kernel, with
    the kernel-averaged velocity: the estimator whose zero means that the energy transports the
    density; each step looks at `stations` random intervals, stratified in time, which keeps the
    estimate unbiased. `kinetic` divides the energy's gradient; `weight` is the residual's share of
    the objective, in the units of the scaled data; None leaves it to the size of the data.
    """

    scheme: Scheme = eqx.field(default_factory=Midpoint)
    alpha: float = eqx.field(static=True, default=1.0)
    weight: float | None = eqx.field(static=True, default=None)
    kinetic: float = eqx.field(static=True, default=1.0)
    stations: int = eqx.field(static=True, default=8)

    def __check_init__(self) -> None:
        if not isinstance(self.scheme, Scheme):
            raise TypeError(f"scheme must be one such as Trapezoid(), got {self.scheme!r}")
        check_number(self.alpha, "alpha", 0.0, 1.0)
        if self.weight is not None:
            check_number(self.weight, "weight", 0.0)
        check_number(self.kinetic, "kinetic", 0.0, open_low=True)
        check_count(self.stations, "stations")

    def __call__(self, curve: Curve, energy: Energy, key: Array) -> Scalar:
        total = jnp.zeros((), curve.particles.dtype)
        if self.alpha < 1.0:
            total += (1.0 - self.alpha) * self.at_centres(curve, energy)
        if self.alpha > 0.0:
            total += self.alpha * self.monte_carlo(curve, energy, key)
        return total

    def at_centres(self, curve: Curve, energy: Energy, without_self: bool = True) -> Scalar:
        """The boxed objective without its data term (eq:stitch_ideal_global_approx)."""

        def gradient(times: Array, centres: Array) -> Array:
            def field(c: Array) -> Field:
                rho = curve.kde(c)
                return rho.field_without_self() if without_self else rho.field(c)

            n = centres.shape[1]
            fields = over_stations(field, n, n, centres)
            return energy.gradient(centres, times, curve.cloud(centres), fields)

        step = curve.steps[:, None, None]
        moves = curve.positions[1:] - curve.positions[:-1]
        gap = moves + step * self.scheme.average(curve, gradient) / self.kinetic
        return ((gap**2).sum(-1) / curve.steps[:, None] @ curve.weights).sum()

    def _some(self, all_: Stations, key: Array) -> Stations:
        """One random station out of each of `stations` stretches, standing for all of them."""
        s = all_.times.shape[0]
        if s <= self.stations:
            return all_
        edges = np.linspace(0, s, self.stations + 1).round().astype(np.int32)
        sizes = np.diff(edges)
        pick = jax.random.randint(key, sizes.shape, jnp.asarray(edges[:-1]), jnp.asarray(edges[1:]))
        some = Stations(*(part[pick] for part in all_))
        return some._replace(durations=some.durations * jnp.asarray(sizes, some.durations.dtype))

    def monte_carlo(self, curve: Curve, energy: Energy, key: Array) -> Scalar:
        """The same integral under the kernel density, one draw per particle and station."""
        choose, key = jax.random.split(key)
        times, centres, velocities, durations = self._some(self.scheme.stations(curve), choose)
        noise = jax.random.normal(key, centres.shape, centres.dtype)
        n, d = centres.shape[1:]
        x = centres + jnp.broadcast_to(curve.bandwidth, (n, d))[None] * noise
        fields = over_stations(
            lambda c, v, y: curve.kde(c).field(y, v), n, n, centres, velocities, x
        )
        assert fields.velocity is not None
        gradient = energy.gradient(x, times, curve.cloud(centres), fields)
        gap = fields.velocity + gradient / self.kinetic
        return durations @ ((gap**2).sum(-1) @ curve.weights)
