"""Fitted terms that have a direction: a field u(x), and a W(z) that is not radial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.units import Units
from stitchflow._energy.networks import Declared
from stitchflow._energy.pair_terms import Interaction, reach_of
from stitchflow._energy.terms import Positive, ready, with_fields
from stitchflow._energy.vector_field import VectorField
from stitchflow._types import check_count
from stitchflow._weak_form.fitted import bump_values


class Streams(eqx.Module):
    """Several sums of powers of first and second degree and Gaussian bumps.

    Arguments:
        coefficients: one row for each sum.
        centres: the centres of the bumps.
        widths: their standard deviations.
    """

    coefficients: Float[Array, "k f"]
    centres: Float[Array, "j d"]
    widths: Float[Array, " j"]

    def __call__(self, x: Float[Array, "m d"]) -> Float[Array, "m k"]:
        return bump_values(x, self.centres, self.widths) @ self.coefficients.T


class BumpField(VectorField):
    r"""$u = \sum_k S_k\nabla\psi_k$ with sums $\psi_k$ of powers and bumps, as `WeakForm` finds it.

    Arguments:
        bumps: the number of bumps.
        streams: the number of functions $\psi$.
    """

    bumps: int = eqx.field(static=True)
    streams: int = eqx.field(static=True)

    def __init__(self, *, bumps: int, streams: int = 1):
        super().__init__()
        self.bumps, self.streams = check_count(bumps, "bumps", 0), check_count(streams, "streams")

    @property
    def settings(self) -> dict[str, Any]:
        return {"bumps": self.bumps, "streams": self.streams}

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        bumps = check_count(settings["bumps"], "bumps", 0)
        streams = check_count(settings["streams"], "streams")
        return Declared(0, bumps * (dim + 1 + streams) + streams * dim**2)

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> BumpField:
        d, k = cloud.shape[1], self.streams
        count = d + d * (d + 1) // 2 + self.bumps
        centres, widths = np.zeros((self.bumps, d)), np.ones(self.bumps)
        return self.of(np.zeros((k, count)), centres, widths, np.zeros((k, d, d)))

    def of(
        self, coefficients: np.ndarray, centres: np.ndarray, widths: np.ndarray, turns: np.ndarray
    ) -> BumpField:
        """The same term with the arrays of `Streams` and the matrices S, (k, d, d)."""
        arrays = (jnp.asarray(a, float) for a in (coefficients, centres, widths))
        return with_fields(self, function=Streams(*arrays), turns=jnp.asarray(turns, float))

    def velocity(self, x: Float[Array, "m d"], t: Float[Array, " m"]) -> Float[Array, "m d"]:
        psi = ready(self.function)
        slopes = jax.vmap(jax.jacrev(lambda p: psi(p[None])[0]))(x)
        return jnp.einsum("kij,mkj->mi", ready(self.turns), slopes)


class BumpInteraction(Interaction):
    r"""$W(z) = \sum_j c_j\,(b_j(z) + b_j(-z))$ with Gaussian bumps, as `WeakForm` finds it.

    Arguments:
        bumps: the number of bumps.
    """

    bumps: int = eqx.field(static=True)

    def __init__(self, *, bumps: int):
        super().__init__(radial=False)
        self.bumps = check_count(bumps, "bumps")

    @property
    def settings(self) -> dict[str, Any]:
        return {"bumps": self.bumps}

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        return Declared(0, check_count(settings["bumps"], "bumps") * (dim + 2))

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> BumpInteraction:
        zeros = np.zeros((self.bumps, cloud.shape[1]))
        blank = self.of(np.zeros(self.bumps), zeros, np.ones(self.bumps))
        return with_fields(blank, reach=reach_of(cloud))

    def of(self, c: np.ndarray, centres: np.ndarray, widths: np.ndarray) -> BumpInteraction:
        """The same term with the coefficients, centres and widths of the bumps."""
        d = centres.shape[1]
        # Half of the sum over z and -z is taken, and there are no powers.
        row = np.concatenate([np.zeros(d + d * (d + 1) // 2), 2.0 * c])[None]
        arrays = (jnp.asarray(a, float) for a in (row, centres, widths))
        fields = {"function": Streams(*arrays), "coefficient": Positive.of(1.0, self.learn)}
        reach = float(np.sqrt((centres**2).sum(axis=1)).max() + 3.0 * widths.max())
        return with_fields(self, reach=reach, **fields)

    def _of_displacement(self, z: Float[Array, " d"]) -> Float[Array, ""]:
        function, coefficient = ready(self.function), ready(self.coefficient)
        return coefficient() * 0.5 * (function(z[None]) + function(-z[None]))[0, 0]
