"""A continuous normalizing flow through all snapshots, with a penalty on motion."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.observations import Observations
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import flat
from stitchflow._energy.vector_field import VectorField
from stitchflow._method.driven import Driven, DrivenFlow
from stitchflow._status import ExtrapolationWarning
from stitchflow._training.optimise import Optimiser, Optimum, minimise
from stitchflow._types import (
    KeyLike,
    Scalar,
    as_key,
    as_times,
    check_count,
    check_hidden,
    check_number,
)

STEPS = 2000
LEAD = 0.25  # internal time between the base density and the first snapshot
EXACT_TRACE_UP_TO = 3  # dimensions; above, training estimates the divergence with random signs
FINE_MOVES = 60  # for densities of a fit; training uses fewer


@dataclass(frozen=True)
class CNF(Driven):
    r"""The velocity field under which all snapshots are likely and individuals move little.

    One flow carries a base density through every snapshot, so that the likelihood of an individual
    is found by following it back to the base,

    $$-\sum_k E_{q_k}\Big[\log\rho_{base}(z) - \int_{base}^{t_k}\nabla\cdot u\,dt\Big]
      + \text{penalty}\sum_k E_{q_k}\int_{t_0}^{t_k}|u|^2 dt .$$

    The base is a Gaussian with the mean and covariance of the first snapshot, at a time before it
    by a quarter of the whole duration. The divergence is exact in up to three dimensions and
    Hutchinson's estimate above. There is no energy and no noise. The paper's terms on velocity
    data, on the distance to the manifold and on growth are left out.

    Reference: Tong, Huang, Wolf, van Dijk and Krishnaswamy, "TrajectoryNet: A Dynamic Optimal
    Transport Network for Modeling Cellular Dynamics", ICML 2020.

    Arguments:
        hidden: the widths of the layers of u(x, t).
        penalty: the weight of the squared speed against the likelihood.
        moves: the number of midpoint steps back to the base in training.
        batch: the number of individuals in each step.
        optimiser: the rule, rate and number of steps.

    >>> CNF(penalty=0.1).name
    'cnf'
    """

    name = "cnf"
    hidden: tuple[int, ...] = (64, 64)
    penalty: float = 0.01
    moves: int = 10
    batch: int = 256
    optimiser: Optimiser = field(
        default_factory=lambda: Optimiser(STEPS, learning_rate=5e-3, warmup=0.05)
    )

    def __post_init__(self) -> None:
        check_hidden(self.hidden)
        check_number(self.penalty, "penalty", 0.0)
        check_count(self.moves, "moves")
        check_count(self.batch, "batch")

    @property
    def answers(self) -> type[DrivenFlow]:
        return CNFFlow

    def learn(self, data: Snapshots, key: Array, progress: bool, checkpoint: Any) -> Optimum:
        start, loop = jax.random.split(key)
        seen = Observations.of(data), Gaussian.of(data)
        drift = VectorField(hidden=self.hidden, time_varying=True)
        energy = Energy((drift,)).init_for(data, start)
        loss = jax.tree_util.Partial(CNF.loss, self)
        return minimise(
            loss, energy, seen, loop, self.optimiser, STEPS, progress, self.name, checkpoint
        )

    def loss(
        self, energy: Energy, data: tuple[Observations, Gaussian], key: Array
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """Negative log likelihood and motion of one minibatch, as sums over snapshots."""
        (seen, base), (choose, signs) = data, jax.random.split(key)
        times, points, weights, _, scale, _ = seen.minibatch(self.batch, choose)
        x, t = flat(points, times)
        probe = None
        if x.shape[1] > EXACT_TRACE_UP_TO:
            probe = jax.random.rademacher(signs, x.shape, x.dtype)
        way = back_to_base(energy, x, t, self.moves, probe)
        mean = lambda values: scale * (weights * values.reshape(weights.shape)).sum()
        likelihood = mean(base.log_density(way.z) - way.divergence)
        motion = mean(way.action)
        parts = {"likelihood": likelihood, "motion": motion}
        return self.penalty * motion - likelihood, parts


class Gaussian(NamedTuple):
    """The base density: the normal distribution of the first snapshot, in internal units.

    Arguments:
        mean: the mean of the snapshot.
        factor: the Cholesky factor of its covariance.
    """

    mean: Float[Array, " d"]
    factor: Float[Array, "d d"]

    @staticmethod
    def of(data: Snapshots) -> Gaussian:
        """The mean and covariance of the first snapshot of `data`."""
        x, w = np.asarray(data.units.space_in(data.cloud(0)), np.float64), data.cloud_weights(0)
        mean, d = w @ x / w.sum(), data.dim
        covariance = (w[:, None] * (x - mean)).T @ (x - mean) / w.sum()
        # The covariance of few individuals, or of points on a plane, is made positive definite.
        least = 1e-3 * np.trace(covariance) / d + 1e-6
        factor = np.linalg.cholesky(covariance + least * np.eye(d))
        return Gaussian(jnp.asarray(mean, float), jnp.asarray(factor, float))

    def log_density(self, z: Float[Array, "m d"]) -> Float[Array, " m"]:
        """The log density at points."""
        standard = jax.scipy.linalg.solve_triangular(
            self.factor, (z - self.mean[None, :]).T, lower=True
        )
        volume = jnp.log(jnp.diag(self.factor)).sum() + 0.5 * z.shape[1] * np.log(2.0 * np.pi)
        return -0.5 * (standard**2).sum(axis=0) - volume

    def sample(self, n: int, key: Array) -> Float[Array, "m d"]:
        """`n` draws."""
        noise = jax.random.normal(key, (n, self.mean.shape[0]), self.mean.dtype)
        return self.mean[None, :] + noise @ self.factor.T


class Way(NamedTuple):
    """The origins of points, and the divergence and squared speed integrated along their paths.

    Arguments:
        z: where the points come from.
        divergence: the integral of the divergence.
        action: the integral of the squared speed.
    """

    z: Float[Array, "m d"]
    divergence: Float[Array, " m"]
    action: Float[Array, " m"]


def back_to_base(
    energy: Energy, x: Float[Array, "m d"], t: Float[Array, " m"], moves: int, probe: Array | None
) -> Way:
    """Follow points from their times back to the base, each in steps of its own length.

    Motion before the first snapshot is not penalised.

    Arguments:
        energy: holds the velocity field.
        x: the points.
        t: their times.
        moves: the number of midpoint steps.
        probe: random signs for Hutchinson's estimate of the divergence; None computes it exactly.
    """
    (field,) = energy.only(VectorField)
    step = (t + LEAD) / moves

    def move(way: Way, i: Array) -> tuple[Way, None]:
        now = t - i * step
        middle = now - 0.5 * step
        half = way.z - 0.5 * step[:, None] * field.velocity(way.z, now)
        speed, divergence = _with_divergence(lambda y: field.velocity(y, middle), half, probe)
        action = jnp.where(middle > 0.0, (speed**2).sum(axis=1), 0.0)
        way = Way(
            way.z - step[:, None] * speed,
            way.divergence + step * divergence,
            way.action + step * action,
        )
        return way, None

    nothing = jnp.zeros_like(t, x.dtype)
    return jax.lax.scan(move, Way(x, nothing, nothing), jnp.arange(moves))[0]


def _with_divergence(velocity: Any, x: Array, probe: Array | None) -> tuple[Array, Array]:
    """Velocities at points that do not interact, and the divergence of the field there."""
    if probe is not None:
        speed, slope = jax.jvp(velocity, (x,), (probe,))
        return speed, (probe * slope).sum(axis=1)
    along = lambda e: (jax.jvp(velocity, (x,), (jnp.broadcast_to(e, x.shape),))[1] * e).sum(axis=1)
    axes = jnp.eye(x.shape[1], dtype=x.dtype)[:, None, :]
    return velocity(x), jax.lax.map(along, axes).sum(axis=0)


class CNFFlow(DrivenFlow):
    """The base density carried to any time; its marginals have a density.

    Arguments:
        method: the name of the method.
        energy: holds the velocity field.
        data: the training individuals.
    """

    def sample(self, times: Any, n: int, key: KeyLike = 0) -> Float[Array, "t n d"]:
        n, key, base = check_count(n, "n"), as_key(key), Gaussian.of(self.data)
        start, clouds = float(self.units.time_out(-LEAD)), []
        for i, t in enumerate(as_times(times)):
            z = self.units.space_out(base.sample(n, jax.random.fold_in(key, i)))
            with warnings.catch_warnings():  # the base density lies before the data by design
                warnings.simplefilter("ignore", ExtrapolationWarning)
                clouds.append(z if t == start else self.simulate(z, [start, t], ode=t < start)[-1])
        return jnp.stack(clouds)

    def log_density(self, x: Any, t: float) -> Float[Array, " m"]:
        inside = _log_density(self.energy, Gaussian.of(self.data), *self._arguments(x, t))
        return inside - self.dim * np.log(self.units.length)

    def score(self, x: Any, t: float) -> Float[Array, "m d"]:
        inside = _score(self.energy, Gaussian.of(self.data), *self._arguments(x, t))
        return inside / self.units.length

    def _arguments(self, x: Any, t: float) -> tuple[Array, Array]:
        points = self.units.points_in(x)
        return points, jnp.broadcast_to(self.units.moment_in(t), points.shape[:1])


@eqx.filter_jit
def _log_density(energy: Energy, base: Gaussian, x: Array, t: Array) -> Float[Array, " m"]:
    way = back_to_base(energy, x, t, FINE_MOVES, None)
    return base.log_density(way.z) - way.divergence


@eqx.filter_jit
def _score(energy: Energy, base: Gaussian, x: Array, t: Array) -> Float[Array, "m d"]:
    return jax.grad(lambda y: _log_density(energy, base, y, t).sum())(x)
