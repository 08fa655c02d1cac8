r"""Growth: birth and death at a rate g(x, t), so that transport need not explain changes of mass.

$$\partial_t\rho + \nabla\cdot(\rho v) = g\rho .$$
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.spatial import KDTree

from stitchflow._data.observations import Observations
from stitchflow._energy.networks import MLP, with_time
from stitchflow._measure.curve import Curve
from stitchflow._objective.intervals import Intervals
from stitchflow._parts import Part
from stitchflow._status import BadInput, BadInputType
from stitchflow._stitching import defaults
from stitchflow._types import Scalar, as_cloud, check_count, check_hidden, check_number


class GrowthRate(eqx.Module):
    """g(x, t) per unit of internal time.

    Arguments:
        network: a function of place and time.
    """

    network: MLP

    def __call__(self, x: Float[Array, "*b d"], t: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return self.network(with_time(x, t))[..., 0]


class Growth(eqx.Module, Part):
    r"""A learned rate of birth and death; `Stitching(growth=Growth())` turns it on.

    $$\partial_t\rho + \nabla\cdot(\rho v) = g\rho .$$

    Particles carry mass, $\dot w_i = g(x_i, t)\,w_i$. Use it where the numbers of individuals in
    the snapshots measure the size of the population.

    Arguments:
        hidden: the widths of the layers of the network g.
        weight: the factor of $\int E_\rho[(g - g_0)^2]\,dt$, which keeps g from explaining what
            transport can explain.
        masses: the factor of the squared differences between the logarithms of the total mass and
            of the counts of the snapshots.
        prior: the expected rate $g_0$, a JAX function of one place in the user's units that returns
            a rate per unit of the user's time; None is zero. See `growth_prior`.

    >>> Growth(weight=1.0).masses
    10.0
    """

    hidden: tuple[int, ...] = eqx.field(static=True, default=defaults.GROWTH_LAYERS)
    weight: float = eqx.field(static=True, default=defaults.GROWTH_WEIGHT)
    masses: float = eqx.field(static=True, default=defaults.GROWTH_MASSES)
    prior: Callable | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        check_hidden(self.hidden)
        check_number(self.weight, "weight", 0.0)
        check_number(self.masses, "masses", 0.0)
        if self.prior is not None and not callable(self.prior):
            raise BadInputType(f"prior must be a function of a place, got {self.prior!r}")

    def init(self, dim: int, key: Array) -> GrowthRate:
        """The rate with parameters, for places of dimension `dim`; `key` is the random key."""
        return GrowthRate(MLP(dim + 1, tuple(self.hidden), 1, key))

    def loss(self, curve: Curve, data: Observations) -> Scalar:
        """The penalty on masses that differ from counts and on rates that differ from the prior."""
        assert curve.growth is not None, "there is no growth"
        mass = jax.nn.logsumexp(curve.node_logits, axis=1)
        found = jnp.interp(data.times, curve.nodes, mass - mass[0])
        apart = ((found - jnp.log(data.counts / data.counts[0])) ** 2).sum()
        intervals = Intervals.of(curve)
        times, centres, _ = intervals.at(0.5)
        rates = curve.growth(centres, jnp.broadcast_to(times[:, None], centres.shape[:2]))
        if self.prior is not None:
            units = data.units
            places = jax.lax.stop_gradient(units.space_out(centres))
            rates -= jax.vmap(jax.vmap(self.prior))(places) * units.duration
        size = intervals.step @ (intervals.weights * rates**2).sum(axis=1)
        return self.masses * apart + self.weight * size


@dataclass(frozen=True, eq=False)
class NearbyRate:
    """A rate at any place: the mean rate of the nearest cells.

    Arguments:
        cells: places (n, d) with a known rate.
        rates: the rate of each cell.
        neighbours: how many of the nearest cells are averaged.
    """

    cells: Float[np.ndarray, "n d"]
    rates: Float[np.ndarray, " n"]
    neighbours: int

    @cached_property
    def _tree(self) -> KDTree:
        return KDTree(self.cells)

    def _near(self, point: np.ndarray) -> np.ndarray:
        k = self.neighbours
        found = self._tree.query(np.asarray(point, np.float64), k)[1]
        shape = (*np.shape(point)[:-1], k)
        return self.rates[np.reshape(found, shape)].mean(axis=-1).astype(np.float32)

    def __call__(self, point: Array) -> Array:
        shape = jax.ShapeDtypeStruct(point.shape[:-1], jnp.float32)
        return jax.pure_callback(self._near, shape, point, vmap_method="broadcast_all")


def growth_prior(
    x: Any, proliferation: Any, apoptosis: Any, *, rate: float = 1.0, neighbours: int = 10
) -> Callable:
    """A prior for `Growth` from a proliferation score and an apoptosis score of each cell.

    The rate of a cell is `rate` times the difference of the two standardised scores. At other
    places the returned function gives the mean over the nearest cells.

    Arguments:
        x: the cells, of shape (n, d), in the space of the fit.
        proliferation: one score for each cell, in any unit.
        apoptosis: one score for each cell, in any unit.
        rate: the growth rate, per unit of time, of a cell that is one standard deviation more
            proliferating than apoptotic.
        neighbours: over how many of the nearest cells the rate is averaged.

    >>> cells = np.array([[0.0], [1.0]])
    >>> prior = sf.growth_prior(cells, [1.0, 3.0], [0.0, 0.0], rate=0.5, neighbours=1)
    >>> float(prior(np.array([0.9])))
    0.5
    """
    cells = as_cloud(x, "x")
    scores = [np.asarray(score, np.float64) for score in (proliferation, apoptosis)]
    for name, score in zip(("proliferation", "apoptosis"), scores, strict=True):
        if score.shape != (len(cells),) or not np.isfinite(score).all():
            raise BadInput(f"{name} must be one finite number per cell ({len(cells)},)")
    k = min(check_count(neighbours, "neighbours"), len(cells))
    standard = [(score - score.mean()) / (score.std() + 1e-12) for score in scores]
    return NearbyRate(cells, check_number(rate, "rate") * (standard[0] - standard[1]), k)
