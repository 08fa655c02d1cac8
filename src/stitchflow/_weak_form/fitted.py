"""The terms of a fitted energy: sums of bumps and splines with known coefficients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.units import Units
from stitchflow._energy.networks import Declared
from stitchflow._energy.pair_terms import Interaction, VectorKernel, reach_of
from stitchflow._energy.terms import Positive, Potential, ready, with_fields
from stitchflow._types import check_count


class BumpSum(eqx.Module):
    """Powers of first and second degree and Gaussian bumps, times powers of time.

    Arguments:
        coefficients: those of the functions, one row for each Legendre polynomial of time.
        constant: what is added, for each of the polynomials.
        centres: the centres of the bumps.
        widths: their standard deviations.
    """

    coefficients: Float[Array, "p f"]
    constant: Float[Array, " p"]
    centres: Float[Array, "j d"]
    widths: Float[Array, " j"]

    def __call__(self, x: Float[Array, "m i"]) -> Float[Array, "m 1"]:
        d = self.centres.shape[1]
        each = (
            bump_values(x[:, :d], self.centres, self.widths) @ self.coefficients.T
            + self.constant[None]
        )
        return (each * waves_of(x[:, d:], self.coefficients.shape[0])).sum(1, keepdims=True)


def waves_of(time: Float[Array, "m k"], powers: int) -> Float[Array, "m p"]:
    """Legendre polynomials of the time from -1 to 1, the first column of `time`."""
    waves = [jnp.ones(time.shape[0], time.dtype)]
    if powers > 1:
        waves.append(time[:, 0])
    for k in range(2, powers):
        waves.append(((2 * k - 1) * time[:, 0] * waves[-1] - (k - 1) * waves[-2]) / k)
    return jnp.stack(waves, axis=1)


def bump_values(
    x: Float[Array, "m d"], centres: Float[Array, "j d"], widths: Float[Array, " j"]
) -> Float[Array, "m f"]:
    """Coordinates, products of two, and Gaussian bumps at points."""
    i, j = np.triu_indices(x.shape[1])
    squares = ((x[:, None, :] - centres[None]) ** 2).sum(-1)
    bells = jnp.exp(-0.5 * squares / (widths**2)[None])
    return jnp.concatenate([x, x[:, i] * x[:, j], bells], axis=1)


class BumpPotential(Potential):
    """V as a sum of powers and Gaussian bumps, as `WeakForm` finds it.

    Arguments:
        bumps: the number of bumps.
        powers: the number of polynomials of time that multiply each function; 1 for V(x).
    """

    bumps: int = eqx.field(static=True)
    powers: int = eqx.field(static=True)

    def __init__(self, *, bumps: int, powers: int = 1):
        super().__init__(time_varying=check_count(powers, "powers") > 1)
        self.bumps, self.powers = check_count(bumps, "bumps"), powers

    @property
    def settings(self) -> dict[str, Any]:
        return {"bumps": self.bumps, "powers": self.powers}

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        bumps, powers = (check_count(settings[name], name) for name in ("bumps", "powers"))
        return Declared(0, bumps * (dim + 1 + powers))

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> BumpPotential:
        d = cloud.shape[1]
        count = d + d * (d + 1) // 2 + self.bumps
        return self.of(
            np.zeros((self.powers, count)),
            np.zeros(self.powers),
            np.zeros((self.bumps, d)),
            np.ones(self.bumps),
        )

    def of(self, *arrays: np.ndarray) -> BumpPotential:
        """The same term with the arrays of a `BumpSum`."""
        function = BumpSum(*(jnp.asarray(a, float) for a in arrays))
        return with_fields(self, function=function, coefficient=Positive.of(1.0, self.learn))


class SplineSum(eqx.Module):
    """Cubic splines on evenly spaced knots from 0 to 1; zero beyond.

    Arguments:
        table: the coefficient of the spline at each knot from the one left of zero, and four zeros.
    """

    table: Float[Array, " k"]

    def __call__(self, s: Float[Array, "*m 1"]) -> Float[Array, "*m 1"]:
        count = self.table.shape[0] - 5
        u = s * (count + 1)
        cell = jnp.clip(jnp.floor(u), 0, count + 1)
        u = jnp.minimum(u - cell, 1.0)
        v, cell = 1.0 - u, cell.astype(int)
        pieces = [v**3 / 6, 2 / 3 - u**2 + u**3 / 2, 2 / 3 - v**2 + v**3 / 2, u**3 / 6]
        return sum((self.table[cell + p] * piece for p, piece in enumerate(pieces)), 0.0 * u)


class SplineInteraction(Interaction):
    """A radial W as a spline, as `WeakForm` finds it; it is zero beyond its range.

    Arguments:
        knots: the number of splines.
    """

    knots: int = eqx.field(static=True)

    def __init__(self, *, knots: int):
        super().__init__(radial=True)
        self.knots = check_count(knots, "knots", 2)

    @property
    def settings(self) -> dict[str, Any]:
        return {"knots": self.knots}

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        return Declared(0, check_count(settings["knots"], "knots"))

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> SplineInteraction:
        return self.of(np.zeros(self.knots + 5), reach_of(cloud))

    def of(self, table: np.ndarray, reach: float) -> SplineInteraction:
        """The same term with the table of a `SplineSum` that ends at `reach`."""
        function = SplineSum(jnp.asarray(table, float))
        coefficient = Positive.of(1.0, self.learn)
        return with_fields(self, function=function, coefficient=coefficient, reach=float(reach))

    def _table(self, one: Callable) -> Callable[[Array], Array]:
        """W or W' itself: a spline is as fast as the series that stands for a network."""
        return lambda r: jax.vmap(one)(r.reshape(-1)).reshape(r.shape)


class SplineKernel(VectorKernel):
    """A kernel K(z) = p(r) z / r + q(r) z' / r with z' turned by a right angle, p and q splines.

    Arguments:
        knots: the number of splines of p and of q.
    """

    knots: int = eqx.field(static=True)

    def __init__(self, *, knots: int):
        super().__init__()
        self.knots = check_count(knots, "knots", 2)

    @property
    def settings(self) -> dict[str, Any]:
        return {"knots": self.knots}

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        return Declared(0, 2 * check_count(settings["knots"], "knots"))

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> SplineKernel:
        return self.of(np.zeros(self.knots + 5), np.zeros(self.knots + 5), reach_of(cloud))

    def of(self, radial: np.ndarray, turning: np.ndarray, reach: float) -> SplineKernel:
        """The same term with the tables of two `SplineSum` that end at `reach`."""
        sums = tuple(SplineSum(jnp.asarray(table, float)) for table in (radial, turning))
        return with_fields(self, function=sums, scale=jnp.ones(()), reach=float(reach))

    def kernel(self, z: Float[Array, "*m d"]) -> Float[Array, "*m d"]:
        r = jnp.sqrt((z**2).sum(-1, keepdims=True) + 1e-12)
        radial, turning = ready(self.function)  # pyright: ignore
        out = radial(r / self.reach) * z / r
        if z.shape[-1] == 2:
            turned = jnp.stack([-z[..., 1], z[..., 0]], axis=-1)
            out = out + turning(r / self.reach) * turned / r
        return out
