"""The results of a fit: samples, densities, velocities and simulations, in the user's units."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._energy.simulate import simulate
from stitchflow._measure.curve import Curve
from stitchflow._status import BadInput, ExtrapolationWarning, NotAvailable
from stitchflow._types import (
    KeyLike,
    as_cloud,
    as_groups,
    as_key,
    as_times,
    as_weights,
    check_count,
)

SLACK = 1e-6  # of the data's duration: what a time may lie outside by rounding


class Flow:
    """What a fit can be asked: every method's `fit.flow` has these calls.

    A call that a method does not support raises `NotAvailable` with the reason. Points, times and
    results are in the user's units.

    >>> sf.Flow().log_density(np.zeros((1, 2)), 0.0)
    Traceback (most recent call last):
    stitchflow._status.NotAvailable: this method cannot answer log_density: it has no density
    """

    method: str = "this method"
    dim: int

    @property
    def conditions(self) -> tuple[str, ...]:
        """The names of the conditions that move differently; none where all move alike."""
        return ()

    def of(self, condition: Any) -> Flow:
        """The flow of the individuals of one condition.

        Arguments:
            condition: its label; an unknown one is refused.
        """
        raise NotAvailable(self.method, "of", "it moves the individuals of all conditions alike")

    @property
    def fitted_curve(self) -> Curve | None:
        """The curve of particles in internal units; None for methods without one."""
        return None

    @property
    def uncertainty(self) -> Any:
        """The standard errors of the learned energy, for methods that have them."""
        raise NotAvailable(self.method, "uncertainty", "it has no standard errors")

    def sample(self, times: Any, n: int, key: KeyLike = 0) -> Float[Array, "t n d"]:
        """Draws from the fitted marginals, of shape (times, n, d).

        Arguments:
            times: one time or several. For a time outside the observed range the energy is
                simulated, with an `ExtrapolationWarning`, by methods that have a curve.
            n: the number of draws at each time.
            key: a JAX key or an integer seed.
        """
        raise NotAvailable(self.method, "sample", "it has no marginals")

    def log_density(self, x: Any, t: float) -> Float[Array, " m"]:
        """The logarithm of the fitted density at points, of shape (m,).

        Arguments:
            x: points of shape (m, d).
            t: the time.
        """
        raise NotAvailable(self.method, "log_density", "it has no density")

    def score(self, x: Any, t: float) -> Float[Array, "m d"]:
        """The gradient of the log density at points `x` (m, d) and time `t`, of shape (m, d)."""
        raise NotAvailable(self.method, "score", "it has no density")

    def velocity(self, x: Any, t: float) -> Float[Array, "m d"]:
        """The velocity of the fitted curve at points `x` (m, d) and time `t`, of shape (m, d)."""
        raise NotAvailable(self.method, "velocity", "it has no velocity field")

    def simulate(
        self,
        x0: Any,
        times: Any,
        key: KeyLike = 0,
        *,
        weights: Any = None,
        groups: Any = None,
        ode: bool = False,
    ) -> Float[Array, "t n d"]:
        """Positions of individuals that the learned dynamics moves, of shape (times, n, d).

        Arguments:
            x0: positions (n, d) at `times[0]`.
            times: when positions are returned; the first entry of the result is `x0`. Times outside
                the observed range are simulated with what was learned within it, with an
                `ExtrapolationWarning`.
            key: a JAX key or an integer seed of the noise.
            weights: how much each individual counts in the population with which the others
                interact; None counts all alike. A row keeps its weight at all times.
            groups: the group of each individual, such as its dish: interactions act within groups.
                None makes one population of all. Methods without interactions ignore it.
            ode: replace the noise by the probability flow, which is deterministic and can run
                backwards in time.
        """
        raise NotAvailable(self.method, "simulate", "it has no dynamics")

    def simulate_same(
        self, x0: Any, times: Any, key: KeyLike = 0, *, weights: Any = None, groups: Any = None
    ) -> Float[Array, "t n d"]:
        """`simulate` without birth and death, so that a row is the same individual at all times."""
        told = {} if groups is None else {"groups": groups}
        return self.simulate(x0, times, key, weights=weights, **told)

    def transport(self, x: Any, times: Any) -> Float[Array, "t n d"]:
        """Points carried along the velocity of the fitted curve, forwards or backwards in time.

        Arguments:
            x: positions (n, d) at `times[0]`.
            times: when positions are returned, within the fitted range.
        """
        raise NotAvailable(self.method, "transport", "it has no curve")


def in_pieces(
    x: np.ndarray,
    times: np.ndarray,
    inner: np.ndarray,
    way: Callable[[np.ndarray, float, float], np.ndarray],
) -> Float[Array, "t n d"]:
    """Positions at `times` of points that go a `way(x, start, end)` between inner times."""
    path = [x]
    for a, b in pairwise(times):
        between = inner[(inner > min(a, b)) & (inner < max(a, b))]
        for start, end in pairwise([a, *(between if a < b else between[::-1]), b]):
            x = x + way(x, start, end)
        path.append(x)
    return jnp.asarray(np.stack(path))


def simulate_in_units(
    energy: Energy,
    units: Units,
    x0: Any,
    times: Any,
    key: KeyLike,
    ode: bool,
    weights: Any = None,
    groups: Any = None,
) -> Float[Array, "t n d"]:
    """`simulate` for arguments in the user's units.

    Arguments:
        energy: an energy with parameters.
        units: the scales between the user's units and the energy's.
        x0: positions (n, d) at `times[0]`.
        times: when positions are returned; increasing, or also decreasing with `ode`.
        key: a JAX key or an integer seed.
        ode: whether the probability flow replaces the noise.
        weights: the weight of each individual; None weighs all alike.
        groups: the group of each individual; None makes one population of all.
    """
    x, times, key = as_cloud(x0, "x0", units.dim), as_times(times), as_key(key)
    check_count(len(x), "number of points in x0")
    shares, labels = as_weights(weights, len(x)), as_groups(groups, len(x))
    steps = np.diff(times)
    if (steps < 0).any() and not ode:
        raise BadInput(f"times must increase, got {times.tolist()}; ode=True runs backwards")
    if len(steps) and not ((steps > 0).all() or (steps < 0).all()):
        raise BadInput(f"times must be in order and differ, got {times.tolist()}")
    warn_beyond(units, times)
    path = simulate(energy, units.space_in(x), units.time_in(times), key, ode, shares, labels)
    return units.space_out(path)


def warn_beyond(units: Units, times: np.ndarray) -> None:
    """Say so where times lie outside the data, which lasts from 0 to 1 in its own `units`.

    A known energy that was not fitted is in the user's units, and belongs to no data.
    """
    if units == Units.identity(units.dim):
        return
    inside = units.time_in(times)
    beyond = times[(inside < -SLACK) | (inside > 1.0 + SLACK)]
    if beyond.size:
        first, last = (f"{units.time_out(end):g}" for end in (0.0, 1.0))
        listed = ", ".join(f"{t:g}" for t in beyond[:3]) + (", ..." if len(beyond) > 3 else "")
        warnings.warn(
            f"the data go from {first} to {last}: what is simulated at {listed} is extrapolated "
            "with what was learned between them",
            ExtrapolationWarning,
            stacklevel=4,
        )
