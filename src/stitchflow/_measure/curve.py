"""The curve of distributions: particles moving through nodes in time, under one kernel density."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stitchflow._measure.kde import KDE, Cloud
from stitchflow._status import BadInput
from stitchflow._types import Scalar

# Times closer than this share of the whole range are not distinguished in float32; nor are places
# closer than this share of the spread.
CLOSEST = 1e-6


# g(x, t) of places (..., d) and times (...), per unit of internal time.
Rate = Callable[[Array, Array], Array]


class Curve(eqx.Module):
    r"""A curve of distributions, $\rho_t(x) = \sum_k w_k\,\phi(x - x_k(t))$, with straight paths.

    Particles move at constant velocity between nodes. Weights and bandwidth do not change in time,
    so that the kernel-averaged velocity transports the density exactly (Claim 1); with a `growth`
    rate the weights change along the paths. Everything is in internal units (`Units`). A fit holds
    its curve as `fit.flow.curve`.

    Arguments:
        particles: the positions of the n particles at the k nodes, (k, n, dim).
        log_weights: logarithms of the particles' weights, (n,), which need not be normalised.
        raw_bandwidth: the kernels' width before softplus and bounds: (), (dim,) or (n, dim).
        times: the times of the nodes, increasing.
        least_bandwidth: the lower bound of the width, of the same shape; None means zero.
        most_bandwidth: the upper bound of the width, of the same shape; None means no bound.
        learn_particles: whether the positions are trained.
        learn_weights: whether the weights are trained.
        learn_bandwidth: whether the width is trained.
        growth: a function g(x, t) that returns the rate at which mass grows; None for none.

    Examples:
        >>> import jax.numpy as jnp
        >>> line = jnp.array([[[0.0]], [[2.0]]])
        >>> curve = sf.Curve(line, jnp.zeros(1), jnp.zeros(()), times=(0.0, 4.0))
        >>> curve.centres(jnp.array(1.0)).tolist()
        [[0.5]]
    """

    particles: Float[Array, "k n d"]
    log_weights: Float[Array, " n"]
    raw_bandwidth: Float[Array, ...]
    least_bandwidth: Float[Array, ...]
    most_bandwidth: Float[Array, ...]
    times: tuple[float, ...] = eqx.field(static=True)
    learn_particles: bool = eqx.field(static=True)
    learn_weights: bool = eqx.field(static=True)
    learn_bandwidth: bool = eqx.field(static=True)
    growth: Rate | None

    def __init__(
        self,
        particles: Array,
        log_weights: Array,
        raw_bandwidth: Array,
        times: tuple[float, ...],
        least_bandwidth: Array | None = None,
        most_bandwidth: Array | None = None,
        *,
        learn_particles: bool = True,
        learn_weights: bool = True,
        learn_bandwidth: bool = True,
        growth: Rate | None = None,
    ):
        self.particles, self.log_weights, self.raw_bandwidth = particles, log_weights, raw_bandwidth
        least = jnp.zeros_like(raw_bandwidth) if least_bandwidth is None else least_bandwidth
        most = jnp.full_like(raw_bandwidth, jnp.inf) if most_bandwidth is None else most_bandwidth
        self.least_bandwidth, self.most_bandwidth, self.times = least, most, times
        self.learn_particles, self.learn_weights = learn_particles, learn_weights
        self.learn_bandwidth, self.growth = learn_bandwidth, growth

    def __check_init__(self) -> None:
        k = self.particles.shape[0]
        if k < 2 or len(self.held_at) != k:
            raise BadInput(f"a curve needs one time per node and two or more, got {k} nodes")
        n, d = self.particles.shape[1:]
        widths = [
            np.shape(b) for b in (self.raw_bandwidth, self.least_bandwidth, self.most_bandwidth)
        ]
        if self.log_weights.shape != (n,) or any(w not in ((), (1,), (d,), (n, d)) for w in widths):
            raise BadInput(
                f"{n} particles in {d} dimensions do not go with weights {self.log_weights.shape} "
                f"and bandwidths {widths}"
            )
        if not np.all(np.diff(self.times) > 0):
            raise BadInput(f"node times must increase, got {self.times}")

    @property
    def held_at(self) -> tuple[float, ...]:
        """The times at which `particles` gives positions."""
        return self.times

    @property
    def t0(self) -> float:
        """The time of the first node."""
        return self.times[0]

    @property
    def t1(self) -> float:
        """The time of the last node."""
        return self.times[-1]

    @property
    def nodes(self) -> Float[Array, " k"]:
        """The times of the nodes."""
        return jnp.asarray(self.times, self.particles.dtype)

    @property
    def steps(self) -> Float[Array, " i"]:
        """The lengths of the intervals between nodes."""
        return jnp.asarray(np.diff(self.times), self.particles.dtype)

    @property
    def speed(self) -> float:
        """The root mean squared speed of the particles, averaged over time, not intervals."""
        velocities = jnp.diff(self.positions, axis=0) / self.steps[:, None, None]
        squares = (velocities**2).sum(-1).mean(axis=1)
        return float(jnp.sqrt(self.steps @ squares / self.steps.sum()))

    @property
    def positions(self) -> Float[Array, "k n d"]:
        """The positions of the particles at the nodes, (k, n, dim)."""
        return self.particles if self.learn_particles else jax.lax.stop_gradient(self.particles)

    @property
    def node_velocities(self) -> Float[Array, "k n d"] | None:
        """The velocities at the nodes, or None where paths are straight between nodes."""
        return None

    @property
    def bandwidth(self) -> Float[Array, ...]:
        """The width of the kernels, between its two bounds."""
        raw = self.raw_bandwidth
        least, most = jax.lax.stop_gradient((self.least_bandwidth, self.most_bandwidth))
        width = least + jax.nn.softplus(raw if self.learn_bandwidth else jax.lax.stop_gradient(raw))
        return width * (1.0 + (width / most) ** 4) ** -0.25  # smooth: its gradient never vanishes

    @property
    def node_logits(self) -> Float[Array, "k n"]:
        r"""The log weights at the nodes: constant, or $\log w_i(0) + \int g(x_i(s), s)\,ds$."""
        start = self.log_weights
        start = start if self.learn_weights else jax.lax.stop_gradient(start)
        x = self.positions
        if self.growth is None:
            return jnp.broadcast_to(start, x.shape[:2])
        rates = self.growth(x, jnp.broadcast_to(self.nodes[:, None], x.shape[:2]))
        gained = jnp.cumsum(0.5 * self.steps[:, None] * (rates[:-1] + rates[1:]), axis=0)
        return start[None, :] + jnp.concatenate([jnp.zeros_like(gained[:1]), gained])

    def cloud(
        self,
        centres: Float[Array, "s n d"],
        logits: Float[Array, "s n"],
        own: Int[Array, " m"] | None = None,
    ) -> Cloud:
        """Several marginals as empirical measures on other centres.

        Arguments:
            centres: the points of the s marginals, (s, n, dim).
            logits: their log weights, (s, n), which need not be normalised.
            own: the index of the centre around which each query point was drawn, as in `Cloud`;
                None where query points belong to no centre.

        Returns:
            The measures, with weights that sum to one.
        """
        return Cloud(centres, jax.nn.softmax(logits, axis=1), own)

    def kde(self, centres: Float[Array, "n d"], logits: Float[Array, " n"]) -> KDE:
        """This curve's kernel around other centres.

        Arguments:
            centres: the places of the kernels, (n, dim).
            logits: their log weights, (n,).

        Returns:
            The density.
        """
        return KDE(centres, self.bandwidth, logits)

    def _interval(self, t: Scalar) -> tuple[Array, Scalar]:
        nodes = self.nodes
        j = jnp.clip(jnp.searchsorted(nodes, t, side="right") - 1, 0, len(self.times) - 2)
        return j, (t - nodes[j]) / (nodes[j + 1] - nodes[j])

    def within(
        self, j: Int[Array, ""], share: Scalar
    ) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
        """The positions and velocities of the particles within an interval between nodes.

        Arguments:
            j: the interval, counted from 0.
            share: the part of the interval that has passed, from 0 to 1.

        Returns:
            Positions and velocities, (n, dim) each.
        """
        x = self.positions
        return (1.0 - share) * x[j] + share * x[j + 1], (x[j + 1] - x[j]) / self.steps[j]

    def centres(self, t: Scalar) -> Float[Array, "n d"]:
        """The positions of the particles at any time of the curve.

        Arguments:
            t: a time in internal units.

        Returns:
            An array (n, dim).
        """
        return self.within(*self._interval(t))[0]

    def logits(self, t: Scalar) -> Float[Array, " n"]:
        """The log weights at any time of the curve, which are not normalised.

        Arguments:
            t: a time in internal units.

        Returns:
            An array (n,).
        """
        j, share = self._interval(t)
        logits = self.node_logits
        return (1.0 - share) * logits[j] + share * logits[j + 1]

    def at(self, t: Scalar) -> KDE:
        """The marginal at any time of the curve.

        Arguments:
            t: a time in internal units.

        Returns:
            A `KDE` around the positions of the particles.
        """
        return self.kde(self.centres(t), self.logits(t))

    def velocity(self, t: Scalar) -> Float[Array, "n d"]:
        """The velocities of the particles at any time of the curve.

        Arguments:
            t: a time in internal units; at a node, the interval that starts there counts.

        Returns:
            An array (n, dim).
        """
        return self.within(*self._interval(t))[1]


def hermite(
    share: Any, step: Any, left: Array, right: Array, left_velocity: Any, right_velocity: Any
) -> tuple[Array, Array]:
    """The position and velocity along the cubic with given ends and end velocities.

    Arguments:
        share: the part of the interval that has passed, from 0 to 1.
        step: the duration of the interval.
        left: the position at its start.
        right: the position at its end.
        left_velocity: the velocity at its start.
        right_velocity: the velocity at its end.

    Returns:
        The position and the velocity.
    """
    chord, rest = right - left, 1.0 - share
    a, b = step * left_velocity - chord, step * right_velocity - chord
    place = rest * left + share * right + share * rest * (rest * a - share * b)
    slope = chord + rest * (1.0 - 3.0 * share) * a - share * (2.0 - 3.0 * share) * b
    return place, slope / step


def inverse_softplus(y: Array | np.ndarray) -> Array:
    r"""The number $\log(e^y - 1)$, whose softplus is the positive y."""
    y = jnp.asarray(y, float)
    return y + jnp.log(-jnp.expm1(-y))
