r"""What methods built on the JKO scheme have in common.

One step of the scheme takes $\rho_k$ to
$\rho_{k+1} = \arg\min_\rho F[\rho] + W_2^2(\rho_k, \rho) / 2\tau_k$ (eq:JKO).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stitchflow._data.observations import padded, random_rows, shares
from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Potential, Term
from stitchflow._measure.coupling import plan
from stitchflow._measure.kde import KDE, Cloud, Field, leave_one_out_bandwidth, over_stations
from stitchflow._method.driven import Driven
from stitchflow._status import BadInputType


@dataclass(frozen=True)
class JKOMethod(Driven):
    """A method whose main setting is the energy to learn.

    Arguments:
        energy: the terms to learn; a potential with two layers of 64 by default, as in the papers.
    """

    # Two layers of 64, as in the papers.
    energy: Energy = field(default_factory=lambda: Energy((Potential(hidden=(64, 64)),)))

    def __post_init__(self) -> None:
        energy = Energy((self.energy,)) if isinstance(self.energy, Term) else self.energy
        if not isinstance(energy, Energy):
            raise BadInputType(f"energy must be an Energy, got {energy!r}")
        object.__setattr__(self, "energy", energy)

    def learning(self, physics: Energy) -> Self:
        # The scheme needs an energy: if `physics` has no potential, the present one is kept.
        return replace(self, energy=physics) if physics.only(Potential) else self

    def start(self, data: Snapshots, key: Array) -> Energy:
        """The energy with parameters for this data."""
        return self.energy.init_for(data, key)


class Marginals(eqx.Module):
    """The individuals of every snapshot in internal units, padded, with their kernel density.

    Arguments:
        points: the individuals of each time.
        weights: their weights, which sum to one at each time.
        counts: the number of individuals at each time.
        times: the internal times.
        field: log density and score at each individual, without its own kernel; empty where no term
            of the energy reads them.
    """

    points: Float[Array, "t n d"]
    weights: Float[Array, "t n"]  # sum to one
    counts: Int[Array, " t"]
    times: Float[Array, " t"]
    field: Field

    @staticmethod
    def of(data: Snapshots, units: Units, densities: bool) -> Marginals:
        """The individuals of `data`; `densities` says whether their kernel density is computed."""
        shape, rng = (len(data), int(data.counts.max())), np.random.default_rng(0)
        clouds = [np.asarray(units.space_in(cloud)) for cloud in data.clouds]
        weights = (data.cloud_weights(k) for k in range(len(data)))
        centres = padded(clouds, (*shape, data.dim), repeat=True)
        masses, field = padded((w / w.sum() for w in weights), shape), Field()
        if densities:
            widths = [leave_one_out_bandwidth([cloud], rng) for cloud in clouds]
            widths = jnp.asarray(np.maximum(widths, 1e-3), float)
            field = _densities(centres, widths, jnp.log(masses))
        times = jnp.asarray(units.time_in(data.times), float)
        return Marginals(centres, masses, jnp.asarray(data.counts), times, field)

    @property
    def gaps(self) -> Float[Array, " s"]:
        """The time between neighbouring snapshots."""
        return jnp.diff(self.times)

    def draw(self, chosen: Int[Array, " s"], n: int, key: Array) -> tuple[Array, Cloud, Field]:
        """Row numbers, positions and densities of `n` random individuals of each chosen time.

        All individuals are taken where there are no more than `n`.
        """
        most = self.weights.shape[1]
        if n >= most:
            rows = jnp.broadcast_to(jnp.arange(most)[None, :], (len(chosen), most))
        else:
            rows = random_rows(self.counts[chosen], n, key)
        one = lambda a: jnp.take_along_axis(a[chosen], rows, axis=1)
        many = lambda a: jnp.take_along_axis(a[chosen], rows[:, :, None], axis=1)
        weights = shares(one(self.weights), 1.0 / rows.shape[1])
        field = jax.tree.map(lambda a: one(a) if a.ndim == 2 else many(a), self.field)
        return rows, Cloud(many(self.points), weights), field


@eqx.filter_jit
def _densities(centres: Array, widths: Array, log_weights: Array) -> Field:
    def one(c: Array, h: Array, w: Array) -> Field:
        field = KDE(c, h, w).field_without_self()
        # The leave-one-out density of a single individual is undefined.
        return jax.tree.map(lambda a: jnp.nan_to_num(a, posinf=0.0, neginf=0.0), field)

    n = centres.shape[1]
    return over_stations(one, n, n, centres, widths, log_weights)


def within(marginals: Marginals, chosen: Int[Array, " s"], key: Array) -> Float[Array, " s"]:
    """A random time in each of the `chosen` gaps of `marginals`; `key` is the random key.

    In the scheme V(x, t) is one function for the whole of a step.
    """
    share = jax.random.uniform(key, chosen.shape)
    return marginals.times[chosen] + share * marginals.gaps[chosen]


def origins(data: Snapshots, units: Units) -> Float[Array, "s n d"]:
    """The mean position from which the optimal plan moves each individual of a later snapshot.

    Positions are padded as in `Marginals`. The origin of an individual without weight is its own
    position.

    Arguments:
        data: the snapshots.
        units: the scales of the internal units, in which the result is.
    """
    found = []
    clouds = [np.asarray(units.space_in(cloud), np.float64) for cloud in data.clouds]
    for k, (here, there) in enumerate(pairwise(clouds)):
        coupling = plan(here, there, data.cloud_weights(k), data.cloud_weights(k + 1))
        mass = coupling.sum(axis=0)[:, None]
        mean = coupling.T @ here / np.maximum(mass, 1e-300)
        found.append(np.where(mass > 0.0, mean, there))
    return padded(found, (len(found), int(data.counts.max()), data.dim), repeat=True)
