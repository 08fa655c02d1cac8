"""The flow of a fit of stitching: a curve, and the energy that drives it."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._energy.energy import velocity as energy_velocity
from stitchflow._energy.simulate import simulate
from stitchflow._measure.curve import Curve
from stitchflow._measure.kde import KDE
from stitchflow._method.dividing import simulate_dividing
from stitchflow._method.flow import Flow, simulate_in_units
from stitchflow._status import BadInput, ExtrapolationWarning, NotAvailable
from stitchflow._stitching import defaults
from stitchflow._types import (
    KeyLike,
    Scalar,
    as_key,
    as_times,
    check_count,
    check_number,
)
from stitchflow._weak_form.uncertainty import Uncertainty


class StitchedFlow(Flow):
    """The flow of a fit of stitching: a curve, and the energy that drives it.

    Samples, densities and velocities come from the curve within the observed times, and from
    simulation with the energy outside. Simulations use the energy alone.

    Arguments:
        curve: the fitted curve in internal units.
        energy: the fitted energy.
        units: the scales between internal units and the user's.
        known: the standard errors of an energy that averages tell; None for networks.
    """

    method = "stitching"

    def __init__(
        self, curve: Curve, energy: Energy, units: Units, known: Uncertainty | None = None
    ):
        self.curve, self.energy, self.units, self.known = curve, energy, units, known
        self.dim = units.dim

    @property
    def uncertainty(self) -> Uncertainty:
        if self.known is None:
            reason = "its energy is a network, for which there are ensembles"
            raise NotAvailable(self.method, "uncertainty", reason)
        return self.known

    @property
    def fitted_curve(self) -> Curve:
        return self.curve

    def sample(self, times: Any, n: int, key: KeyLike = 0) -> Float[Array, "t n d"]:
        times, n, key = as_times(times), check_count(n, "n"), as_key(key)
        clouds = []
        for i, t in enumerate(times):
            here, there = jax.random.split(jax.random.fold_in(key, i))
            end = self._nearest(t)
            x = _sample(self.curve, self._inside(end), here, n)
            if end != t:
                x = self._extrapolate(x, end, t, there)
            clouds.append(x)
        return self.units.space_out(jnp.stack(clouds))

    def log_density(self, x: Any, t: float) -> Float[Array, " m"]:
        rho = self.marginal(t)
        return _log_density(rho, self.units.points_in(x)) - self.dim * np.log(self.units.length)

    def score(self, x: Any, t: float) -> Float[Array, "m d"]:
        return _score(self.marginal(t), self.units.points_in(x)) / self.units.length

    def velocity(self, x: Any, t: float) -> Float[Array, "m d"]:
        """Kernel-averaged velocity of the curve (eq:kde_vel); the energy's outside its times."""
        points, end = self.units.points_in(x), self._nearest(t)
        if end != t:
            rho = self.marginal(t)
            return energy_velocity(self.energy, points, self._inside(t), rho) * self.units.speed
        return _velocity(self.curve, points, self._inside(t)) * self.units.speed

    def simulate(
        self,
        x0: Any,
        times: Any,
        key: KeyLike = 0,
        *,
        weights: Any = None,
        groups: Any = None,
        ode: bool = False,
    ) -> Float[Array, "t n d"]:
        """Positions at `times` of individuals that the energy alone moves from `x0`.

        By default they follow the SDE, with `ode=True` the probability flow ODE, which also runs
        backwards. With a learned growth rate, individuals divide and die along the SDE while their
        number stays constant: a row is then not the same individual at all times.
        """
        if self.curve.growth is None or ode:
            return simulate_in_units(self.energy, self.units, x0, times, key, ode, weights, groups)
        return simulate_dividing(
            self.energy, self.units, self.growth, x0, times, key, weights, groups
        )

    def simulate_same(
        self, x0: Any, times: Any, key: KeyLike = 0, *, weights: Any = None, groups: Any = None
    ) -> Float[Array, "t n d"]:
        return simulate_in_units(self.energy, self.units, x0, times, key, False, weights, groups)

    def transport(self, x: Any, times: Any) -> Float[Array, "t n d"]:
        """Points carried along the curve's velocity (eq:kde_vel), either way in time.

        This probability flow maps each fitted marginal exactly to the others. The points are at `x`
        at `times[0]`, and all times lie within those of the curve.
        """
        times, points = as_times(times), self.units.points_in(x)
        for t in times:
            if self._nearest(t) != t:
                t0, t1 = (self.units.time_out(end) for end in (self.curve.t0, self.curve.t1))
                raise BadInput(f"times must lie within the fitted {t0:g} to {t1:g}, got {t:g}")
        nodes = np.asarray(self.curve.times)
        wanted = np.clip(self.units.time_in(times), nodes[0], nodes[-1])
        stops, found = [wanted[0]], [0]
        for a, b in pairwise(wanted):
            inner = nodes[(nodes > min(a, b)) & (nodes < max(a, b))]
            stops += [*(inner if a < b else inner[::-1]), b]
            found.append(len(stops) - 1)
        middles = 0.5 * (np.array(stops[:-1]) + np.array(stops[1:]))
        interval = np.clip(np.searchsorted(nodes, middles) - 1, 0, len(nodes) - 2)
        path = _transport(self.curve, points, jnp.asarray(stops, float), jnp.asarray(interval))
        return self.units.space_out(path[jnp.asarray(found)])

    def growth(self, x: Any, t: float) -> Float[Array, " m"]:
        """The learned rate of birth minus death at points `x` (m, d), per unit of time."""
        if self.curve.growth is None:
            raise NotAvailable(self.method, "growth", "it was fitted without growth")
        points = self.units.points_in(x)
        when = jnp.clip(self._inside(check_number(t, "t")), 0.0, 1.0)
        times = jnp.broadcast_to(when, points.shape[:1])
        return self.curve.growth(points, times) / self.units.duration

    def mass(self, t: float) -> float:
        """The size of the population at time `t`, relative to the first time."""
        logits = [jax.nn.logsumexp(self.curve.logits(self._inside(s))) for s in (t, self._first)]
        return float(jnp.exp(logits[0] - logits[1]))

    @property
    def _first(self) -> float:
        return float(self.units.time_out(self.curve.t0))

    def marginal(self, t: float) -> KDE:
        """The kernel density at time `t` in internal units."""
        end = self._nearest(t)
        rho = _marginal(self.curve, self._inside(end))
        if end == t:
            return rho
        cloud = rho.sample(2000, jax.random.key(0))
        return KDE.uniform(self._extrapolate(cloud, end, t, jax.random.key(1)))

    def _inside(self, t: float) -> Scalar:
        return jnp.asarray(self.units.time_in(t), float)

    def _nearest(self, t: float) -> float:
        """The time itself, or the nearer end of the curve if it lies outside."""
        t = check_number(t, "t")
        t0, t1 = (float(self.units.time_out(end)) for end in (self.curve.t0, self.curve.t1))
        slack = 1e-9 * (t1 - t0)
        return t if t0 - slack <= t <= t1 + slack else (t0 if t < t0 else t1)

    def _extrapolate(self, x: Array, end: float, t: float, key: Array) -> Array:
        warnings.warn(
            f"time {t:g} lies outside the observed range; simulated with the energy from {end:g}",
            ExtrapolationWarning,
            stacklevel=3,
        )
        inside = self.units.time_in(np.array([end, t]))
        return simulate(self.energy, x, inside, key, ode=t < end)[-1]


