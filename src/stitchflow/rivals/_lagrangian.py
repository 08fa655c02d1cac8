"""Wasserstein Lagrangian flows: the curve of least action through all snapshots, by its dual."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.networks import MLP
from stitchflow._energy.terms import Entropy, Potential, detached_unless_learned
from stitchflow._method.driven import Driven
from stitchflow._training.optimise import Optimiser, Optimum, minimise
from stitchflow._types import Scalar, as_rng, check_count, check_hidden, check_number
from stitchflow.rivals._action import between, ends
from stitchflow.rivals._pairs import Lines, Pairs

# The learning rate of the curve as a share of that of the potential. A faster curve moves to places
# where the potential has not been trained.
CURVE_PACE = 0.03


class Bends(eqx.Module):
    r"""$x_t = (1-s)\,x_0 + s\,x_1 + s(1-s)\,N(x_0, x_1, t)$ with $s$ the elapsed share of the gap.

    Arguments:
        network: N.
    """

    network: MLP

    def position(self, lines: Lines) -> Float[Array, "m d"]:
        """The position on each path at its time."""
        share = lines.share[:, None]
        when = (2.0 * lines.time - 1.0)[:, None]
        seen = jnp.concatenate([lines.start, lines.end, when, 2.0 * share - 1.0], axis=1)
        return lines.position + share * (1.0 - share) * self.network(seen)

    def velocity(self, lines: Lines) -> Float[Array, "m d"]:
        """The velocity on each path at its time."""
        at = lambda time: self.position(lines._replace(time=time))
        return jax.jvp(at, (lines.time,), (jnp.ones_like(lines.time),))[1]


@dataclass(frozen=True)
class _Lagrangian(Driven):
    """What the variants have in common: two networks with opposite objectives."""

    hidden: tuple[int, ...] = (128, 128)
    curve_hidden: tuple[int, ...] = (64, 64)
    batch: int = 512
    steps: int = 3000
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        check_hidden(self.hidden)
        check_hidden(self.curve_hidden)
        check_count(self.batch, "batch")
        check_count(self.steps, "steps")
        check_number(self.learning_rate, "learning_rate", 0.0, open_low=True)

    @property
    @abstractmethod
    def beta(self) -> float:
        """The diffusion in internal units."""

    def learn(self, data: Snapshots, key: Array, progress: bool, checkpoint: Any) -> Optimum:
        pairing, start, bend, loop = jax.random.split(key, 4)
        terms = (Potential(hidden=self.hidden, time_varying=True),)
        if self.beta > 0.0:
            terms += (Entropy(self.beta * data.units.energy, learn=False),)
        energy = Energy(terms).init_for(data, start)
        curve = Bends(MLP(2 * data.dim + 2, self.curve_hidden, data.dim, bend))
        optimum = minimise(
            jax.tree_util.Partial(_Lagrangian.loss, self),
            (energy, curve),
            Pairs.nearest(data, as_rng(pairing)),
            loop,
            Optimiser(learning_rate=self.learning_rate),
            self.steps,
            progress,
            label=self.name,
            checkpoint=checkpoint,
            pace=_slower_curve,
        )
        energy, _ = optimum.model
        return replace(optimum, model=energy)

    def loss(
        self, model: tuple[Energy, Bends], pairs: Pairs, key: Array
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """The gap between the action and its dual, with the gradients of both networks.

        In the same step the potential increases the dual for the present curve, and the curve
        decreases it for the present potential. The kinetic energy of the paths has no gradient
        here: it serves to select the best pair of networks.
        """
        energy, curve = model
        draw, signs = jax.random.split(key)
        (potential,) = energy.only(Potential)
        frozen = detached_unless_learned(potential, learn=False)
        lines = pairs.lines(self.batch, draw)
        x, still = curve.position(lines), jax.lax.stop_gradient
        inside = between(potential.potential, still(x), lines.time, self.beta, signs)
        outside = -between(frozen.potential, x, lines.time, self.beta, signs)
        dual = -ends(potential.potential, lines) - inside
        action = 0.5 * (still(curve.velocity(lines)) ** 2).sum(-1).mean()
        parts = {"action": action, "dual": still(dual)}
        return action - dual + outside - still(outside), parts


def _slower_curve(paces: tuple[Energy, Bends]) -> tuple[Energy, Bends]:
    energy, curve = paces
    return energy, jax.tree.map(lambda pace: CURVE_PACE * pace, curve)


@dataclass(frozen=True)
class LagrangianOT(_Lagrangian):
    r"""Optimal transport through all snapshots as a saddle-point problem.

    $$\min_q\max_s\; E_{q_1}s_1 - E_{q_0}s_0
      - \int E_{q_t}\bigl[\partial_t s + \tfrac12|\nabla s|^2\bigr]dt,\qquad V = -s,$$

    where $q$ passes through the snapshots. Between neighbours, matched by ids if the data are
    paired, otherwise by optimal transport (in random blocks beyond 3,000 individuals), it follows
    learned deviations from the straight line. Both networks step at once, as in the published code.
    The curve has a small share of the potential's rate, because otherwise it diverges within the
    few steps available here. There is no density, no noise and no growth of mass. V varies in time
    and is not an energy landscape, since it also accounts for accelerations. The points of $q$ are
    not refined by inner gradient steps.

    Reference: Neklyudov et al., "A Computational Framework for Solving Wasserstein Lagrangian
    Flows", ICML 2024.

    Arguments:
        hidden: the widths of the layers of V(x, t).
        curve_hidden: the widths of the layers of the paths between snapshots.
        batch: the number of paths in each step.
        steps: the number of optimisation steps.
        learning_rate: the rate of Adam at the start, for V.

    >>> LagrangianOT(steps=100).name
    'wlf-ot'
    """

    name = "wlf-ot"

    @property
    def beta(self) -> float:
        return 0.0


@dataclass(frozen=True)
class LagrangianBridge(_Lagrangian):
    r"""A Schroedinger bridge through all snapshots as a saddle-point problem.

    $$\min_q\max_s\; E_{q_1}s_1 - E_{q_0}s_0
      - \int E_{q_t}\bigl[\partial_t s + \tfrac12|\nabla s|^2
      + \tfrac{\sigma^2}2\Delta s\bigr]dt,\qquad V = -s,\quad \beta = \sigma^2/2,$$

    with the curve of `LagrangianOT`. Sigma is not learned, there is no density, and the samples of
    the curve between snapshots are not random.

    Reference: Neklyudov et al., "A Computational Framework for Solving Wasserstein Lagrangian
    Flows", ICML 2024.

    Arguments:
        hidden: the widths of the layers of V(x, t).
        curve_hidden: the widths of the layers of the paths between snapshots.
        batch: the number of paths in each step.
        steps: the number of optimisation steps.
        learning_rate: the rate of Adam at the start, for V.
        sigma: the noise of the reference process for data scaled to unit spread and duration; 0.1
            as published.

    >>> round(LagrangianBridge(sigma=0.2).beta, 3)
    0.02
    """

    name = "wlf-sb"

    sigma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self.sigma, "sigma", 0.0, open_low=True)

    @property
    def beta(self) -> float:
        return 0.5 * self.sigma**2
