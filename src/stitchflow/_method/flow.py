"""What a fit answers with: samples, densities, velocities and simulations, in the user's units."""

from __future__ import annotations

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
from stitchflow._status import BadInput, NotAvailable
from stitchflow._types import (
    KeyLike,
    as_cloud,
    as_key,
    as_times,
    as_weights,
    check_count,
)


class Flow:
    """The calls every method's flow answers, or refuses with `NotAvailable`."""

    method: str = "this method"
    dim: int

    @property
    def fitted_curve(self) -> Curve | None:
        """The curve of particles in internal units, of methods that fit one."""
        return None

    def sample(self, times: Any, n: int, key: KeyLike = 0) -> Float[Array, "t n d"]:
        """n draws from the fitted marginal at each time."""
        raise NotAvailable(self.method, "sample", "it has no marginals")

    def log_density(self, x: Any, t: float) -> Float[Array, " m"]:
        """Log density of the fitted marginal at time t."""
        raise NotAvailable(self.method, "log_density", "it has no density")

    def score(self, x: Any, t: float) -> Float[Array, "m d"]:
        """Gradient of the log density at time t."""
        raise NotAvailable(self.method, "score", "it has no density")

    def velocity(self, x: Any, t: float) -> Float[Array, "m d"]:
        """Velocity of the fitted curve at time t."""
        raise NotAvailable(self.method, "velocity", "it has no velocity field")

    def simulate(
        self, x0: Any, times: Any, key: KeyLike = 0, *, weights: Any = None, ode: bool = False
    ) -> Float[Array, "t n d"]:
        """Positions at `times` of a cloud that is at x0 at `times[0]`, moved by the dynamics.

        `weights`, one a point, say how much each counts in the population that the others feel;
        a row keeps its weight at all times.
        """
        raise NotAvailable(self.method, "simulate", "it has no dynamics")

    def simulate_same(
        self, x0: Any, times: Any, key: KeyLike = 0, *, weights: Any = None
    ) -> Float[Array, "t n d"]:
        """`simulate` without birth and death: a row is the same individual at all times."""
        return self.simulate(x0, times, key, weights=weights)

    def transport(self, x: Any, times: Any) -> Float[Array, "t n d"]:
        """Points carried along the fitted curve's own velocity, either way in time."""
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
    energy: Energy, units: Units, x0: Any, times: Any, key: KeyLike, ode: bool, weights: Any = None
) -> Float[Array, "t n d"]:
    """`simulate` between the user's units and an energy's internal ones."""
    x, times, key = as_cloud(x0, "x0", units.dim), as_times(times), as_key(key)
    check_count(len(x), "number of points in x0")
    shares = as_weights(weights, len(x))
    steps = np.diff(times)
    if (steps < 0).any() and not ode:
        raise BadInput(f"times must increase, got {times.tolist()}; ode=True runs backwards")
    if len(steps) and not ((steps > 0).all() or (steps < 0).all()):
        raise BadInput(f"times must be in order and differ, got {times.tolist()}")
    path = simulate(energy, units.space_in(x), units.time_in(times), key, ode, shares)
    return units.space_out(path)
