r"""Residuals: how far a curve is from moving as the energy says.

The velocity residual is $R_{vel} = \int_0^T E_{\rho_t}|v_t + \nabla\,\delta F/\delta\rho_t|^2\,dt$.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stitchflow._energy.energy import Energy
from stitchflow._measure.curve import Curve
from stitchflow._measure.kde import Cloud, Field, over_stations
from stitchflow._objective.intervals import Draws, Intervals, Midpoint, Scheme
from stitchflow._parts import Part
from stitchflow._status import BadInputType
from stitchflow._types import Scalar, check_count, check_number


class Residual(eqx.Module, Part):
    """A number that is zero where the curve moves as the energy says; residuals add with `+`."""

    @abstractmethod
    def __call__(self, curve: Curve, energy: Energy, key: Array) -> Scalar: ...

    @property
    @abstractmethod
    def factor(self) -> float:
        """What it is multiplied with in the objective."""

    @abstractmethod
    def filled_in(self, choices: dict[str, Any]) -> Residual:
        """These settings with every None replaced by the choice of its name."""

    @abstractmethod
    def describe(self) -> str:
        """A few words on resolved settings."""

    def __add__(self, other: Residual) -> Mixed:
        return Mixed(self, other) if isinstance(other, Residual) else NotImplemented


class Mixed(Residual):
    """Two residuals, each with its own weight."""

    first: Residual
    second: Residual

    def __call__(self, curve: Curve, energy: Energy, key: Array) -> Scalar:
        one, other = jax.random.split(key)
        first = self.first.factor * self.first(curve, energy, one)
        return first + self.second.factor * self.second(curve, energy, other)

    @property
    def factor(self) -> float:
        return 1.0

    def filled_in(self, choices: dict[str, Any]) -> Mixed:
        return Mixed(self.first.filled_in(choices), self.second.filled_in(choices))

    def describe(self) -> str:
        return f"{self.first.describe()} and {self.second.describe()}"


class Pointwise(Residual):
    r"""$\hat R = (1-\alpha)\,\hat R^{centres} + \alpha\,\hat R^{MC}$ (eq:alpha_quadrature).

    What its settings mean stands in `VelocityResidual`.
    """

    scheme: Scheme = eqx.field(default_factory=Midpoint)
    alpha: float | None = eqx.field(static=True, default=None)
    weight: float | None = eqx.field(static=True, default=None)
    kinetic: float = eqx.field(static=True, default=1.0)
    stations: int | None = eqx.field(static=True, default=None)
    ridge: float | None = eqx.field(static=True, default=None)
    draws: int | None = eqx.field(static=True, default=None)
    widening: float = eqx.field(static=True, default=1.5)

    def __check_init__(self) -> None:
        if not isinstance(self.scheme, Scheme):
            raise BadInputType(f"scheme must be one such as Trapezoid(), got {self.scheme!r}")
        if self.alpha is not None:
            check_number(self.alpha, "alpha", 0.0, 1.0)
        for name in ("weight", "ridge"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), name, 0.0)
        check_number(self.kinetic, "kinetic", 0.0, open_low=True)
        check_number(self.widening, "widening", 0.0, open_low=True)
        for name in ("stations", "draws"):
            if getattr(self, name) is not None:
                check_count(getattr(self, name), name)

    @property
    def factor(self) -> float:
        assert self.weight is not None, "settings are not resolved"
        return self.weight

    def filled_in(self, choices: dict[str, Any]) -> Self:
        missing = {name: value for name, value in choices.items() if getattr(self, name) is None}
        return replace(self, **missing)

    def describe(self) -> str:
        return f"residual weight {self.weight:.2g}, ridge {self.ridge:.2g}"

    def __call__(self, curve: Curve, energy: Energy, key: Array) -> Scalar:
        alpha = 1.0 if self.alpha is None else self.alpha
        choose, draw = jax.random.split(key)
        intervals = Intervals.of(curve).some(self.stations or 8, choose)
        total = jnp.zeros((), curve.particles.dtype)
        if alpha < 1.0:
            total += (1.0 - alpha) * self.at_centres(curve, energy, intervals)
        if alpha > 0.0:
            total += alpha * self.monte_carlo(curve, energy, draw, intervals)
        return total

    @abstractmethod
    def at_centres(
        self, curve: Curve, energy: Energy, intervals: Intervals | None = None
    ) -> Scalar:
        """The integral with the empirical measure of the particles."""

    @abstractmethod
    def monte_carlo(
        self, curve: Curve, energy: Energy, key: Array, intervals: Intervals | None = None
    ) -> Scalar:
        """The integral under the kernel density, one draw per particle and interval."""

    def drawn(self, curve: Curve, intervals: Intervals, key: Array) -> Draws:
        return Draws.of(curve, intervals, self.draws, self.widening, key)

    def total(
        self, intervals: Intervals, gap: Array, slope: Array, weights: Float[Array, "i m"]
    ) -> Scalar:
        """The integral over time of squared gaps, and of the ridge; both have a last axis."""
        squares = (gap**2).sum(-1)
        if self.ridge:
            squares += self.ridge * (slope**2).sum(-1)
        return intervals.duration @ (squares * weights).sum(axis=1)


class Estimated(Pointwise):
    """A residual that asks the same at the particles and at draws from their kernels."""

    @abstractmethod
    def estimate(
        self,
        curve: Curve,
        energy: Energy,
        intervals: Intervals,
        draws: Draws | None,
        weights: Float[Array, "i m"],
    ) -> Scalar:
        """The integral at `draws`, or at the particles with leave-one-out densities."""

    def looked(
        self, curve: Curve, intervals: Intervals, draws: Draws | None, place: float, field: Callable
    ) -> tuple[Float[Array, "i m d"], Float[Array, " i"], Cloud, Field]:
        """Points, times, measures and `field(centres, logits, velocities, x)` at one place."""
        times, centres, logits = intervals.at(place)
        some = None if draws is None else draws.some
        x = centres if draws is None else centres[:, some] + draws.offset
        sizes, velocities = (x.shape[1], centres.shape[1]), intervals.velocities(place)
        fields = over_stations(field, *sizes, centres, logits, velocities, x)
        return x, times, curve.cloud(centres, logits, some), fields

    def at_centres(
        self, curve: Curve, energy: Energy, intervals: Intervals | None = None
    ) -> Scalar:
        intervals = Intervals.of(curve) if intervals is None else intervals
        return self.estimate(curve, energy, intervals, None, intervals.weights)

    def monte_carlo(
        self, curve: Curve, energy: Energy, key: Array, intervals: Intervals | None = None
    ) -> Scalar:
        intervals = Intervals.of(curve) if intervals is None else intervals
        draws = self.drawn(curve, intervals, key)
        return self.estimate(curve, energy, intervals, draws, draws.weights)


class VelocityResidual(Pointwise):
    r"""$\int E_\rho|v + \nabla\,\delta F/\delta\rho|^2\,dt$, at the centres and by Monte Carlo.

    At the centres (`alpha=0`) the residual is the boxed objective,
    $\sum_{j,k}\frac{w_k}{\Delta t_j}|\Delta x_{j,k}+\Delta t_j\nabla\delta F/\delta\rho|^2$, with
    leave-one-out scores. By Monte Carlo (`alpha=1`) it is taken at one draw per particle from its
    kernel, with the kernel-averaged velocity: the estimator whose zero means that the energy
    transports the density. Each step looks at `stations` random intervals, stratified in time,
    which keeps the estimate unbiased; `draws` is the number of particles drawn from at each, out of
    kernels `widening` times as wide, so that forces are known beyond the edge of the cloud, where
    unseen individuals are (with 1 it is the integral as it stands). `kinetic` divides the energy's
    gradient; `weight` is the residual's share of the objective, in the units of the scaled data;
    `ridge` adds that share of the squared gradient, which shrinks forces that sampling noise alone
    could explain. None leaves a choice to the data.
    """

    def at_centres(
        self,
        curve: Curve,
        energy: Energy,
        intervals: Intervals | None = None,
        without_self: bool = True,
    ) -> Scalar:
        """The boxed objective without its data term (eq:stitch_ideal_global_approx)."""
        intervals = Intervals.of(curve) if intervals is None else intervals

        def field(c: Array, logits: Array) -> Field:
            rho = curve.kde(c, logits)
            return rho.field_without_self() if without_self else rho.field(c)

        def gradient(place: float) -> Float[Array, "i n d"]:
            times, centres, logits = intervals.at(place)
            n = centres.shape[1]
            known = energy.needs_density
            fields = over_stations(field, n, n, centres, logits) if known else Field()
            return energy.gradient(centres, times, curve.cloud(centres, logits), fields)

        slope = self.scheme.average(gradient) / self.kinetic
        velocities = self.scheme.average(intervals.velocities)
        return self.total(intervals, velocities + slope, slope, intervals.weights)

    def monte_carlo(
        self, curve: Curve, energy: Energy, key: Array, intervals: Intervals | None = None
    ) -> Scalar:
        """The same integral under the kernel density, one draw per particle and interval.

        A scheme with two places uses the same draw at both, which keeps its order.
        """
        intervals = Intervals.of(curve) if intervals is None else intervals
        velocities = {place: intervals.velocities(place) for place in self.scheme.places}
        some, offset, weights = self.drawn(curve, intervals, key)

        def parts(place: float) -> tuple[Float[Array, "i n d"], Float[Array, "i n d"]]:
            times, centres, logits = intervals.at(place)
            n = centres.shape[1]
            x = centres[:, some] + offset
            at = lambda c, w, v, y: curve.kde(c, w).field(y, v)
            fields = over_stations(at, len(some), n, centres, logits, velocities[place], x)
            cloud = curve.cloud(centres, logits, some)
            slope = energy.gradient(x, times, cloud, fields) / self.kinetic
            return fields.velocity + slope, slope

        gap, slope = self.scheme.average(parts)
        return self.total(intervals, gap, slope, weights)
