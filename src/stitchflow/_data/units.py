"""Conversion between the user's units and the internal units of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._types import Scalar, as_cloud, check_number


@dataclass(frozen=True)
class Units:
    r"""The units in which a fit computes, with one length L and one duration T.

    $x' = (x - \mathrm{centre})\,/\,L$ and $t' = (t - \mathrm{start})\,/\,T$

    A separate scale for each dimension would turn a gradient flow into a flow that is not one, so
    there is only one length L. Energies, V, W and beta are L^2 / T times their internal values,
    velocities L / T, scores 1 / L. `Snapshots.units` gives those of a data set.

    Arguments:
        centre: the place that becomes the origin, one number for each dimension.
        length: L, the length that becomes one; positive.
        start: the time that becomes zero.
        duration: T, the duration that becomes one; positive.

    Examples:
        >>> units = sf.Units(centre=(1.0, 2.0), length=2.0, start=0.0, duration=4.0)
        >>> units.energy, units.speed
        (1.0, 0.5)
        >>> units.space_in(np.array([[5.0, 2.0]])).tolist()
        [[2.0, 0.0]]
        >>> units.time_out(0.5)
        2.0
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
        """Internal units that are the user's own.

        Arguments:
            dim: the number of coordinates.

        Returns:
            Units with which every conversion returns its input.
        """
        return Units((0.0,) * dim)

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return len(self.centre)

    @property
    def energy(self) -> float:
        """The factor L^2 / T from internal units to the user's for V, W and beta."""
        return self.length**2 / self.duration

    @property
    def speed(self) -> float:
        """The factor L / T from internal units to the user's for velocities."""
        return self.length / self.duration

    def space_in(self, x: np.ndarray) -> Array:
        """Convert places from the user's units to internal ones.

        Arguments:
            x: places in the user's units, with the coordinates along the last axis.

        Returns:
            A JAX array of the same shape.
        """
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
        """Convert places from internal units to the user's.

        Arguments:
            x: places in internal units, with the coordinates along the last axis.

        Returns:
            An array of the same shape.
        """
        centre = jnp.asarray(self.centre, x.dtype)
        return x * self.length + centre.reshape((1,) * (x.ndim - 1) + (-1,))

    def time_in(self, t):
        """Convert times from the user's units to internal ones.

        Arguments:
            t: a time in the user's units, or an array of them.

        Returns:
            The same in internal units. In its own units a data set lasts from 0 to 1.
        """
        return (t - self.start) / self.duration

    def time_out(self, t):
        """Convert times from internal units to the user's.

        Arguments:
            t: a time in internal units, or an array of them.

        Returns:
            The same in the user's units.
        """
        return t * self.duration + self.start
