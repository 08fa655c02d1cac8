"""A neural SDE trained on where simulated individuals arrive."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
from jaxtyping import Array

from stitchflow._data.observations import Observations
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Entropy
from stitchflow._energy.vector_field import VectorField
from stitchflow._measure.sinkhorn import sinkhorn_divergence
from stitchflow._method.driven import Driven
from stitchflow._objective.consistency import arrival_distance
from stitchflow._training.optimise import Optimiser, Optimum, minimise
from stitchflow._types import Scalar, check_count, check_hidden, check_number

STEPS = 600
START = 0.05  # beta at the start, in internal units
TIMES = 5  # neighbouring snapshots in each step


@dataclass(frozen=True)
class NeuralSDE(Driven):
    r"""A drift u(x, t) and a constant noise that carry each snapshot to the next.

    Individuals move by $dX = u\,dt + \sqrt{2\beta}\,dB$ from every snapshot to the next and from
    the first to all, and gradients are taken through the time steps:

    $$\sum_k S_\epsilon(\Phi_{t_k\to t_{k+1}}\#q_k, q_{k+1})
      + S_\epsilon(\Phi_{t_0\to t_{k+1}}\#q_0, q_{k+1})$$

    with $S_\epsilon$ the Sinkhorn divergence. With more than five snapshots a step uses five
    neighbours, the first of which is $t_0$, so that the longest paths are not trained. Divergences
    between few individuals favour clouds that are too narrow. There is no energy and no density.
    Short paths are not preferred: where the snapshots admit several motions, the result depends on
    the initial network, and noise and drift may replace each other.

    Reference: neural SDEs as in Li et al., "Scalable Gradients for Stochastic Differential
    Equations", AISTATS 2020, here with a loss on marginals.

    Arguments:
        hidden: the widths of the layers of u.
        individuals: how many of each snapshot are simulated in a step.
        moves: about how many fixed time steps there are per gap.
        blur: the length of the Sinkhorn divergence, in units of the data's spread.
        optimiser: the rule, rate and number of steps.

    >>> NeuralSDE(moves=4).name
    'neural-sde'
    """

    name = "neural-sde"
    hidden: tuple[int, ...] = (64, 64)
    individuals: int = 128
    moves: int = 6
    blur: float = 0.1
    optimiser: Optimiser = field(default_factory=lambda: Optimiser(STEPS, warmup=0.05))

    def __post_init__(self) -> None:
        check_hidden(self.hidden)
        check_count(self.individuals, "individuals", 2)
        check_count(self.moves, "moves")
        check_number(self.blur, "blur", 0.0, open_low=True)

    def learn(self, data: Snapshots, key: Array, progress: bool, checkpoint: Any) -> Optimum:
        start, loop = jax.random.split(key)
        drift = VectorField(hidden=self.hidden, time_varying=True)
        energy = (drift + Entropy(START * data.units.energy)).init_for(data, start)
        loss, seen = jax.tree_util.Partial(NeuralSDE.loss, self), Observations.of(data)
        return minimise(
            loss, energy, seen, loop, self.optimiser, STEPS, progress, self.name, checkpoint
        )

    def loss(self, energy: Energy, seen: Observations, key: Array) -> tuple[Scalar, dict]:
        """Both sums on a few neighbouring snapshots."""
        distance = partial(sinkhorn_divergence, blur=self.blur)
        apart = arrival_distance(energy, seen, distance, self.individuals, TIMES, self.moves, key)
        return apart, {"beta": energy.diffusion}
