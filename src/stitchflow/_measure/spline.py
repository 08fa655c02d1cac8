"""Curves whose particles follow cubic splines through a few knots."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.interpolate import CubicSpline

from stitchflow._measure.curve import Curve, hermite
from stitchflow._measure.spacing import node_times
from stitchflow._parts import Part
from stitchflow._status import BadInput
from stitchflow._stitching import defaults
from stitchflow._types import Scalar, check_count


class Spline(eqx.Module, Part):
    """Particles on cubic splines, for `Stitching(curve=Spline())`.

    Velocities are then derivatives of the paths rather than chords between nodes. Fewer knots make
    stiffer paths.

    Arguments:
        knots: how many points each spline passes through, at least two; None means two for each
            snapshot, but not more than there are nodes.

    Examples:
        >>> sf.Stitching(curve=sf.Spline(knots=6)).curve.knots
        6
    """

    knots: int | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        if self.knots is not None:
            check_count(self.knots, "knots", 2)

    def times(
        self, observed: np.ndarray, nodes: int, action: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The times of the knots and of the nodes, where every knot is a node.

        Arguments:
            observed: the observed times.
            nodes: about how many nodes there are; at least two for each knot are made.
            action: squared distance over duration of each gap, as in `node_times`; None spreads the
                knots by time alone.

        Returns:
            The times of the knots and those of the nodes.
        """
        number = self.knots or defaults.KNOTS_PER_SNAPSHOT * len(observed)
        knots = node_times(observed, number, action)
        return knots, node_times(knots, max(nodes, defaults.NODES_PER_KNOT * len(knots)))


class SplineCurve(Curve):
    r"""A curve of distributions, $\rho_t(x) = \sum_k w_k\,\phi(x - x_k(t))$, with cubic splines.

    The splines reproduce cubic paths exactly (the third derivative is continuous at the knots next
    to the ends). Residuals are evaluated between the nodes `times`, and every knot is one of them.

    Arguments:
        parts: `particles`, `log_weights`, `raw_bandwidth` and the bounds as in `Curve`; here
            `particles` are the positions at the knots, (knots, n, dim).
        knots: the times of the knots, increasing.
        settings: `times` and the other arguments of `Curve` by name.

    Examples:
        >>> import jax.numpy as jnp
        >>> knots = (0.0, 1.0, 2.0, 3.0)
        >>> cubic = jnp.array(knots).reshape(4, 1, 1) ** 3
        >>> times = tuple(np.linspace(0.0, 3.0, 7).tolist())
        >>> curve = sf.SplineCurve(cubic, jnp.zeros(1), jnp.zeros(()), knots=knots, times=times)
        >>> round(float(curve.centres(jnp.array(1.5))[0, 0]), 4)
        3.375
        >>> round(float(curve.velocity(jnp.array(1.5))[0, 0]), 4)
        6.75
    """

    knots: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, *parts: Any, knots: tuple[float, ...], **settings: Any):
        self.knots = knots
        super().__init__(*parts, **settings)

    def __check_init__(self) -> None:
        if not set(self.knots) <= set(self.times):
            raise BadInput(f"every knot must be a node, got knots {self.knots}")

    @property
    def held_at(self) -> tuple[float, ...]:
        return self.knots

    def _at_nodes(self, order: int) -> Float[Array, "k n d"]:
        basis = CubicSpline(self.knots, np.eye(len(self.knots)))(self.times, order)
        knots = super().positions
        return jnp.einsum("kj,jnd->knd", jnp.asarray(basis, knots.dtype), knots)

    @property
    def positions(self) -> Float[Array, "k n d"]:
        return self._at_nodes(0)

    @property
    def node_velocities(self) -> Float[Array, "k n d"]:
        return self._at_nodes(1)

    def within(
        self, j: Int[Array, ""], share: Scalar
    ) -> tuple[Float[Array, "n d"], Float[Array, "n d"]]:
        x, u = self.positions, self.node_velocities
        return hermite(share, self.steps[j], x[j], x[j + 1], u[j], u[j + 1])
