r"""Residuals: how far a curve is from moving as the energy predicts.

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
from stitchflow._parts import LATER, Part
from stitchflow._status import BadInputType
from stitchflow._stitching import defaults
from stitchflow._types import Scalar, check_count, check_number


class Residual(eqx.Module, Part):
    """A number that is zero where the curve moves as the energy predicts; residuals add with `+`.

    A subclass is called with a curve, an energy and a random key, all in internal units, and
    returns a scalar that JAX can differentiate.

    >>> both = sf.VelocityResidual(weight=1.0) + sf.DensityResidual(weight=0.1)
    >>> both.factor
    1.0
    """

    @abstractmethod
    def __call__(self, curve: Curve, energy: Energy, key: Array) -> Scalar: ...

    @property
    @abstractmethod
    def factor(self) -> float:
        """The factor of the residual in the objective."""

    @abstractmethod
    def filled_in(self, choices: dict[str, Any]) -> Residual:
        """These settings with every None replaced by the value of that name in `choices`."""

    @abstractmethod
    def describe(self) -> str:
        """A few words on settings without None, for the log."""

    def __add__(self, other: Residual) -> Mixed:
        return Mixed(self, other) if isinstance(other, Residual) else NotImplemented


class Mixed(Residual):
    """The sum of two residuals, each with its own weight.

    Arguments:
        first: a residual.
        second: another one.
    """

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

    `VelocityResidual` explains the settings `scheme`, `alpha`, `weight`, `kinetic`, `stations`,
    `ridge`, `draws` and `widening`.
    """

    scheme: Scheme = eqx.field(default_factory=Midpoint)
    alpha: float | None = eqx.field(static=True, default=None)
    weight: float | None = eqx.field(static=True, default=None)
    kinetic: float = eqx.field(static=True, default=1.0)
    stations: int | None = eqx.field(static=True, default=None)
    ridge: float | None = eqx.field(static=True, default=None)
    draws: int | None = eqx.field(static=True, default=None)
    widening: float = eqx.field(static=True, default=defaults.WIDENING)

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
        return 1.0 if self.weight is None else self.weight

    def filled_in(self, choices: dict[str, Any]) -> Self:
        missing = {name: value for name, value in choices.items() if getattr(self, name) is None}
        return replace(self, **missing)

    def describe(self) -> str:
        return f"residual weight {self.weight:.2g}, ridge {self.ridge:.2g}"

    def __call__(self, curve: Curve, energy: Energy, key: Array) -> Scalar:
        alpha = 1.0 if self.alpha is None else self.alpha
        choose, draw = jax.random.split(key)
        stations = self.stations or defaults.STATIONS
        # None is all intervals, which lie end to end, so that gradients at nodes are shared.
        whole = stations >= len(curve.times) - 1
        intervals = None if whole else Intervals.of(curve).some(stations, choose)
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
        """The integral under the kernel density, with one draw per particle and interval."""

    def drawn(self, curve: Curve, intervals: Intervals, key: Array) -> Draws:
        """One draw around each of some particles in every interval, as the settings say."""
        return Draws.of(curve, intervals, self.draws, self.widening, key)

    def total(
        self, intervals: Intervals, gap: Array, slope: Array, weights: Float[Array, "i m"]
    ) -> Scalar:
        """The integral over time of the squared `gap`, and of the ridge on `slope`.

        Squares are summed over the last axis.
        """
        squares = (gap**2).sum(-1)
        if self.ridge:
            squares += self.ridge * (slope**2).sum(-1)
        return intervals.duration @ (squares * weights).sum(axis=1)


class Estimated(Pointwise):
    """A residual that is estimated alike at the particles and at draws from their kernels.

    Settings as in `VelocityResidual`: `scheme`, `alpha`, `weight`, `kinetic`, `stations`, `ridge`,
    `draws` and `widening`.
    """

    @abstractmethod
    def estimate(
        self,
        curve: Curve,
        energy: Energy,
        intervals: Intervals,
        draws: Draws | None,
        weights: Float[Array, "i m"],
    ) -> Scalar:
        """The integral at `draws`, or with None at the particles with leave-one-out densities."""

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
    r"""$\int E_\rho|v + \nabla\,\delta F/\delta\rho|^2\,dt$, at the particles and by Monte Carlo.

    At the particles (`alpha=0`) the residual is the boxed objective of the paper,
    $\sum_{j,k}\frac{w_k}{\Delta t_j}|\Delta x_{j,k}+\Delta t_j\nabla\delta F/\delta\rho|^2$, with
    leave-one-out scores. By Monte Carlo (`alpha=1`) it is evaluated at one draw per particle from
    its kernel, with the kernel-averaged velocity; this estimator is zero where the energy
    transports the density.

    Arguments:
        scheme: where in an interval the energy's gradient is evaluated: `Midpoint()` (the default),
            `Trapezoid()`, `Forward()` or `Backward()`.
        alpha: the share of the Monte Carlo estimate, from 0 to 1; None chooses by the energy.
        weight: the factor of the residual in the objective, in the units of the scaled data; None
            derives it from the numbers of individuals and of times.
        kinetic: a number by which the energy's gradient is divided.
        stations: the number of random intervals in each step, stratified in time so that the
            estimate stays unbiased; None derives it from the data.
        ridge: adds this share of the squared gradient, which shrinks forces that sampling noise
            alone could explain; None estimates it from the data.
        draws: the number of particles around which a point is drawn in each interval; None derives
            it from the data.
        widening: the factor by which kernels are widened for the draws, so that forces are also
            learned beyond the edge of the cloud, where unseen individuals may be. 1 gives the
            integral as it is written.
        leave_one_out: whether a particle is left out of the density at its own place, as in the
            paper's text; the authors' code does not.

    >>> VelocityResidual(sf.Trapezoid(), weight=2.0).factor
    2.0
    """

    leave_one_out: bool = eqx.field(static=True, default=True, metadata=LATER)

    def at_centres(
        self, curve: Curve, energy: Energy, intervals: Intervals | None = None
    ) -> Scalar:
        """The boxed objective without its data term (eq:stitch_ideal_global_approx).

        Arguments:
            curve: the curve in internal units.
            energy: the energy, with parameters.
            intervals: where to evaluate; None takes all intervals of the curve.
        """

        def field(c: Array, logits: Array) -> Field:
            rho = curve.kde(c, logits)
            return rho.field_without_self() if self.leave_one_out else rho.field(c)

        def gradient(times: Array, centres: Array, logits: Array) -> Float[Array, "i n d"]:
            n = centres.shape[1]
            known = energy.needs_density
            fields = over_stations(field, n, n, centres, logits) if known else Field()
            return energy.gradient(centres, times, curve.cloud(centres, logits), fields)

        if intervals is None and self.scheme.at_nodes:
            intervals = Intervals.of(curve)
            # The right end of an interval is the left end of the next: half the work.
            at_nodes = gradient(curve.nodes, curve.positions, curve.node_logits)
            slope = self.scheme.between(at_nodes) / self.kinetic
        else:
            intervals = Intervals.of(curve) if intervals is None else intervals
            slope = self.scheme.average(lambda share: gradient(*intervals.at(share))) / self.kinetic
        velocities = self.scheme.average(intervals.velocities)
        return self.total(intervals, velocities + slope, slope, intervals.weights)

    def monte_carlo(
        self, curve: Curve, energy: Energy, key: Array, intervals: Intervals | None = None
    ) -> Scalar:
        """The same integral under the kernel density, with one draw per particle and interval.

        A scheme with two places uses the same draw at both, which preserves its order of accuracy.
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
