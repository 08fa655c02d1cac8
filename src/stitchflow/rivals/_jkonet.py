"""JKOnet: learn the energy whose own JKO steps land on the next snapshot (Bunne et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stitchflow._data.observations import batch_sizes, some_of
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Potential, detached_unless_learned
from stitchflow._measure.kde import Cloud, Field
from stitchflow._measure.sinkhorn import sinkhorn_divergence
from stitchflow._status import BadInput
from stitchflow._training.optimise import Optimiser, Optimum, minimise
from stitchflow._types import Scalar, check_count, check_hidden, check_number
from stitchflow.rivals._jko import JKOMethod, Marginals, within

STEPS = 600


class Convex(eqx.Module):
    r"""An input-convex network $\psi$, a quadratic plus layers with positive weights.

    It starts close to $\tfrac12|x|^2$, whose gradient moves nobody.
    """

    scale: Scalar
    shift: Float[Array, " d"]
    inputs: tuple[Float[Array, "h d"], ...]
    biases: tuple[Float[Array, " h"], ...]
    between: tuple[Float[Array, ...], ...]  # made positive where they are used

    def __init__(self, dim: int, hidden: tuple[int, ...], key: Array):
        keys = jax.random.split(key, len(hidden))
        self.scale, self.shift = jnp.zeros(()), jnp.zeros(dim)
        self.inputs = tuple(
            jax.random.normal(k, (h, dim)) / jnp.sqrt(dim)
            for k, h in zip(keys, hidden, strict=True)
        )
        self.biases = tuple(jnp.zeros(h) for h in hidden)
        widths = zip((*hidden[1:], 1), hidden, strict=True)
        self.between = tuple(jnp.full(shape, -2.0) for shape in widths)

    def value(self, x: Float[Array, " d"]) -> Scalar:
        z = jax.nn.softplus(self.inputs[0] @ x + self.biases[0])
        for mix, inputs, bias in zip(
            self.between[:-1], self.inputs[1:], self.biases[1:], strict=True
        ):
            positive = jax.nn.softplus(mix) / mix.shape[1]
            z = jax.nn.softplus(positive @ z + inputs @ x + bias)
        last = jax.nn.softplus(self.between[-1][0]) / z.shape[0]
        return 0.5 * jnp.exp(self.scale) * (x @ x) + self.shift @ x + last @ z

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """The gradient: the optimal map from any cloud to where it sends it (Brenier)."""
        return jax.vmap(jax.grad(self.value))(x)


@dataclass(frozen=True)
class JKOnet(JKOMethod):
    r"""Two levels: convex maps that make the energy's JKO step, and the energy behind them.

    $$\min_F \sum_k S\big(\nabla\psi_k\#\rho_k, \rho_{k+1}\big), \quad
      \psi_k = \arg\min_{\psi\ convex} F[\nabla\psi\#\rho_k]
      + \frac1{2\tau_k}E_{\rho_k}|\nabla\psi(x) - x|^2$$

    with $S$ the Sinkhorn divergence. Each gap keeps an input-convex network $\psi_k$ that follows
    the energy from step to step; the energy is judged through `inner` further descents of its
    inner problem, of size `inner_rate`, on the points the map sends. Every gap starts from its own
    snapshot.

    It learns a potential only: no entropy and no interaction. It does not unroll the training of
    the convex networks, and what is simulated afterwards is the energy's flow, not its maps.
    Few individuals a step make its potential too steep: noise between two draws is paid for less
    by narrower clouds.
    """

    name = "jkonet"

    convex_hidden: tuple[int, ...] = (64, 64)
    inner: int = 5
    inner_rate: float = 0.3
    blur: float = 0.1
    individuals: int = 1500
    batch: int = 1024
    optimiser: Optimiser = field(default_factory=lambda: Optimiser(STEPS, learning_rate=3e-3))

    def __post_init__(self) -> None:
        super().__post_init__()
        single = len(self.energy.only(Potential)) == len(self.energy.terms)
        if not single or self.energy.needs_density:
            raise BadInput(f"energy must be a Potential for {self.name}, got {self.energy!r}")
        check_hidden(self.convex_hidden)
        for name, least in (("inner", 1), ("individuals", 2), ("batch", 2)):
            check_count(getattr(self, name), name, least)
        check_number(self.inner_rate, "inner_rate", 0.0, open_low=True)
        check_number(self.blur, "blur", 0.0, open_low=True)

    def learning(self, physics: Energy) -> Self:
        potentials = physics.only(Potential)
        return replace(self, energy=Energy(potentials)) if potentials else self

    def learn(self, data: Snapshots, key: Array, progress: bool, checkpoint: Any) -> Optimum:
        start, convex, loop = jax.random.split(key, 3)
        energy, some = self.start(data, start), data.subsample(self.individuals, key)
        each = lambda k: Convex(data.dim, self.convex_hidden, k)
        maps = eqx.filter_vmap(each)(jax.random.split(convex, len(data) - 1))
        optimum = minimise(
            self.loss,
            (energy, maps),
            Marginals.of(some, data.units, densities=False),
            loop,
            self.optimiser,
            STEPS,
            progress,
            self.name,
            checkpoint,
            last=True,
        )
        return replace(optimum, model=optimum.model[0])

    def loss(
        self, model: tuple[Energy, Convex], data: Marginals, key: Array
    ) -> tuple[Scalar, dict[str, Scalar]]:
        """How far carried individuals are from seen ones; the maps' own problem rides along."""
        energy, maps = model
        gaps = data.times.shape[0] - 1
        some, each = batch_sizes(gaps, data.weights.shape[1], self.batch, 32)
        choose, here, there, when = jax.random.split(key, 4)
        chosen = some_of(gaps, some, choose)
        before, after = data.draw(chosen, each, here)[1], data.draw(chosen + 1, each, there)[1]
        tau, times = data.gaps[chosen], within(data, chosen, when)
        maps = jax.tree.map(lambda leaf: leaf[chosen], maps)
        still = jax.lax.stop_gradient
        ends = jax.vmap(lambda own, x: own(x))(maps, before.centres)
        ways = 0.5 * before.mean(((ends - before.centres) ** 2).sum(axis=-1))
        moved, unasked = Cloud(ends, before.weights), Field()
        costs = (
            tau * detached_unless_learned(energy, False).functional(times, moved, unasked) + ways
        )
        answer = self.answer(energy, still(ends), before, times, tau)
        apart = jax.vmap(lambda x, a, y, b: sinkhorn_divergence(x, a, y, b, self.blur))(
            answer, before.weights, after.centres, after.weights
        )
        share = gaps / some
        # Only the first part is a measure of success; the second makes the maps follow.
        return share * (apart.sum() + costs.sum() - still(costs).sum()), {}

    def answer(
        self,
        energy: Energy,
        ends: Float[Array, "s n d"],
        before: Cloud,
        times: Float[Array, " s"],
        tau: Float[Array, " s"],
    ) -> Float[Array, "s n d"]:
        """The ends a few descents of the inner problem later: what they owe to the energy."""

        def descend(y: Array, _: None) -> tuple[Array, None]:
            pull = energy.gradient(y, times, before, Field())
            return y - self.inner_rate * (tau[:, None, None] * pull + y - before.centres), None

        return jax.lax.scan(descend, ends, None, length=self.inner)[0]
