r"""The energy-dissipation form of the velocity residual (lem:vel_dissipation).

$$R_{vel} = 2\Bigl(F[\rho_T]-F[\rho_0]-\int_0^T E_{\rho_t}\partial_t V\,dt\Bigr)
            + \int_0^T E_{\rho_t}\bigl[|v_t|^2 + |\nabla\,\delta F/\delta\rho_t|^2\bigr]\,dt .$$
"""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float

from stitchflow._energy.energy import Energy
from stitchflow._measure.curve import Curve
from stitchflow._measure.kde import Cloud, Field
from stitchflow._objective.intervals import Draws, Intervals
from stitchflow._objective.residual import Estimated
from stitchflow._status import BadInput
from stitchflow._types import Scalar


class DissipationResidual(Estimated):
    r"""The velocity residual through the energy that is lost: no product of velocity and force.

    Each interval contributes its own loss, with V as it is half-way (at $t'$),
    $2\,(F_{t'}[\rho_{j+1}]-F_{t'}[\rho_j])+\Delta t\,E[|v|^2+|\nabla\,\delta F/\delta\rho|^2]$;
    summed over all, the changes of V cancel and $F$ is left at the ends. Equal to the velocity
    residual up to quadrature, but not in every sample: estimates scatter around zero on an exact
    curve and may be negative. Settings are those of `VelocityResidual`, but draws come from kernels
    as wide as they are, for the identity holds under the density itself (at the centres it is exact
    for energies without a density). Velocities that are no gradient enter directly.
    """

    widening: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        if self.widening != 1.0:
            raise BadInput(f"widening must be 1 under the density itself, got {self.widening}")

    def estimate(
        self,
        curve: Curve,
        energy: Energy,
        intervals: Intervals,
        draws: Draws | None,
        weights: Float[Array, "i m"],
    ) -> Scalar:
        middle = intervals.at(0.5)[0]

        def at(centres: Array, logits: Array, velocities: Array, x: Array) -> Field:
            rho = curve.kde(centres, logits)
            if draws is not None:
                return rho.field(x, velocities)
            known = rho.field_without_self() if energy.needs_density else Field()
            return known.having(velocity=velocities)

        def seen(place: float) -> tuple[Array, Array, Cloud, Field]:
            x, _, cloud, fields = self.looked(curve, intervals, draws, place, at)
            return x, middle, cloud, fields

        def squares(place: float) -> Float[Array, "i m"]:
            here = seen(place)
            slope, velocity = energy.gradient(*here) / self.kinetic, here[-1].velocity
            total = velocity**2 + (1.0 + (self.ridge or 0.0)) * slope**2
            return (total + 2.0 / self.kinetic * velocity * energy.circulation(*here)).sum(-1)

        gained = energy.local(*seen(1.0)) - energy.local(*seen(0.0))
        rates = 2.0 / self.kinetic * gained / intervals.step[:, None] + self.scheme.average(squares)
        return intervals.duration @ (weights * rates).sum(axis=1)
