"""The fitted potential that is round in part."""

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
from stitchflow._weak_form.fitted import BumpPotential, BumpSum, SplineSum

TINY = 1e-12  # added to squared distances, whose root has no derivative at zero


class RoundSum(eqx.Module):
    """Powers and bumps, plus a spline of the distance from a middle.

    Arguments:
        bumps: the powers and bumps.
        splines: the function of the distance divided by `reach`.
        middle: where the distance is zero.
        reach: where the spline ends.
    """

    bumps: BumpSum
    splines: SplineSum
    middle: Float[Array, " d"]
    reach: Float[Array, ""]

    def __call__(self, x: Float[Array, "m i"]) -> Float[Array, "m 1"]:
        away = x[:, : self.middle.shape[0]] - self.middle[None]
        r = jnp.sqrt((away**2).sum(axis=1, keepdims=True) + TINY)
        return self.bumps(x) + self.splines(r / self.reach)


class RoundPotential(BumpPotential):
    """V as powers, bumps and a spline of the distance from the middle of all individuals.

    Arguments:
        bumps: the number of bumps.
        powers: 1, because V does not vary in time.
        knots: the number of splines.
    """

    knots: int = eqx.field(static=True)

    def __init__(self, *, bumps: int, powers: int = 1, knots: int = 2):
        super().__init__(bumps=bumps, powers=powers)
        self.knots = check_count(knots, "knots", 2)

    @property
    def settings(self) -> dict[str, Any]:
        return super().settings | {"knots": self.knots}

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        bumps, knots = (check_count(settings[name], name) for name in ("bumps", "knots"))
        return Declared(0, bumps * (dim + 2) + knots)

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> RoundPotential:
        d = cloud.shape[1]
        count = d + d * (d + 1) // 2 + self.bumps
        return self.of(
            np.zeros((self.powers, count)),
            np.zeros(self.powers),
            np.zeros((self.bumps, d)),
            np.ones(self.bumps),
            np.zeros(self.knots + 5),
            np.zeros(d),
            np.ones(()),
        )

    def of(self, *arrays: np.ndarray) -> RoundPotential:
        """The same term with the arrays of a `BumpSum`, a table of splines, middle and reach."""
        given = [jnp.asarray(a, float) for a in arrays]
        function = RoundSum(BumpSum(*given[:4]), SplineSum(given[4]), given[5], given[6])
        return with_fields(self, function=function, coefficient=Positive.of(1.0, self.learn))
