r"""The weak residual: the density constraint against test functions, without a density or score.

$$\langle\eta\rangle_{k+1} - \langle\eta\rangle_k = \int\bigl(-\langle\nabla\eta\cdot\nabla V\rangle
  - \langle\nabla\eta\cdot\nabla W * \rho\rangle + \langle\nabla\eta\cdot K * \rho\rangle
  + \beta\,\langle\Delta\eta\rangle\bigr)\,dt .$$
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import ready
from stitchflow._measure.curve import Curve
from stitchflow._measure.kde import Cloud, Field
from stitchflow._objective.intervals import Intervals, Midpoint, Scheme
from stitchflow._objective.residual import Residual
from stitchflow._objective.waves import Waves
from stitchflow._objective.weak_action import Seen, at_ends, drift_of
from stitchflow._status import BadInputType
from stitchflow._stitching import defaults
from stitchflow._types import Scalar, check_count, check_number


class WeakResidual(Residual):
    r"""How far averages of test functions are from changing as the energy predicts.

    For each test $\eta_a$ and each interval the defect per unit of time is

    $$r_a = \frac{\langle\eta_a\rangle_{j+1} - \langle\eta_a\rangle_j}{\Delta t}
      + \langle\nabla\eta_a\cdot(\nabla V + \nabla W * \rho - K * \rho)\rangle
      - \beta\,\langle\Delta\eta_a\rangle = \langle\nabla\eta_a\cdot u\rangle,
      \qquad u = v + \nabla\,\delta F/\delta\rho,$$

    and the residual is $\int r^T G^{-1} r\,dt$ with $G_{ab} =
    \langle\nabla\eta_a\cdot\nabla\eta_b\rangle$. This is the velocity residual of the part of u
    that is a combination of gradients of tests: it has the same unit, under the kernel density it
    is up to quadrature not larger, and it is as large where the tests can describe u. The entropy
    is integrated by parts, so that neither the density nor its score is needed; other terms that
    read the density are refused. Motion that changes no density does not enter.

    Tests are waves whose lengths suit the cloud of each interval: long ones, which are coordinates
    and products of two, and shorter ones, the shortest of which has a radian in a third of the
    spread. A force that changes within less is not seen.

    With `alpha=1` averages are those of the kernel density: exact for $\eta$, $\Delta\eta$ and G,
    and for the drift unbiased, by two independent draws from every kernel. The square is the
    product of the two estimates, so that their noise adds nothing to it on average; a single value
    may be negative. Pairs are pairs of draws, without the pair of a draw with itself.

    Arguments:
        scheme: where in an interval averages on the right-hand side are taken; `Midpoint()` by
            default.
        alpha: the share of the averages over the kernels; the rest is averages over the particles.
            None chooses by the energy.
        weight: the factor of the residual in the objective, in the units of the scaled data; None
            derives it from the data.
        stations: the number of random intervals in each step, stratified in time; None derives it
            from the data.
        tests: the number of waves beside the long ones.

    >>> sf.WeakResidual(weight=2.0).factor
    2.0
    """

    scheme: Scheme = eqx.field(default_factory=Midpoint)
    alpha: float | None = eqx.field(static=True, default=None)
    weight: float | None = eqx.field(static=True, default=None)
    stations: int | None = eqx.field(static=True, default=None)
    tests: int = eqx.field(static=True, default=32)

    def __check_init__(self) -> None:
        if not isinstance(self.scheme, Scheme):
            raise BadInputType(f"scheme must be one such as Trapezoid(), got {self.scheme!r}")
        if self.alpha is not None:
            check_number(self.alpha, "alpha", 0.0, 1.0)
        if self.weight is not None:
            check_number(self.weight, "weight", 0.0)
        if self.stations is not None:
            check_count(self.stations, "stations")
        check_count(self.tests, "tests", 0)

    @property
    def factor(self) -> float:
        return 1.0 if self.weight is None else self.weight

    def filled_in(self, choices: dict[str, Any]) -> WeakResidual:
        open_ = ("alpha", "weight", "stations")
        missing = {n: choices[n] for n in open_ if n in choices and getattr(self, n) is None}
        return replace(self, **missing)

    def describe(self) -> str:
        return f"weak residual weight {self.weight:.2g}, {self.tests} short waves"

    def __call__(self, curve: Curve, energy: Energy, key: Array) -> Scalar:
        alpha = 1.0 if self.alpha is None else self.alpha
        choose, draw = jax.random.split(key)
        intervals = Intervals.of(curve).some(self.stations or defaults.STATIONS, choose)
        total = jnp.zeros((), curve.particles.dtype)
        if alpha < 1.0:
            total += (1.0 - alpha) * self.at_centres(curve, energy, intervals)
        if alpha > 0.0:
            total += alpha * self.monte_carlo(curve, energy, draw, intervals)
        return total

    def at_centres(
        self, curve: Curve, energy: Energy, intervals: Intervals | None = None
    ) -> Scalar:
        """The residual of the empirical measure of the particles.

        Arguments:
            curve: the curve in internal units.
            energy: the energy, with parameters.
            intervals: where to evaluate; None takes all intervals of the curve.
        """
        intervals = Intervals.of(curve) if intervals is None else intervals
        here = Stations.of(intervals, jnp.zeros((1, curve.particles.shape[2])), self.tests)
        defects = here.known(self.scheme, energy) + here.drift(self.scheme, energy)
        return here.total(defects, defects)

    def monte_carlo(
        self, curve: Curve, energy: Energy, key: Array, intervals: Intervals | None = None
    ) -> Scalar:
        """The residual of the kernel density, with two draws from every kernel.

        Arguments:
            curve: the curve in internal units.
            energy: the energy, with parameters.
            key: the random key of the draws.
            intervals: where to evaluate; None takes all intervals of the curve.
        """
        intervals = Intervals.of(curve) if intervals is None else intervals
        d, widths = curve.particles.shape[2], curve.bandwidth
        widths = widths if widths.ndim == 2 else jnp.broadcast_to(widths.reshape(1, -1), (1, d))
        here = Stations.of(intervals, widths**2, self.tests)
        known = here.known(self.scheme, energy)
        shape, dtype = intervals.left.shape, intervals.left.dtype
        noise = (jax.random.normal(k, shape, dtype) for k in jax.random.split(key))
        one, other = (known + here.drift(self.scheme, energy, widths[None] * z) for z in noise)
        return here.total(one, other)

    def on_clouds(self, clouds: Sequence[Any], times: Sequence[float], energy: Energy) -> Scalar:
        r"""The residual of observed individuals, without a curve, in the user's units.

        Averages are over the individuals of each time, who need not be the same. What sampling adds
        to averages counts: where n individuals are followed, each gap adds $2\beta/n$ on average
        for each independent test.

        Arguments:
            clouds: the individuals (n, d) of each time.
            times: the times, increasing.
            energy: the energy, with parameters.

        Returns:
            A number that JAX can differentiate by the parameters of the energy.
        """
        scheme, drift, seen = at_ends(self.scheme), drift_of(energy), Seen.of(clouds, times, energy)
        sharp = jnp.zeros((1, seen.x.shape[2]), seen.x.dtype)
        left, right = seen.ends
        parts = (left.x, left.cloud.weights, right.x, right.cloud.weights)
        waves = around_both(*parts, sharp, self.tests)
        slopes = drift.gradient(seen.x, seen.times, seen.cloud, Field())
        ends = {0.0: (left, slopes[:-1]), 1.0: (right, slopes[1:])}

        def moved(place: float) -> tuple[Array, Array]:
            end, slope = ends[place]
            here = (waves, end.x, end.cloud.weights)
            bends = jax.vmap(lambda f, x, w: f.laplacian(x, w, sharp))(*here)
            pushed = jax.vmap(Waves.along)(waves, end.x, slope, end.cloud.weights)
            metric = jax.vmap(lambda f, x, w: f.metric(x, w, sharp))(*here)
            return pushed - energy.diffusion * bends, metric

        means = [jax.vmap(Waves.mean)(waves, end.x, end.cloud.weights) for end in (left, right)]
        pushed, metric = scheme.average(moved)
        defects = (means[1] - means[0]) / seen.steps[:, None] + pushed
        total = seen.steps @ jax.vmap(Waves.product)(waves, defects, defects, metric)
        return total * ready(energy.units).energy


class Stations(eqx.Module):
    """Intervals of a curve and the tests that suit each of them.

    Arguments:
        intervals: the intervals.
        weights: the weights of the particles, which count as constant in an interval: growth is no
            motion.
        blur: the squared widths of the kernels, (1, d) or (n, d).
        waves: the tests of each interval.
    """

    intervals: Intervals
    weights: Float[Array, "i n"]
    blur: Float[Array, "g d"]
    waves: Waves

    @staticmethod
    def of(intervals: Intervals, blur: Array, tests: int) -> Stations:
        """`tests` waves and the long ones around both ends of each interval."""
        weights, blur = intervals.weights, blur.astype(intervals.left.dtype)
        waves = around_both(intervals.left, weights, intervals.right, weights, blur, tests)
        return Stations(intervals, weights, blur, waves)

    def known(self, scheme: Scheme, energy: Energy) -> Float[Array, "i a"]:
        r"""$\Delta\langle\eta\rangle/\Delta t - \beta\,\langle\Delta\eta\rangle$, exactly."""
        here, blur = self.intervals, self.blur
        change = jax.vmap(lambda f, a, b, w: f.change(a, b, w, blur))
        grown = change(self.waves, here.left, here.right, self.weights) / here.step[:, None]
        bend = jax.vmap(lambda f, x, w: f.laplacian(x, w, blur))
        bends = scheme.average(lambda place: bend(self.waves, here.at(place)[1], self.weights))
        return grown - energy.diffusion * bends

    def drift(
        self, scheme: Scheme, energy: Energy, offset: Array | None = None
    ) -> Float[Array, "i a"]:
        r"""$\langle\nabla\eta\cdot(\nabla V + \nabla W * \rho - K * \rho)\rangle$ at particles.

        Arguments:
            scheme: where in an interval it is taken.
            energy: the energy.
            offset: displacements of the particles, (i, n, d), the same at all places; None is zero.
        """
        moving = drift_of(energy)
        everybody = jnp.arange(self.weights.shape[1])

        def pushed(place: float) -> Float[Array, "i a"]:
            times, x, _ = self.intervals.at(place)
            x = x if offset is None else x + offset
            slope = moving.gradient(x, times, Cloud(x, self.weights, everybody), Field())
            return jax.vmap(Waves.along)(self.waves, x, slope, self.weights)

        return scheme.average(pushed)

    def total(self, one: Float[Array, "i a"], other: Float[Array, "i a"]) -> Scalar:
        """The integral over time of the projected product of two defects."""
        metric = jax.vmap(lambda f, x, w: f.metric(x, w, self.blur))
        metrics = metric(self.waves, self.intervals.at(0.5)[1], self.weights)
        return self.intervals.duration @ jax.vmap(Waves.product)(self.waves, one, other, metrics)


def around_both(
    left: Float[Array, "i n d"],
    left_weights: Float[Array, "i n"],
    right: Float[Array, "i n d"],
    right_weights: Float[Array, "i n"],
    blur: Float[Array, "g d"],
    tests: int,
) -> Waves:
    """The tests of each gap; clouds at both ends make them longer than the motion between."""
    x = jnp.concatenate([left, right], axis=1)
    weights = 0.5 * jnp.concatenate([left_weights, right_weights], axis=1)
    return jax.vmap(lambda y, w: Waves.around(y, w, blur, tests))(x, weights)
