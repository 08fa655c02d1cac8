"""Path finding: a normalizing flow as the curve, together with the energy that should drive it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.observations import Observations
from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._energy.energy import velocity as energy_velocity
from stitchflow._energy.networks import MLP, Declared
from stitchflow._energy.packing import named_arrays, packed_method, unpacked_method, with_arrays
from stitchflow._energy.simulate import simulate
from stitchflow._energy.terms import Entropy, Potential, flat
from stitchflow._measure.kde import KDE, Cloud, Field
from stitchflow._method.contract import Fit, Method, Packed
from stitchflow._method.flow import Flow, simulate_in_units
from stitchflow._status import ExtrapolationWarning
from stitchflow._training.optimise import Optimiser, minimise
from stitchflow._types import (
    KeyLike,
    Scalar,
    as_key,
    as_times,
    check_count,
    check_hidden,
    check_number,
)
from stitchflow.rivals._flow_curve import SHAPES, FlowCurve


@dataclass(frozen=True)
class PathFlow(Method):
    r"""A normalizing flow that fits the snapshots and moves as an energy predicts.

    $$-\sum_k E_{q_k}\log\rho_{t_k} + \lambda\int E_{\rho_t}
      \bigl|\partial_t x(z, t) + \nabla V + \beta\nabla\log\rho_t\bigr|^2dt$$

    with $\rho_t$ the law of $x(z, t)$, $z\sim N(0, I)$. GenWGP (Liu et al., 2026) follows a known
    energy from a known start. Here the energy is unknown and learned together with the curve, and
    the likelihood of the snapshots replaces the start. The maps are time-conditioned couplings of
    sinh-arcsinh warps; no ODE is integrated and no kernel is needed. There are no interactions
    between individuals. Separate clusters remain joined by thin bridges, since a smooth map cannot
    split a Gaussian.

    Arguments:
        time_varying: whether V depends on time.
        weight: $\lambda$, the weight of the residual against the likelihood.
        layers: the number of couplings.
        curve_hidden: the widths of the layers of their networks.
        hidden: the widths of the layers of V.
        batch: the number of individuals in each step; the residual takes about half as many draws.
        steps: the number of optimisation steps.
        learning_rate: the rate of Adam at the start.

    >>> PathFlow(time_varying=False).energy
    Potential(V(x)) + Entropy(beta=auto, learn=True)
    """

    name = "path-flow"

    time_varying: bool = True
    weight: float = 0.1
    layers: int = 8
    curve_hidden: tuple[int, ...] = (64, 64)
    hidden: tuple[int, ...] = (64, 64)
    batch: int = 512
    steps: int = 3000
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        check_number(self.weight, "weight", 0.0)
        check_count(self.layers, "layers")
        check_hidden(self.curve_hidden)
        check_hidden(self.hidden)
        check_count(self.batch, "batch")
        check_count(self.steps, "steps")
        check_number(self.learning_rate, "learning_rate", 0.0, open_low=True)

    @property
    def energy(self) -> Energy:
        """The energy that is learned."""
        return Potential(hidden=self.hidden, time_varying=self.time_varying) + Entropy()

    def fit(self, data: Snapshots, key: KeyLike, progress: bool, checkpoint: Any = None) -> Fit:
        first, second, loop = jax.random.split(as_key(key), 3)
        units, cloud = data.units, np.asarray(data.units.space_in(data.x))
        # The initial Gaussian has the shape of the individuals with weight.
        curve = FlowCurve(cloud[data.weights > 0], self.layers, self.curve_hidden, first)
        optimum = minimise(
            jax.tree_util.Partial(PathFlow.loss, self),
            (curve, self.energy.init(cloud, units, second)),
            Observations.of(data),
            loop,
            Optimiser(learning_rate=self.learning_rate),
            self.steps,
            progress,
            label=self.name,
            checkpoint=checkpoint,
        )
        curve, energy = optimum.model
        return Fit.of(optimum, self, NormalizingFlow(curve, energy, units), energy, data, key)

    def loss(
        self, model: tuple[FlowCurve, Energy], seen: Observations, key: Array
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """The likelihood of a minibatch, and the residual at draws from the curve."""
        curve, energy = model
        draw, when, who = jax.random.split(key, 3)
        times, x, weights, _, scale, _ = seen.minibatch(self.batch, draw)
        misfit = -scale * (weights.reshape(-1) * curve.log_density(*flat(x, times))).sum()
        m, d = self.batch // 2 + 1, x.shape[2]
        t = (jnp.arange(m) + jax.random.uniform(when, (m,))) / m
        residual = velocity_residual(curve, energy, jax.random.normal(who, (m, d)), t)
        return misfit + self.weight * residual, {"divergence": misfit, "residual": residual}

    def pack(self, fit: Fit) -> Packed:
        flow = fit.flow
        assert isinstance(flow, NormalizingFlow)
        arrays = named_arrays((flow.flow_curve, flow.energy))
        return Packed(packed_method(self, flow.energy), arrays)

    @classmethod
    def unpack(
        cls, packed: Packed, energy: Energy | None = None
    ) -> tuple[Method, Flow, Energy | None]:
        method, ready = unpacked_method(cls, packed, energy, "[1]")
        assert ready.units is not None
        shape = np.eye(2, ready.units.dim)
        curve = FlowCurve(shape, method.layers, method.curve_hidden, jax.random.key(0))
        curve = with_arrays(curve, packed.arrays, "[0]")
        return method, NormalizingFlow(curve, ready, ready.units), ready

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        layer = MLP.size(dim + 1, settings["curve_hidden"], SHAPES * dim)
        kept = check_count(settings["layers"], "layers") * layer
        return Declared.networks(settings, dim)._replace(kept=kept)


def velocity_residual(
    curve: FlowCurve, energy: Energy, z: Float[Array, "m d"], t: Float[Array, " m"]
) -> Scalar:
    r"""$E|v + \nabla\,\delta F/\delta\rho|^2$ at draws from the curve, each at its own time.

    Arguments:
        curve: the normalizing flow.
        energy: the energy, with parameters.
        z: standard normal draws.
        t: their internal times.
    """
    x, v = curve.moving(z, t)
    at = x[:, None]
    field = Field(score=curve.score(x, t)[:, None])
    alone = Cloud(at, jnp.ones(at.shape[:2]))  # terms of single points do not use the cloud
    slope = energy.gradient(at, t, alone, field)[:, 0]
    return ((v + slope) ** 2).sum(-1).mean()


class NormalizingFlow(Flow):
    """A curve as a normalizing flow, and the energy that drives it.

    Arguments:
        curve: the fitted curve in internal units.
        energy: the fitted energy.
        units: the scales between internal units and the user's.
    """

    method = "path-flow"

    def __init__(self, curve: FlowCurve, energy: Energy, units: Units):
        self.flow_curve, self.energy, self.units, self.dim = curve, energy, units, units.dim

    def sample(self, times: Any, n: int, key: KeyLike = 0) -> Float[Array, "t n d"]:
        n, key = check_count(n, "n"), as_key(key)
        clouds = [
            self._cloud(t, n, jax.random.fold_in(key, i)) for i, t in enumerate(as_times(times))
        ]
        return self.units.space_out(jnp.stack(clouds))

    def log_density(self, x: Any, t: float) -> Float[Array, " m"]:
        points, when, rho = self._asked(x, t)
        if rho is None:
            values = _at(FlowCurve.log_density, self.flow_curve, points, when)
        else:
            values = rho.log_density(points)
        return values - self.dim * np.log(self.units.length)

    def score(self, x: Any, t: float) -> Float[Array, "m d"]:
        points, when, rho = self._asked(x, t)
        if rho is None:
            return _at(FlowCurve.score, self.flow_curve, points, when) / self.units.length
        return rho.score(points) / self.units.length

    def velocity(self, x: Any, t: float) -> Float[Array, "m d"]:
        """The velocity of the curve, or that of the energy outside its times."""
        points, when, rho = self._asked(x, t)
        if rho is None:
            return _at(FlowCurve.velocity, self.flow_curve, points, when) * self.units.speed
        return energy_velocity(self.energy, points, when, rho) * self.units.speed

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
        """Positions of individuals that the energy alone moves from x0; the curve is not used."""
        return simulate_in_units(self.energy, self.units, x0, times, key, ode, weights, groups)

    def _asked(self, x: Any, t: float) -> tuple[Array, Scalar, KDE | None]:
        """Points and time in internal units, and the marginal where the curve does not reach."""
        points, when = self.units.points_in(x), self.units.moment_in(t)
        within = -1e-9 <= float(self.units.time_in(t)) <= 1.0 + 1e-9
        rho = None if within else KDE.uniform(self._cloud(t, 2000, jax.random.key(0)))
        return points, when, rho

    def _cloud(self, t: float, n: int, key: Array) -> Float[Array, "n d"]:
        inside, (here, there) = float(self.units.time_in(t)), jax.random.split(key)
        end = float(np.clip(inside, 0.0, 1.0))
        x = _draw(self.flow_curve, jnp.asarray(end, float), n, here)
        if abs(inside - end) <= 1e-9:
            return x
        warnings.warn(
            f"time {t:g} lies outside the observed range; simulated with the energy",
            ExtrapolationWarning,
            stacklevel=3,
        )
        return simulate(self.energy, x, np.array([end, inside]), there, ode=inside < end)[-1]


@eqx.filter_jit
def _at(function: Any, curve: FlowCurve, x: Array, t: Scalar) -> Array:
    return function(curve, x, jnp.broadcast_to(t, x.shape[:1]))


_draw = eqx.filter_jit(FlowCurve.sample)
