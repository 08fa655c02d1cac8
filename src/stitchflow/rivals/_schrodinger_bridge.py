"""A Schroedinger bridge through all snapshots: entropic couplings and Brownian bridges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Entropy
from stitchflow._energy.vector_field import VectorField
from stitchflow._measure.coupling import draw
from stitchflow._measure.sinkhorn import entropic_plan
from stitchflow._method.driven import Driven
from stitchflow._training.optimise import Optimiser, Optimum, minimise
from stitchflow._types import Scalar, as_rng, check_count, check_hidden, check_number
from stitchflow.metrics import energy_distance
from stitchflow.rivals._pairs import Pairs

STEPS = 5000

# Candidate variances of the noise over the whole time, in units of the data's variance.
LEVELS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
BLIND_LEVEL = 0.1  # used where no snapshot lies between two others


@dataclass(frozen=True)
class SchrodingerBridge(Driven):
    r"""The drift of the most likely motion of Brownian particles between snapshots.

    Between neighbours the process is a Brownian bridge between individuals $(x_0, x_1)$ of the
    entropic plan with $\epsilon = 2\sigma^2\Delta t$. Its drift minimises

    $$E\,(1-s)\,|\Delta t\,u(x, t) - (x_1 - x)/(1-s)|^2,\quad
      x = (1-s)x_0 + s x_1 + \sigma\sqrt{\Delta t\,s(1-s)}\,z ,$$

    which needs no simulation. There is no energy and no density. Identities of individuals are not
    used, because they would replace the entropic coupling.

    Reference: Tong et al., "Simulation-Free Schroedinger Bridges via Score and Flow Matching",
    AISTATS 2024.

    Arguments:
        beta: the noise $\sigma^2 = 2\beta$ of the particles, in the user's units; None selects one
            of a few levels, whose bridges over a left-out snapshot are nearest to it in energy
            distance.
        hidden: the widths of the layers of u.
        batch: the number of pairs in each step.
        optimiser: the rule, rate and number of steps.

    >>> SchrodingerBridge(beta=0.1).name
    'schrodinger-bridge'
    """

    name = "schrodinger-bridge"
    beta: float | None = None
    hidden: tuple[int, ...] = (128, 128)
    batch: int = 512
    optimiser: Optimiser = field(default_factory=lambda: Optimiser(STEPS, learning_rate=5e-3))

    def __post_init__(self) -> None:
        if self.beta is not None:
            check_number(self.beta, "beta", 0.0, open_low=True)
        check_hidden(self.hidden)
        check_count(self.batch, "batch")

    def learn(self, data: Snapshots, key: Array, progress: bool, checkpoint: Any) -> Optimum:
        couple, start, loop = jax.random.split(key, 3)
        rng, units = as_rng(couple), data.units
        beta = 0.5 * noise_level(data, rng) * units.energy if self.beta is None else self.beta
        level = 2.0 * beta / units.energy
        bridge = lambda x, y, a, b, gap: entropic_plan(x, y, a, b, 2.0 * level * gap)
        pairs = Pairs.coupled(data, bridge, rng)
        drift = VectorField(hidden=self.hidden, time_varying=True)
        energy = (drift + Entropy(beta, learn=False)).init_for(data, start)
        loss = jax.tree_util.Partial(SchrodingerBridge.loss, self)
        return minimise(
            loss, energy, pairs, loop, self.optimiser, STEPS, progress, self.name, checkpoint
        )

    def loss(self, energy: Energy, pairs: Pairs, key: Array) -> tuple[Scalar, dict[str, Scalar]]:
        """The regression on one minibatch, written without a division by 1 - s."""
        choose, kick = jax.random.split(key)
        lines, (field,) = pairs.lines_of_gaps(self.batch, choose), energy.only(VectorField)
        z, s, duration = (
            jax.random.normal(kick, lines.start.shape),
            lines.share[:, None],
            lines.duration,
        )
        spread = jnp.sqrt(2.0 * energy.diffusion * duration)[:, None]
        x = lines.position + spread * jnp.sqrt(s * (1.0 - s)) * z
        short = duration[:, None] * field.velocity(x, lines.time) - lines.way
        error = jnp.sqrt(1.0 - s) * short + spread * jnp.sqrt(s) * z
        return (error**2).sum(axis=1).mean(), {}


def noise_level(
    data: Snapshots, rng: np.random.Generator, most: int = 400, looks: int = 5
) -> float:
    """The level whose bridges from a snapshot to the next but one are nearest to the one between.

    Arguments:
        data: the snapshots.
        rng: the random generator.
        most: the largest number of individuals of a snapshot.
        looks: the largest number of snapshots that are compared.

    Returns:
        The variance of the noise over the whole duration, in internal units.
    """
    inner = np.arange(1, len(data) - 1)
    if not len(inner):
        return BLIND_LEVEL
    inner = np.unique(inner[np.linspace(0, len(inner) - 1, looks).round().astype(int)])
    times, total = data.units.time_in(data.times), np.zeros(len(LEVELS))
    for k in inner:
        before, between, after = (_some(data, j, most, rng) for j in (k - 1, k, k + 1))
        gap = float(times[k + 1] - times[k - 1])
        s, z = (times[k] - times[k - 1]) / gap, rng.standard_normal((most, data.dim))
        a, b = np.ones(len(before)), np.ones(len(after))
        for i, level in enumerate(LEVELS):
            full = entropic_plan(before, after, a, b, 2.0 * level * gap)
            pick = draw(full.ravel(), most, np.random.default_rng(0))
            x, y = before[pick // len(after)], after[pick % len(after)]
            middle = (1.0 - s) * x + s * y + np.sqrt(level * gap * s * (1.0 - s)) * z
            total[i] += energy_distance(middle, between)
    return LEVELS[int(total.argmin())]


def _some(data: Snapshots, k: int, most: int, rng: np.random.Generator) -> np.ndarray:
    weights = data.cloud_weights(k)
    pick = draw(weights, min(most, int(np.count_nonzero(weights))), rng)
    return np.asarray(data.units.space_in(data.cloud(k)[pick]))
