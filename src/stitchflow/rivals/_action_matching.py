"""Action matching: the potential whose gradient moves samples of a given curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jaxtyping import Array

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Entropy, Potential, ready
from stitchflow._method.driven import Driven
from stitchflow._training.optimise import Optimiser, Optimum, minimise
from stitchflow._types import Scalar, as_rng, check_count, check_hidden, check_number
from stitchflow.rivals._action import between, ends
from stitchflow.rivals._pairs import Pairs


@dataclass(frozen=True)
class ActionMatching(Driven):
    r"""The gradient field that moves a curve, learned from samples of the curve.

    $$E_{q_1}V_1 - E_{q_0}V_0
      + \int E_{q_t}\bigl[\tfrac12|\nabla V|^2 - \partial_t V - \beta\Delta V\bigr]dt$$

    is smallest where $-\nabla V - \beta\nabla\log q_t$ is the velocity of the curve. Samples
    between snapshots are taken from straight lines between neighbours, matched by ids if the data
    are paired, otherwise by optimal transport (in random blocks beyond 3,000 individuals). The
    curve and beta are not learned, V always varies in time, and there is no density.

    Reference: Neklyudov, Brekelmans, Severo and Makhzani, "Action Matching: Learning Stochastic
    Dynamics from Samples", ICML 2023.

    Arguments:
        beta: the known diffusion, in the user's units, of the entropic form, in which individuals
            move with noise; 0 is the deterministic form.
        hidden: the widths of the layers of V.
        batch: the number of points between snapshots in each step.
        steps: the number of optimisation steps.
        learning_rate: the rate of Adam at the start.

    >>> ActionMatching(beta=0.1, steps=100).name
    'action-matching'
    """

    name = "action-matching"

    beta: float = 0.0
    hidden: tuple[int, ...] = (128, 128)
    batch: int = 512
    steps: int = 6000
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        check_number(self.beta, "beta", 0.0)
        check_hidden(self.hidden)
        check_count(self.batch, "batch")
        check_count(self.steps, "steps")
        check_number(self.learning_rate, "learning_rate", 0.0, open_low=True)

    def learn(self, data: Snapshots, key: Array, progress: bool, checkpoint: Any) -> Optimum:
        pairing, start, loop = jax.random.split(key, 3)
        terms = (Potential(hidden=self.hidden, time_varying=True),)
        if self.beta > 0.0:
            terms += (Entropy(self.beta, learn=False),)
        energy = Energy(terms).init_for(data, start)
        return minimise(
            jax.tree_util.Partial(ActionMatching.loss, self),
            energy,
            Pairs.nearest(data, as_rng(pairing)),
            loop,
            Optimiser(learning_rate=self.learning_rate),
            self.steps,
            progress,
            label=self.name,
            checkpoint=checkpoint,
            last=True,  # the minimum of a noisy minibatch objective would be chosen by chance
        )

    def loss(self, energy: Energy, curve: Pairs, key: Array) -> tuple[Scalar, dict[str, Scalar]]:
        """The objective on one batch of points between the snapshots."""
        draw, signs = jax.random.split(key)
        (potential,) = energy.only(Potential)
        lines = curve.lines(self.batch, draw)
        beta = self.beta / ready(energy.units).energy
        inside = between(potential.potential, lines.position, lines.time, beta, signs)
        return ends(potential.potential, lines) + inside, {}
