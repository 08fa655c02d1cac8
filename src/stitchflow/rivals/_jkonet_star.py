"""JKOnet*: the first-order condition of a JKO step as a regression (Terpin et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stitchflow._data.observations import batch_sizes, some_of
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction
from stitchflow._training.optimise import Optimiser, Optimum, minimise
from stitchflow._types import Scalar, check_count
from stitchflow.rivals._jko import JKOMethod, Marginals, origins, within

STEPS = 4000


class Conditions(eqx.Module):
    """The data of the regression.

    Arguments:
        marginals: the snapshots.
        origins: where the individuals of all snapshots but the first came from.
    """

    marginals: Marginals
    origins: Float[Array, "s n d"]


@dataclass(frozen=True)
class JKOnetStar(JKOMethod):
    r"""Optimal plans between neighbouring snapshots, followed by a regression for the energy.

    At the end of a JKO step the gradient of the energy balances the displacement,

    $$\sum_k \tau_k\,E_{\gamma_k}\Big|\frac{x_{k+1} - x_k}{\tau_k} + \nabla V(x_{k+1}, t)
      + \beta\nabla\log\rho_{k+1}(x_{k+1}) + (\nabla W * \rho_{k+1})(x_{k+1})\Big|^2$$

    with $\gamma_k$ the optimal plan and $\rho_{k+1}$ a Gaussian kernel density. A V(x, t) is one
    function over each step, so t is drawn from the gap. The method does not model what happens
    inside a gap: a step is a straight line and the energy is that of an implicit Euler step.
    Identities of individuals are not used, even where they are known.

    Reference: Terpin, Lanzetti, Gadea and Doerfler, "Learning Diffusion at Lightspeed", NeurIPS
    2024.

    Arguments:
        energy: the terms to learn; a potential with two layers of 64 by default.
        individuals: the largest number of each snapshot that is matched.
        batch: about how many individuals there are in each step.
        optimiser: the rule, rate and number of steps.

    >>> JKOnetStar(sf.Potential() + sf.Interaction()).name
    'jkonet-star'
    """

    name = "jkonet-star"

    individuals: int = 1500
    batch: int = 1024
    optimiser: Optimiser = field(default_factory=lambda: Optimiser(STEPS, learning_rate=5e-3))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.individuals, "individuals", 2)
        check_count(self.batch, "batch")

    def learn(self, data: Snapshots, key: Array, progress: bool, checkpoint: Any) -> Optimum:
        start, loop = jax.random.split(key)
        energy, some = self.start(data, start), data.subsample(self.individuals, key)
        marginals = Marginals.of(some, data.units, energy.needs_density)
        conditions = Conditions(marginals, origins(some, data.units))
        return minimise(
            self.loss,
            energy,
            conditions,
            loop,
            self.optimiser,
            STEPS,
            progress,
            self.name,
            checkpoint,
        )

    def loss(
        self, energy: Energy, data: Conditions, key: Array
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """The mean squared residual of the first-order condition."""
        gaps, n = data.origins.shape[:2]
        some, each = batch_sizes(gaps, n, self.batch, 128 if energy.only(Interaction) else 32)
        choose, draw, when = jax.random.split(key, 3)
        chosen = some_of(gaps, some, choose)
        rows, cloud, field = data.marginals.draw(chosen + 1, each, draw)
        came = jnp.take_along_axis(data.origins[chosen], rows[:, :, None], axis=1)
        tau = data.marginals.gaps[chosen]
        way = (cloud.centres - came) / tau[:, None, None]
        times = within(data.marginals, chosen, when)
        left = way + energy.gradient(cloud.centres, times, cloud, field)
        return (tau * cloud.mean((left**2).sum(axis=-1))).sum() * (gaps / some), {}
