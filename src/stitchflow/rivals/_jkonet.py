"""JKOnet: the energy whose own JKO steps end at the next snapshot (Bunne et al., 2022)."""

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

    It starts close to $\tfrac12|x|^2$, whose gradient is the identity map.

    Arguments:
        dim: the number of coordinates.
        hidden: the widths of the layers.
        key: the random key of the weights.
    """

    scale: Scalar
    shift: Float[Array, " d"]
    inputs: tuple[Float[Array, "h d"], ...]
    biases: tuple[Float[Array, " h"], ...]
    between: tuple[Float[Array, ...], ...]  # mapped to positive weights where they are used

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
        r"""$\psi$ at one point."""
        z = jax.nn.softplus(self.inputs[0] @ x + self.biases[0])
        for mix, inputs, bias in zip(
            self.between[:-1], self.inputs[1:], self.biases[1:], strict=True
        ):
            positive = jax.nn.softplus(mix) / mix.shape[1]
            z = jax.nn.softplus(positive @ z + inputs @ x + bias)
        last = jax.nn.softplus(self.between[-1][0]) / z.shape[0]
        return 0.5 * jnp.exp(self.scale) * (x @ x) + self.shift @ x + last @ z

    def __call__(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """The gradient, which is the optimal map from a cloud to its image (Brenier)."""
        return jax.vmap(jax.grad(self.value))(x)


@dataclass(frozen=True)
class JKOnet(JKOMethod):
    r"""A bilevel problem: convex maps that make the energy's JKO step, and the energy behind them.

    $$\min_F \sum_k S\big(\nabla\psi_k\#\rho_k, \rho_{k+1}\big), \quad
      \psi_k = \arg\min_{\psi\ convex} F[\nabla\psi\#\rho_k]
      + \frac1{2\tau_k}E_{\rho_k}|\nabla\psi(x) - x|^2$$

    with $S$ the Sinkhorn divergence. Each gap has an input-convex network $\psi_k$ that is trained
    along with the energy, and starts from its own snapshot. The gradient of the energy is taken
    through further descent steps of the inner problem at the mapped points, not through the
    training of the convex networks. The method learns a potential only, without entropy and
    interaction. Simulation uses the flow of the energy and not the maps. With few individuals in a
    step the potential becomes too steep, because a narrower cloud lowers the divergence between two
    noisy samples.

    Reference: Bunne, Meng-Papaxanthos, Krause and Cuturi, "Proximal Optimal Transport Modeling of
    Population Dynamics", AISTATS 2022.

    Arguments:
        energy: the potential to learn; one with two layers of 64 by default.
        convex_hidden: the widths of the layers of the convex networks.
        inner: the number of descent steps through which the energy is differentiated.
        inner_rate: the size of these steps.
        blur: the length of the Sinkhorn divergence, in units of the data's spread.
        individuals: the largest number that is used of each snapshot.
        batch: about how many individuals there are in each step.
        optimiser: the rule, rate and number of steps.

    >>> JKOnet(sf.Potential(hidden=(32, 32)), inner=3).name
    'jkonet'
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
        """The divergence of mapped from observed individuals, with the maps' own gradient."""
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
        # The first part is the loss; the second is zero and has the gradient of the maps' problem.
        return share * (apart.sum() + costs.sum() - still(costs).sum()), {}

    def answer(
        self,
        energy: Energy,
        ends: Float[Array, "s n d"],
        before: Cloud,
        times: Float[Array, " s"],
        tau: Float[Array, " s"],
    ) -> Float[Array, "s n d"]:
        """The mapped points after a few descent steps, which depend on the energy."""

        def descend(y: Array, _: None) -> tuple[Array, None]:
            pull = energy.gradient(y, times, before, Field())
            return y - self.inner_rate * (tau[:, None, None] * pull + y - before.centres), None

        return jax.lax.scan(descend, ends, None, length=self.inner)[0]
