r"""Growth: birth and death at a rate g(x, t), so that masses need not be explained by transport.

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
from stitchflow._types import Scalar, as_cloud, check_count, check_hidden, check_number


class GrowthRate(eqx.Module):
    """g(x, t) per unit of internal time: a network of place and time."""

    network: MLP

    def __call__(self, x: Float[Array, "*b d"], t: Float[Array, "*b"]) -> Float[Array, "*b"]:
        return self.network(with_time(x, t))[..., 0]


class Growth(eqx.Module, Part):
    r"""Settings of a learned growth rate; `Stitching(growth=Growth())` turns it on.

    Particles carry mass, $\dot w_i = g(x_i, t)\,w_i$. The total mass must follow the counts of the
    snapshots (`masses` is the weight of their squared log differences), and `weight` times
    $\int E_\rho[(g - g_0)^2]$ keeps growth from explaining what transport can. `prior` is $g_0$, a
    JAX function of one place in the user's units, per unit of the user's time; zero by default.
    """

    hidden: tuple[int, ...] = eqx.field(static=True, default=(64, 64))
    weight: float = eqx.field(static=True, default=0.1)
    masses: float = eqx.field(static=True, default=10.0)
    prior: Callable | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        check_hidden(self.hidden)
        check_number(self.weight, "weight", 0.0)
        check_number(self.masses, "masses", 0.0)
        if self.prior is not None and not callable(self.prior):
            raise BadInputType(f"prior must be a function of a place, got {self.prior!r}")

    def init(self, dim: int, key: Array) -> GrowthRate:
        return GrowthRate(MLP(dim + 1, tuple(self.hidden), 1, key))

    def loss(self, curve: Curve, data: Observations) -> Scalar:
        """Masses against counts, and growth against its prior."""
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
    """A rate at any place: the mean of the `rates` of the nearest `neighbours` of some `cells`."""

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
    """A prior for `Growth` from two scores per cell: `rate` times their standardised difference.

    At other places it is the mean over the nearest of these cells. `rate` is the growth rate, per
    unit of time, of a cell one standard deviation more proliferating than apoptotic.
    """
    cells = as_cloud(x, "x")
    scores = [np.asarray(score, np.float64) for score in (proliferation, apoptosis)]
    for name, score in zip(("proliferation", "apoptosis"), scores, strict=True):
        if score.shape != (len(cells),) or not np.isfinite(score).all():
            raise BadInput(f"{name} must be one finite number per cell ({len(cells)},)")
    k = min(check_count(neighbours, "neighbours"), len(cells))
    standard = [(score - score.mean()) / (score.std() + 1e-12) for score in scores]
    return NearbyRate(cells, check_number(rate, "rate") * (standard[0] - standard[1]), k)
