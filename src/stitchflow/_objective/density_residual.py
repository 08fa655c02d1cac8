r"""The density residual: how far the density is from changing as the energy says.

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

    The paper's equation has densities where this has their logarithms: `relative=False`. Dense
    places then count by the cube of the density, and its unit by the power of the dimension.
    Everything of the kernel density is analytic; networks cost one derivative a dimension more
    than the velocity residual. Motion that changes no density (around a ring, say) is free. The
    settings are those of `VelocityResidual`; `alpha` is 1 unless set, for at the centres
    leave-one-out densities are noisy.
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