@eqx.filter_jit
def _transport(curve: Curve, x: Array, stops: Array, interval: Array) -> Float[Array, "t n d"]:
    """x carried through all stops; each piece between two stops lies in one interval of the curve.

    The velocity jumps at nodes, so a piece uses its own interval only.
    """
    nodes, logits = curve.nodes, curve.node_logits

    def piece(y: Array, entry: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        a, b, j = entry

        def field(t: Any, y: Array, _: Any) -> Array:
            share = (t - nodes[j]) / curve.steps[j]
            mixed = (1.0 - share) * logits[j] + share * logits[j + 1]
            centres, velocities = curve.within(j, share)
            return curve.kde(centres, mixed).field(y, velocities).velocity

        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Tsit5(),
            a,
            b,
            (b - a) / defaults.TRANSPORT_STEPS,
            y,
            saveat=diffrax.SaveAt(t1=True),
            max_steps=2 * defaults.TRANSPORT_STEPS + 2,
            throw=False,
        )
        assert solution.ys is not None
        return solution.ys[0], solution.ys[0]

    path = jax.lax.scan(piece, x, (stops[:-1], stops[1:], interval))[1]
    return jnp.concatenate([x[None], path])


_marginal = eqx.filter_jit(lambda curve, t: curve.at(t))
_sample = eqx.filter_jit(lambda curve, t, key, n: curve.at(t).sample(n, key))
_velocity = eqx.filter_jit(lambda curve, x, t: curve.at(t).field(x, curve.velocity(t)).velocity)
_log_density, _score = eqx.filter_jit(KDE.log_density), eqx.filter_jit(KDE.score)
