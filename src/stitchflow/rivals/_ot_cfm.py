"""Flow matching along optimal transport lines through all snapshots."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
from jaxtyping import Array

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.vector_field import VectorField
from stitchflow._method.driven import Driven
from stitchflow._training.optimise import Optimiser, Optimum, minimise
from stitchflow._types import Scalar, as_rng, check_count, check_hidden, check_number
from stitchflow.rivals._pairs import Pairs

STEPS = 5000


@dataclass(frozen=True)
class OTCFM(Driven):
    r"""A velocity u(x, t) regressed onto straight lines between coupled individuals.

    With pairs $(x_0, x_1)$ from exact optimal transport between neighbouring snapshots (in random
    blocks beyond 3,000 individuals), or known by id, the regression

    $$E\,|\,\Delta t\,u(x, t) - (x_1 - x_0)|^2,\quad x = (1-s)x_0 + s x_1 + \text{width}\cdot z$$

    needs no simulation. There is no energy, no noise and no density, and paths between snapshots
    are straight.

    Reference: Tong et al., "Improving and Generalizing Flow-Based Generative Models with Minibatch
    Optimal Transport", TMLR 2024.

    Arguments:
        hidden: the widths of the layers of u.
        width: the standard deviation by which the lines are smoothed, in units of the data's
            spread.
        batch: the number of pairs in each step.
        optimiser: the rule, rate and number of steps.

    >>> OTCFM(width=0.05).name
    'ot-cfm'
    """

    name = "ot-cfm"
    hidden: tuple[int, ...] = (128, 128)
    width: float = 0.1
    batch: int = 512
    optimiser: Optimiser = field(default_factory=lambda: Optimiser(STEPS, learning_rate=5e-3))

    def __post_init__(self) -> None:
        check_hidden(self.hidden)
        check_number(self.width, "width", 0.0)
        check_count(self.batch, "batch")

    def learn(self, data: Snapshots, key: Array, progress: bool, checkpoint: Any) -> Optimum:
        couple, start, loop = jax.random.split(key, 3)
        pairs = Pairs.nearest(data, as_rng(couple))
        drift = VectorField(hidden=self.hidden, time_varying=True)
        energy = Energy((drift,)).init_for(data, start)
        loss = jax.tree_util.Partial(OTCFM.loss, self)
        return minimise(
            loss, energy, pairs, loop, self.optimiser, STEPS, progress, self.name, checkpoint
        )

    def loss(self, energy: Energy, pairs: Pairs, key: Array) -> tuple[Scalar, dict[str, Scalar]]:
        """The regression on one minibatch, in which every gap has the same weight."""
        choose, smooth = jax.random.split(key)
        lines, (field,) = pairs.lines_of_gaps(self.batch, choose), energy.only(VectorField)
        x = lines.position + self.width * jax.random.normal(smooth, lines.start.shape)
        moved = lines.duration[:, None] * field.velocity(x, lines.time)
        return ((moved - lines.way) ** 2).sum(axis=1).mean(), {}
