"""iJKOnet: the inverse problem of the JKO scheme as a minimax problem (Persiianov et al., 2025)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stitchflow._data.observations import batch_sizes, some_of
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.networks import MLP, with_time
from stitchflow._energy.terms import detached_unless_learned
from stitchflow._measure.kde import Cloud, Field
from stitchflow._objective.consistency import energy_distance
from stitchflow._training.optimise import Optimiser, Optimum, minimise
from stitchflow._types import Scalar, check_count, check_hidden, check_number
from stitchflow.rivals._jko import JKOMethod, Marginals, within

STEPS = 2000
EXACT_VOLUMES = 10  # dimensions up to which a map's Jacobian is computed in full
SERIES = 4  # terms of the series for the log determinant in more dimensions


class Maps(eqx.Module):
    r"""$T_k(x) = x + \tau_k u(x, t_k)$: unconstrained maps of all gaps in one network.

    Arguments:
        network: u as a function of place and time.
    """

    network: MLP

    def __call__(self, x: Float[Array, " d"], t: Scalar, tau: Scalar) -> Float[Array, " d"]:
        return x + tau * self.network(with_time(x, t))


@dataclass(frozen=True)
class IJKOnet(JKOMethod):
    r"""The energy under which no map is better than the observed step.

    $$\min_F \max_T \sum_k \tau_k\Big(F[\rho_{k+1}] - F[T_k\#\rho_k]
      - \frac1{2\tau_k}E_{\rho_k}|T_k(x) - x|^2\Big)$$

    For the true energy the best maps lead from each snapshot to the next, and the value is
    $-\tfrac12\sum_k W_2^2(\rho_k, \rho_{k+1})$, its minimum. Maps are unconstrained networks, which
    need not be gradients of convex functions. An entropy uses the volume change of the maps and
    kernel densities of the snapshots. Couplings are not used. The minimax value does not measure
    progress, so the loss in the history is the energy distance between mapped and observed
    individuals. The energy is that of an implicit Euler step.

    Reference: Persiianov et al., "Learning of Population Dynamics: Inverse Optimization Meets JKO
    Scheme", 2025.

    Arguments:
        energy: the terms to learn; a potential with two layers of 64 by default.
        map_hidden: the widths of the layers of the maps.
        pace: the learning rate of the energy as a multiple of that of the maps; a small one lets
            the maps follow the energy.
        individuals: the largest number that is used of each snapshot.
        batch: about how many individuals there are in each step.
        optimiser: the rule, rate and number of steps.

    >>> IJKOnet(sf.Potential() + sf.Entropy()).name
    'ijkonet'
    """

    name = "ijkonet"

    map_hidden: tuple[int, ...] = (64, 64)
    pace: float = 0.3
    individuals: int = 5000
    batch: int = 512
    optimiser: Optimiser = field(default_factory=lambda: Optimiser(STEPS, learning_rate=5e-3))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_hidden(self.map_hidden)
        check_number(self.pace, "pace", 0.0, open_low=True)
        check_count(self.individuals, "individuals", 2)
        check_count(self.batch, "batch", 2)

    def learn(self, data: Snapshots, key: Array, progress: bool, checkpoint: Any) -> Optimum:
        start, mapped, loop = jax.random.split(key, 3)
        energy, some = self.start(data, start), data.subsample(self.individuals, key)
        maps = Maps(MLP(data.dim + 1, self.map_hidden, data.dim, mapped))
        slower = lambda ones: (jax.tree.map(lambda one: self.pace * one, ones[0]), ones[1])
        optimum = minimise(
            self.loss,
            (energy, maps),
            Marginals.of(some, data.units, energy.needs_density),
            loop,
            self.optimiser,
            STEPS,
            progress,
            self.name,
            checkpoint,
            pace=slower,
            last=True,
        )
        return replace(optimum, model=optimum.model[0])

    def loss(
        self, model: tuple[Energy, Maps], data: Marginals, key: Array
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """The distance of mapped from observed individuals, with the minimax gradient."""
        energy, maps = model
        gaps = data.times.shape[0] - 1
        some, each = batch_sizes(gaps, data.weights.shape[1], self.batch, 64)
        choose, here, there, when, probe = jax.random.split(key, 5)
        chosen = some_of(gaps, some, choose)
        _, before, density = data.draw(chosen, each, here)
        _, after, seen = data.draw(chosen + 1, each, there)
        tau, times = data.gaps[chosen], within(data, chosen, when)
        still = jax.lax.stop_gradient

        def step(moving: Energy, own: Maps) -> tuple[Scalar, Array]:
            """The summed cost of the maps' step, and where it ends."""
            one = lambda t, h: lambda x: own(x, t, h)
            ends = jax.vmap(lambda x, t, h: jax.vmap(one(t, h))(x))(
                before.centres, data.times[chosen], tau
            )
            moved, field = Cloud(ends, before.weights), Field()
            if moving.needs_density:
                volumes = jax.vmap(lambda x, t, h, k: log_volumes(one(t, h), x, k))
                keys = jax.random.split(probe, len(chosen))
                logs = volumes(before.centres, data.times[chosen], tau, keys)
                logs = density.log_density - logs
                field = Field("a map tells volumes only", log_density=logs)
            way = before.mean(((ends - before.centres) ** 2).sum(axis=-1))
            return (tau * moving.functional(times, moved, field) + 0.5 * way).sum(), ends

        reached, ends = step(detached_unless_learned(energy, False), maps)
        judged = (tau * energy.functional(times, after, seen)).sum() - step(
            energy, detached_unless_learned(maps, False)
        )[0]
        game = (gaps / some) * (reached + judged)
        sides = (ends, before.weights, after.centres, after.weights)
        apart = jax.vmap(energy_distance)(*sides).mean()
        return still(apart) + game - still(game), {}


def log_volumes(
    move: Callable[[Array], Array], x: Float[Array, "n d"], key: Array
) -> Float[Array, " n"]:
    r"""$\log|\det\nabla T|$ at every point.

    In more than ten dimensions it is estimated by a series with a random probe.

    Arguments:
        move: the map T of one point.
        x: the points.
        key: the random key of the probe.
    """
    if x.shape[1] <= EXACT_VOLUMES:
        return jax.vmap(lambda p: jnp.linalg.slogdet(jax.jacfwd(move)(p))[1])(x)

    def one(p: Array, probe: Array) -> Scalar:
        # log det(I + J) = tr J - tr J^2 / 2 + tr J^3 / 3 - ...
        total, image = jnp.zeros((), p.dtype), probe
        for order in range(1, SERIES + 1):
            image = jax.jvp(lambda q: move(q) - q, (p,), (image,))[1]
            total += (-1.0) ** (order + 1) / order * (probe @ image)
        return total

    return jax.vmap(one)(x, jax.random.rademacher(key, x.shape, x.dtype))
