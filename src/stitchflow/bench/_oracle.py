"""The results of a perfect model: the true energy and a population that it moved."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Entropy
from stitchflow._method.driven import DrivenFlow
from stitchflow._types import KeyLike


class Oracle(DrivenFlow):
    """The flow of the energy that made the data.

    Without noise there is one path from each start, which is computed to the tolerance of the
    data's own simulation. Otherwise a good method could score below the floor.

    Arguments:
        energy: the true energy.
        population: individuals that it moved.
    """

    def __init__(self, energy: Energy, population: Snapshots):
        super().__init__("oracle", energy, population)

    def simulate(
        self,
        x0: Any,
        times: Any,
        key: KeyLike = 0,
        *,
        weights: Any = None,
        groups: Any = None,
        ode: bool = False,
    ) -> Float[Array, "t n d"]:
        exact = not self.energy.only(Entropy)
        with jax.enable_x64(exact):
            path = super().simulate(
                x0, times, key, weights=weights, groups=groups, ode=ode or exact
            )
            path = np.asarray(path)
        return jnp.asarray(path, float)
