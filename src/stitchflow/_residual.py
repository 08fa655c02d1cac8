r"""The velocity residual: how far a curve is from moving as the energy says.

$$R_{vel} = \int_0^T E_{\rho_t}\bigl|v_t + \nabla\,\delta F/\delta\rho_t\bigr|^2\,dt .$$
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._curve import Curve
from stitchflow._energy import Energy
from stitchflow._kde import Field, over_stations
from stitchflow._types import Scalar, check_count, check_number


class Intervals(NamedTuple):
    """Stretches between neighbouring nodes, and how much time each stands for."""

    start: Float[Array, " i"]
    step: Float[Array, " i"]
    left: Float[Array, "i n d"]
    right: Float[Array, "i n d"]
    left_logits: Float[Array, "i n"]
    right_logits: Float[Array, "i n"]
    duration: Float[Array, " i"]

    @staticmethod
    def of(curve: Curve) -> Intervals:
        x, w = curve.positions, curve.node_logits
        return Intervals(curve.nodes[:-1], curve.steps, x[:-1], x[1:], w[:-1], w[1:], curve.steps)

    @property
    def velocities(self) -> Float[Array, "i n d"]:
        return (self.right - self.left) / self.step[:, None, None]

    def at(
        self, share: float
    ) -> tuple[Float[Array, " i"], Float[Array, "i n d"], Float[Array, "i n"]]:
        """Times, particles and their log weights a share of the way through."""
        mixed = lambda a, b: (1.0 - share) * a + share * b
        times = self.start + share * self.step
        return times, mixed(self.left, self.right), mixed(self.left_logits, self.right_logits)

    @property
    def weights(self) -> Float[Array, "i n"]:
        """Weights half-way."""
        return jax.nn.softmax(self.at(0.5)[2], axis=1)

    def some(self, number: int, key: Array) -> Intervals:
        """One random interval out of each of `number` stretches, standing for all of them."""
        total = self.start.shape[0]
        if total <= number:
            return self
        edges = np.linspace(0, total, number + 1).round().astype(np.int32)
        pick = jax.random.randint(key, (number,), jnp.asarray(edges[:-1]), jnp.asarray(edges[1:]))
        chosen = Intervals(*(part[pick] for part in self))
        sizes = jnp.asarray(np.diff(edges), chosen.duration.dtype)
        return chosen._replace(duration=chosen.duration * sizes)


class Scheme(eqx.Module):
    """A rule that discretises an interval: the places in it whose gradients are averaged."""

    places: ClassVar[tuple[float, ...]]

    def average(self, function: Callable[[float], Any]) -> Any:
        """The mean of `function(place)`, any tree of arrays, over the places."""
        values = [function(place) for place in self.places]
        return jax.tree.map(lambda *parts: sum(parts[1:], parts[0]) / len(parts), *values)


class Forward(Scheme):
    """Forward Euler: the gradient at the left end. First order."""

    places: ClassVar = (0.0,)


class Backward(Scheme):
    """Backward Euler: the gradient at the right end. First order."""

    places: ClassVar = (1.0,)


class Midpoint(Scheme):
    """The gradient half-way, where the chord is the velocity. Second order."""

    places: ClassVar = (0.5,)


class Trapezoid(Scheme):
    """The mean of the gradients at both ends. Second order; the paper's choice."""

    places: ClassVar = (0.0, 1.0)


class VelocityResidual(eqx.Module):
    r"""$\hat R = (1-\alpha)\,\hat R^{centres} + \alpha\,\hat R^{MC}$ (eq:alpha_quadrature).

    At the centres the residual is the boxed objective,
    $\sum_{j,k}\frac{w_k}{\Delta t_j}|\Delta x_{j,k}+\Delta t_j\nabla\delta F/\delta\rho|^2$, with
    leave-one-out scores. By Monte Carlo it is taken at one draw per particle from its kernel, with
    the kernel-averaged velocity: the estimator whose zero means that the energy transports the
    density. Each step looks at `stations` random intervals, stratified in time, which keeps the
    estimate unbiased; `draws` is the number of particles drawn from at each, out of kernels
    `widening` times as wide, so that forces are known beyond the edge of the cloud, where unseen
    individuals are (1: the integral as it stands). `kinetic` divides the energy's gradient;
    `weight` is the residual's share of the objective, in the units of the scaled data; `ridge` adds
    that share of the squared gradient, which shrinks forces that sampling noise alone could
    explain. None leaves a choice to the data.
    """

    scheme: Scheme = eqx.field(default_factory=Midpoint)
    alpha: float | None = eqx.field(static=True, default=None)
    weight: float | None = eqx.field(static=True, default=None)
    kinetic: float = eqx.field(static=True, default=1.0)
    stations: int | None = eqx.field(static=True, default=None)
    ridge: float | None = eqx.field(static=True, default=None)
    draws: int | None = eqx.field(static=True, default=None)
    widening: float | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if not isinstance(self.scheme, Scheme):
            raise TypeError(f"scheme must be one such as Trapezoid(), got {self.scheme!r}")
        if self.alpha is not None:
            check_number(self.alpha, "alpha", 0.0, 1.0)
        for name in ("weight", "ridge"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), name, 0.0)
        check_number(self.kinetic, "kinetic", 0.0, open_low=True)
        if self.widening is not None:
            check_number(self.widening, "widening", 0.0, open_low=True)
        for name in ("stations", "draws"):
            if getattr(self, name) is not None:
                check_count(getattr(self, name), name)

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
            if energy.needs_density:
                fields = over_stations(field, n, n, centres, logits)
            else:
                zero = jnp.zeros_like(centres)
                fields = Field(zero[..., 0], zero, None)
            return energy.gradient(centres, times, curve.cloud(centres, logits), fields)

        slope = self.scheme.average(gradient) / self.kinetic
        return self._total(intervals, intervals.velocities + slope, slope, intervals.weights)

    def monte_carlo(
        self, curve: Curve, energy: Energy, key: Array, intervals: Intervals | None = None
    ) -> Scalar:
        """The same integral under the kernel density, one draw per particle and interval.

        A scheme with two places uses the same draw at both, which keeps its order.
        """
        intervals = Intervals.of(curve) if intervals is None else intervals
        velocities = intervals.velocities
        s, n, d = velocities.shape
        some, weights, kick = jnp.arange(n), intervals.weights, key
        if self.draws is not None and self.draws < n:
            kick, choose = jax.random.split(key)
            some = jax.random.permutation(choose, n)[: self.draws]
            weights = weights[:, some] * (n / self.draws)
        noise = jax.random.normal(kick, (s, len(some), d), velocities.dtype)
        widths = (self.widening or 1.0) * jnp.broadcast_to(curve.bandwidth, (n, d))
        offset = widths[some][None] * noise

        def parts(place: float) -> tuple[Float[Array, "i n d"], Float[Array, "i n d"]]:
            times, centres, logits = intervals.at(place)
            x = centres[:, some] + offset
            at = lambda c, w, v, y: curve.kde(c, w).field(y, v)
            fields = over_stations(at, len(some), n, centres, logits, velocities, x)
            assert fields.velocity is not None
            slope = energy.gradient(x, times, curve.cloud(centres, logits), fields) / self.kinetic
            return fields.velocity + slope, slope

        gap, slope = self.scheme.average(parts)
        return self._total(intervals, gap, slope, weights)

    def _total(self, intervals: Intervals, gap: Array, slope: Array, weights: Array) -> Scalar:
        squares = (gap**2).sum(-1)
        if self.ridge:
            squares += self.ridge * (slope**2).sum(-1)
        return intervals.duration @ (squares * weights).sum(axis=1)
