r"""The action: the weak form with V and W themselves as tests, from observed individuals.

$$A = \tfrac12\int E|\nabla(V + W*\rho)|^2\,dt + \bigl[E\,V + \tfrac12 E\,W*\rho\bigr]_0^T
      - \int E\,\partial_t V\,dt - \beta\int E\,\Delta(V + W*\rho)\,dt .$$
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import ready
from stitchflow._measure.kde import Cloud, Field
from stitchflow._objective.intervals import Scheme, Trapezoid
from stitchflow._status import BadInput
from stitchflow._types import Scalar, as_cloud, check_count, check_number


class Seen(NamedTuple):
    """Observed individuals of all times in internal units; pairs are without the self pair.

    Arguments:
        times: the time of each snapshot.
        cloud: the individuals. Smaller snapshots are filled up with copies of no weight.
    """

    times: Float[Array, " s"]
    cloud: Cloud

    @staticmethod
    def of(clouds: Sequence[Any], times: Sequence[float], energy: Energy) -> Seen:
        """The individuals (n, d) of each of some `times`, checked, in the units of `energy`."""
        units = ready(energy.units)
        if len(clouds) != len(times):
            raise BadInput(
                f"clouds and times: got {len(clouds)} and {len(times)}, expected as many"
            )
        check_count(len(times), "number of times", 2)
        moments = [check_number(t, "times") for t in times]
        if any(later <= earlier for earlier, later in pairwise(moments)):
            raise BadInput(f"times must increase, got {moments}")
        found = [as_cloud(cloud, "clouds", units.dim) for cloud in clouds]
        most = max(map(len, found))
        filled = np.stack([np.resize(x, (most, units.dim)) for x in found])
        weights = np.stack([np.where(np.arange(most) < len(x), 1.0 / len(x), 0.0) for x in found])
        cloud = Cloud(units.space_in(filled), jnp.asarray(weights, float), jnp.arange(most))
        return Seen(jnp.stack([units.moment_in(t) for t in moments]), cloud)

    @property
    def x(self) -> Float[Array, "s n d"]:
        """The places of the individuals."""
        return self.cloud.centres

    @property
    def steps(self) -> Float[Array, " i"]:
        """The durations of the gaps."""
        return jnp.diff(self.times)

    @property
    def ends(self) -> tuple[Seen, Seen]:
        """The snapshots at the left ends of gaps, and those at the right ends."""
        some = lambda which: Seen(
            self.times[which],
            self.cloud._replace(centres=self.x[which], weights=self.cloud.weights[which]),
        )
        return some(slice(None, -1)), some(slice(1, None))


def action(
    clouds: Sequence[Any],
    times: Sequence[float],
    energy: Energy,
    scheme: Scheme | None = None,
) -> Scalar:
    r"""Half the velocity residual of V and W without what depends on neither, from individuals.

    $$A = \tfrac12\int E|\nabla(V + W*\rho)|^2\,dt + \bigl[E\,V + \tfrac12 E\,W*\rho\bigr]_0^T
      - \int E\,\partial_t V\,dt - \beta\int E\,\Delta(V + W*\rho)\,dt .$$

    This is lem:vel_dissipation with the score integrated by parts, $E[\nabla\log\rho\cdot\nabla f]
    = -E[\Delta f]$. It is the weak form with V and W themselves as tests, as many equations as
    unknowns; where individuals are followed it is the likelihood of their paths by Ito's formula,
    times $2\beta$. It needs beta: as a function of beta alone it has no minimum. Each gap
    contributes with V as it is in the middle of the gap, so that the changes of V cancel in the
    sum. Pairs are without the self pair.

    Arguments:
        clouds: the individuals (n, d) of each time, in the user's units.
        times: the times, increasing.
        energy: the energy, with parameters: a gradient and at most an entropy.
        scheme: where in a gap integrands are taken; None is `Trapezoid()`.

    Returns:
        A number in the user's units that JAX can differentiate by the parameters of the energy.
    """
    scheme = at_ends(Trapezoid() if scheme is None else scheme)
    drift, beta = drift_of(energy), energy.diffusion
    for term in drift.terms:
        if not term.is_gradient:
            raise BadInput(f"energy: the action is of gradients only, got {term!r}")
    seen = Seen.of(clouds, times, energy)
    here = (seen.x, seen.times, seen.cloud, Field())
    squares = (drift.gradient(*here) ** 2).sum(-1)
    rates = seen.cloud.mean(0.5 * squares - beta * drift.divergence(*here))
    middle = 0.5 * (seen.times[:-1] + seen.times[1:])
    stored = [end.cloud.mean(drift.local(end.x, middle, end.cloud, Field())) for end in seen.ends]
    total = (stored[1] - stored[0]).sum() + seen.steps @ scheme.between(rates)
    return total * ready(energy.units).energy


def at_ends(scheme: Scheme) -> Scheme:
    """The `scheme` itself if it looks at the ends of gaps, where individuals are seen."""
    if scheme.at_nodes:
        return scheme
    raise BadInput(
        "scheme must be Forward(), Backward() or Trapezoid() where individuals are seen at the "
        f"ends of gaps only, got {scheme!r}"
    )


def drift_of(energy: Energy) -> Energy:
    """The terms that move individuals by averages alone; others but the entropy are refused."""
    drift = energy.without_noise
    for term in drift.terms:
        if term.reads_density:
            raise BadInput(
                f"energy: {term!r} reads the density, which the weak form does without; "
                "use VelocityResidual() for it"
            )
    return drift
