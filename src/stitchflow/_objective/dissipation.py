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
    r"""The velocity residual by the energy that is lost, without products of velocity and force.

    $$2\Bigl(F[\rho_T]-F[\rho_0]-\int_0^T E_{\rho_t}\partial_t V\,dt\Bigr)
      + \int_0^T E_{\rho_t}\bigl[|v_t|^2 + |\nabla\,\delta F/\delta\rho_t|^2\bigr]\,dt .$$

    Each interval contributes its own loss, with V as it is in the middle of the interval (at $t'$),
    $2\,(F_{t'}[\rho_{j+1}]-F_{t'}[\rho_j])+\Delta t\,E[|v|^2+|\nabla\,\delta F/\delta\rho|^2]$. In
    the sum the changes of V cancel and $F$ remains at the two ends. The residual equals
    `VelocityResidual` up to quadrature, but not in every sample: on an exact curve estimates
    scatter around zero and may be negative. Velocities that are not a gradient enter directly.

    Arguments:
        scheme: where in an interval the squares are evaluated; `Midpoint()` by default.
        alpha: the share of the Monte Carlo estimate; the rest is the sum at the particles, which is
            exact for energies that do not read the density. None derives it from the data.
        weight: the factor of the residual in the objective, in the units of the scaled data; None
            derives it from the data.
        kinetic: a number by which the energy's gradient is divided.
        stations: the number of random intervals in each step, stratified in time; None derives it
            from the data.
        ridge: adds this share of the squared gradient; None derives it from the data.
        draws: the number of particles around which a point is drawn in each interval; None derives
            it from the data.
        widening: 1 only, because the identity holds under the density itself.

    >>> DissipationResidual(weight=1.0).widening
    1.0
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
