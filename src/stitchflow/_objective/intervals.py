"""Where residuals look: stretches between nodes, places in them, and draws around particles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stitchflow._measure.curve import Curve, hermite
from stitchflow._parts import Part


class Intervals(NamedTuple):
    """Stretches between neighbouring nodes, and how much time each stands for."""

    start: Float[Array, " i"]
    step: Float[Array, " i"]
    left: Float[Array, "i n d"]
    right: Float[Array, "i n d"]
    left_logits: Float[Array, "i n"]
    right_logits: Float[Array, "i n"]
    duration: Float[Array, " i"]
    left_velocity: Float[Array, "i n d"] | None = None  # None where paths are straight
    right_velocity: Float[Array, "i n d"] | None = None

    @staticmethod
    def of(curve: Curve) -> Intervals:
        x, w, u = curve.positions, curve.node_logits, curve.node_velocities
        ends = () if u is None else (u[:-1], u[1:])
        nodes, steps = curve.nodes[:-1], curve.steps
        return Intervals(nodes, steps, x[:-1], x[1:], w[:-1], w[1:], curve.steps, *ends)

    def velocities(self, share: float = 0.5) -> Float[Array, "i n d"]:
        """Velocities of the particles a share of the way through."""
        if self.left_velocity is None:
            return (self.right - self.left) / self.step[:, None, None]
        ends = (self.left, self.right, self.left_velocity, self.right_velocity)
        return hermite(share, self.step[:, None, None], *ends)[1]

    def at(
        self, share: float
    ) -> tuple[Float[Array, " i"], Float[Array, "i n d"], Float[Array, "i n"]]:
        """Times, particles and their log weights a share of the way through."""
        mixed = lambda a, b: (1.0 - share) * a + share * b
        times = self.start + share * self.step
        x, logits = mixed(self.left, self.right), mixed(self.left_logits, self.right_logits)
        if self.left_velocity is not None:
            ends = (self.left, self.right, self.left_velocity, self.right_velocity)
            x = hermite(share, self.step[:, None, None], *ends)[0]
        return times, x, logits

    @property
    def weights(self) -> Float[Array, "i n"]:
        """Weights half-way."""
        return jax.nn.softmax(self.at(0.5)[2], axis=1)

    def some(self, number: int, key: Array) -> Intervals:
        """One random interval out of each of `number` stretches, standing for all of them."""
        total = self.start.shape[0]
        if total <= number:
            return self
        edges = np.linspace(0, total, number + 1).round().astype(np.int32)
        pick = jax.random.randint(key, (number,), jnp.asarray(edges[:-1]), jnp.asarray(edges[1:]))
        chosen = jax.tree.map(lambda part: part[pick], self)
        sizes = jnp.asarray(np.diff(edges), chosen.duration.dtype)
        return chosen._replace(duration=chosen.duration * sizes)


class Draws(NamedTuple):
    """One draw from the kernel of each of some particles, the same all along its interval."""

    some: Int[Array, " m"]
    offset: Float[Array, "i m d"]
    weights: Float[Array, "i m"]

    @staticmethod
    def of(
        curve: Curve, intervals: Intervals, number: int | None, widening: float, key: Array
    ) -> Draws:
        """Around `number` random particles (None: all), kernels `widening` times as wide."""
        s, n, d = intervals.left.shape
        some, weights, kick = jnp.arange(n), intervals.weights, key
        if number is not None and number < n:
            kick, choose = jax.random.split(key)
            some = jax.random.permutation(choose, n)[:number]
            weights = weights[:, some] * (n / number)
        noise = jax.random.normal(kick, (s, len(some), d), intervals.left.dtype)
        widths = widening * jnp.broadcast_to(curve.bandwidth, (n, d))
        return Draws(some, widths[some][None] * noise, weights)


class Scheme(eqx.Module, Part):
    """A rule that discretises an interval: the places in it whose gradients are averaged."""

    places: ClassVar[tuple[float, ...]]

    def average(self, function: Callable[[float], Any]) -> Any:
        """The mean of `function(place)`, any tree of arrays, over the places."""
        values = [function(place) for place in self.places]
        return jax.tree.map(lambda *parts: sum(parts[1:], parts[0]) / len(parts), *values)


class Forward(Scheme):
    """Forward Euler: the gradient at the left end. First order."""

    places: ClassVar = (0.0,)


class Backward(Scheme):
    """Backward Euler: the gradient at the right end. First order."""

    places: ClassVar = (1.0,)


class Midpoint(Scheme):
    """The gradient half-way, where the chord is the velocity. Second order."""

    places: ClassVar = (0.5,)


class Trapezoid(Scheme):
    """The mean of the gradients at both ends. Second order; the paper's choice."""

    places: ClassVar = (0.0, 1.0)
