"""The one place where users' units and the fit's internal units meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._types import Scalar, as_cloud, check_number


@dataclass(frozen=True)
class Units:
    """One length L and one duration T: internally x' = (x - centre) / L and t' = (t - start) / T.

    A per-dimension scaling would turn a gradient flow into something that is not one, so there
    is only one L. Energies, V, W and beta are L^2 / T times their internal values, velocities
    L / T, scores 1 / L.
    """

    centre: tuple[float, ...]
    length: float = 1.0
    start: float = 0.0
    duration: float = 1.0

    def __post_init__(self) -> None:
        for value in self.centre:
            check_number(value, "centre")
        check_number(self.start, "start")
        check_number(self.length, "length", 0.0, open_low=True)
        check_number(self.duration, "duration", 0.0, open_low=True)

    @staticmethod
    def identity(dim: int) -> Units:
        """Internal units that are the user's own."""
        return Units((0.0,) * dim)

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return len(self.centre)

    @property
    def energy(self) -> float:
        """What V, W and beta are multiplied by on the way out."""
        return self.length**2 / self.duration

    @property
    def speed(self) -> float:
        """What velocities are multiplied by on the way out."""
        return self.length / self.duration

    def space_in(self, x: np.ndarray) -> Array:
        """Places in the user's units to internal ones."""
        # The centre is removed in float64: data far from zero keeps its digits in float32.
        centred = np.asarray(x, np.float64) - np.asarray(self.centre)
        return jnp.asarray(centred / self.length, float)

    def points_in(self, x: Any) -> Float[Array, "m d"]:
        """Points x that a user gave, checked, in internal units."""
        return self.space_in(as_cloud(x, "x", self.dim))

    def moment_in(self, t: Any) -> Scalar:
        """A time t that a user gave, checked, in internal units."""
        return jnp.asarray(self.time_in(check_number(t, "t")), float)

    def space_out(self, x: Array) -> Array:
        """Internal places to the user's units."""
        centre = jnp.asarray(self.centre, x.dtype)
        return x * self.length + centre.reshape((1,) * (x.ndim - 1) + (-1,))

    def time_in(self, t):
        """Times in the user's units to internal ones."""
        return (t - self.start) / self.duration

    def time_out(self, t):
        """Internal times to the user's units."""
        return t * self.duration + self.start
