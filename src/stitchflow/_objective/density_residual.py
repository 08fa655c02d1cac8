r"""The density residual: how far the density is from changing as the energy predicts.

$$R_{dens} = \int_0^T E_{\rho_t}\bigl|\partial_t\rho_t
             - \nabla\cdot(\rho_t\nabla\,\delta F/\delta\rho_t)\bigr|^2\,dt .$$
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from stitchflow._energy.energy import Energy
from stitchflow._measure.curve import Curve
from stitchflow._measure.kde import Field
from stitchflow._objective.intervals import Draws, Intervals
from stitchflow._objective.residual import Estimated
from stitchflow._types import Scalar


class DensityResidual(Estimated):
    r"""$\int E_\rho|\partial_t\log\rho-\nabla\cdot(\rho\nabla\,\delta F/\delta\rho)/\rho|^2\,dt$.

    It is zero where the density changes as the energy predicts. Motion that changes no density,
    such as rotation around a ring, does not enter. All derivatives of the kernel density are
    analytic; a network costs one more derivative per dimension than in the velocity residual.

    Arguments:
        scheme: where in an interval the integrand is evaluated; `Midpoint()` by default.
        alpha: the share of the Monte Carlo estimate; the rest is the sum at the particles. It is 1
            unless set, because leave-one-out densities at the particles are noisy.
        weight: the factor of the residual in the objective, in the units of the scaled data; None
            derives it from the data.
        kinetic: a number by which the energy's gradient is divided.
        stations: the number of random intervals in each step, stratified in time; None derives it
            from the data.
        ridge: adds this share of the squared prediction; None derives it from the data.
        draws: the number of particles around which a point is drawn in each interval; None derives
            it from the data.
        widening: the factor by which kernels are widened for the draws.
        relative: whether changes are relative to the density. False is the paper's equation, in
            which dense places count by the cube of the density, and whose unit depends on the
            dimension.

    >>> DensityResidual(weight=1.0).alpha
    1.0
    """

    relative: bool = eqx.field(static=True, default=True)
    alpha: float | None = eqx.field(static=True, default=1.0)

    def estimate(
        self,
        curve: Curve,
        energy: Energy,
        intervals: Intervals,
        draws: Draws | None,
        weights: Float[Array, "i m"],
    ) -> Scalar:
        def at(centres: Array, logits: Array, velocities: Array, x: Array) -> Field:
            return curve.kde(centres, logits).moving_field(x, velocities, draws is None)

        def parts(place: float) -> tuple[Float[Array, "i m 1"], Float[Array, "i m 1"]]:
            here = self.looked(curve, intervals, draws, place, at)
            fields = here[-1]
            drained = energy.divergence(*here)
            drained += (energy.gradient(*here) * fields.score).sum(-1)
            drained /= self.kinetic
            unit = jnp.ones_like(drained) if self.relative else jnp.exp(fields.log_density)
            return (unit * (fields.rate - drained))[..., None], (unit * drained)[..., None]

        gap, drained = self.scheme.average(parts)
        return self.total(intervals, gap, drained, weights)
