"""The fitted potential of many dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.units import Units
from stitchflow._energy.networks import Declared
from stitchflow._energy.terms import Positive, with_fields
from stitchflow._types import check_count
from stitchflow._weak_form.fitted import BumpPotential, bump_values, waves_of


class FramedSum(eqx.Module):
    """Powers and bumps of the leading directions, z and z^2 of all others, times powers of time.

    Arguments:
        coefficients: those of the functions, one row for each Legendre polynomial of time.
        constant: what is added, for each of the polynomials.
        centres: the centres of the bumps in the leading directions.
        widths: their standard deviations.
        axes: all directions as columns, the leading ones first.
    """

    coefficients: Float[Array, "p f"]
    constant: Float[Array, " p"]
    centres: Float[Array, "j q"]
    widths: Float[Array, " j"]
    axes: Float[Array, "d d"]

    def __call__(self, x: Float[Array, "m i"]) -> Float[Array, "m 1"]:
        d, q = self.axes.shape[0], self.centres.shape[1]
        z = x[:, :d] @ self.axes
        led = bump_values(z[:, :q], self.centres, self.widths)
        values = jnp.concatenate([led, z[:, q:], z[:, q:] ** 2], axis=1)
        each = values @ self.coefficients.T + self.constant[None]
        return (each * waves_of(x[:, d:], self.coefficients.shape[0])).sum(1, keepdims=True)


class FramedPotential(BumpPotential):
    """V as powers and bumps of leading directions and a spring in every other one.

    Arguments:
        bumps: the number of bumps.
        powers: the number of polynomials of time that multiply each function; 1 for V(x).
        lead: the number of leading directions.
    """

    lead: int = eqx.field(static=True)

    def __init__(self, *, bumps: int, powers: int = 1, lead: int = 1):
        super().__init__(bumps=bumps, powers=powers)
        self.lead = check_count(lead, "lead")

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"lead": self.lead}

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        bumps, powers, lead = (
            check_count(settings[name], name) for name in ("bumps", "powers", "lead")
        )
        return Declared(0, bumps * (lead + 1 + powers) + dim**2)

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> FramedPotential:
        d, q = cloud.shape[1], self.lead
        count = q + q * (q + 1) // 2 + self.bumps + 2 * (d - q)
        return self.of(
            np.zeros((self.powers, count)),
            np.zeros(self.powers),
            np.zeros((self.bumps, q)),
            np.ones(self.bumps),
            np.eye(d),
        )

    def of(self, *arrays: np.ndarray) -> FramedPotential:
        """The same term with the arrays of a `FramedSum`."""
        function = FramedSum(*(jnp.asarray(a, float) for a in arrays))
        return with_fields(self, function=function, coefficient=Positive.of(1.0, self.learn))
