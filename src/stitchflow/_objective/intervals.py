"""Where residuals are evaluated: intervals between nodes, and draws around particles."""

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
    """Intervals between neighbouring nodes of a curve, in internal units.

    Arguments:
        start: the time of each left end.
        step: the length of each interval.
        left: the particles at the left ends.
        right: the particles at the right ends.
        left_logits: their log weights at the left ends.
        right_logits: their log weights at the right ends.
        duration: how much time each interval represents, more than `step` in a sample of intervals.
        left_velocity: velocities at the left ends; None where paths are straight.
        right_velocity: velocities at the right ends; None where paths are straight.
    """

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
        """All intervals of a curve."""
        x, w, u = curve.positions, curve.node_logits, curve.node_velocities
        ends = () if u is None else (u[:-1], u[1:])
        nodes, steps = curve.nodes[:-1], curve.steps
        return Intervals(nodes, steps, x[:-1], x[1:], w[:-1], w[1:], curve.steps, *ends)

    def velocities(self, share: float = 0.5) -> Float[Array, "i n d"]:
        """The velocities of the particles after a `share` of each interval."""
        if self.left_velocity is None:
            return (self.right - self.left) / self.step[:, None, None]
        ends = (self.left, self.right, self.left_velocity, self.right_velocity)
        return hermite(share, self.step[:, None, None], *ends)[1]

    def at(
        self, share: float
    ) -> tuple[Float[Array, " i"], Float[Array, "i n d"], Float[Array, "i n"]]:
        """Times, particles and their log weights after a `share` of each interval."""
        mixed = lambda a, b: (1.0 - share) * a + share * b
        times = self.start + share * self.step
        x, logits = mixed(self.left, self.right), mixed(self.left_logits, self.right_logits)
        if self.left_velocity is not None:
            ends = (self.left, self.right, self.left_velocity, self.right_velocity)
            x = hermite(share, self.step[:, None, None], *ends)[0]
        return times, x, logits

    @property
    def weights(self) -> Float[Array, "i n"]:
        """The weights of the particles in the middle of each interval."""
        return jax.nn.softmax(self.at(0.5)[2], axis=1)

    def some(self, number: int, key: Array) -> Intervals:
        """One random interval from each of `number` groups of neighbours, which it represents."""
        total = self.start.shape[0]
        if total <= number:
            return self
        edges = np.linspace(0, total, number + 1).round().astype(np.int32)
        pick = jax.random.randint(key, (number,), jnp.asarray(edges[:-1]), jnp.asarray(edges[1:]))
        chosen = jax.tree.map(lambda part: part[pick], self)
        sizes = jnp.asarray(np.diff(edges), chosen.duration.dtype)
        return chosen._replace(duration=chosen.duration * sizes)


class Draws(NamedTuple):
    """One draw from the kernel of each of some particles, its offset constant in an interval.

    Arguments:
        some: the numbers of the particles.
        offset: the displacement of each draw from its particle, in each interval.
        weights: the weights of the draws.
    """

    some: Int[Array, " m"]
    offset: Float[Array, "i m d"]
    weights: Float[Array, "i m"]

    @staticmethod
    def of(
        curve: Curve, intervals: Intervals, number: int | None, widening: float, key: Array
    ) -> Draws:
        """Draws around `number` random particles (None: all), kernels `widening` times wider."""
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
    """A quadrature rule in time: the places in an interval at which gradients are averaged."""

    places: ClassVar[tuple[float, ...]]

    def average(self, function: Callable[[float], Any]) -> Any:
        """The mean of `function(place)`, which returns any tree of arrays, over the places."""
        values = [function(place) for place in self.places]
        return jax.tree.map(lambda *parts: sum(parts[1:], parts[0]) / len(parts), *values)

    @property
    def at_nodes(self) -> bool:
        """Whether all places are ends of intervals."""
        return all(place in (0.0, 1.0) for place in self.places)

    def between(self, values: Float[Array, "k ..."]) -> Float[Array, "i ..."]:
        """The mean over the places from values at the nodes, for schemes with `at_nodes`."""
        ends = {0.0: values[:-1], 1.0: values[1:]}
        return self.average(lambda place: ends[place])


class Forward(Scheme):
    """Forward Euler: the gradient at the left end of an interval. First order.

    The residual then vanishes for a curve of explicit Euler steps.

    >>> sf.VelocityResidual(Forward()).scheme.places
    (0.0,)
    """

    places: ClassVar = (0.0,)


class Backward(Scheme):
    """Backward Euler: the gradient at the right end of an interval. First order.

    The residual then vanishes for a curve of implicit Euler steps, as the JKO scheme makes.

    >>> sf.VelocityResidual(Backward()).scheme.places
    (1.0,)
    """

    places: ClassVar = (1.0,)


class Midpoint(Scheme):
    """The gradient in the middle of an interval, where the chord is the velocity. Second order.

    >>> sf.VelocityResidual().scheme.places
    (0.5,)
    """

    places: ClassVar = (0.5,)


class Trapezoid(Scheme):
    """The mean of the gradients at both ends of an interval. Second order; the paper's choice.

    >>> sf.VelocityResidual(Trapezoid()).scheme.places
    (0.0, 1.0)
    """

    places: ClassVar = (0.0, 1.0)
