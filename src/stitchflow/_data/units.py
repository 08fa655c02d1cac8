"""Conversion between the user's units and the internal units of a fit."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from stitchflow._types import check_number


@dataclass(frozen=True)
class Units:
    """One length L and one duration T: internally x' = (x - centre) / L and t' = (t - start) / T.

    A separate scale for each dimension would turn a gradient flow into a flow that is not one, so
    there is only one L. Energies, V, W and beta are L^2 / T times their internal values, velocities
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
        """The factor from internal to user's units of V, W and beta."""
        return self.length**2 / self.duration

    @property
    def speed(self) -> float:
        """The factor from internal to user's units of velocities."""
        return self.length / self.duration

    def space_in(self, x: np.ndarray) -> Array:
        """Places in the user's units to internal ones."""
        # The centre is removed in float64: data far from zero keeps its digits in float32.
        centred = np.asarray(x, np.float64) - np.asarray(self.centre)
        return jnp.asarray(centred / self.length, float)

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
