"""What a perfect model would answer: the true energy and a population that it drove."""

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

    Without noise there is one path from each start, and it is found to the tolerance that the data
    was simulated with: otherwise a good method would come below what a perfect one is said to
    score.
    """

    def __init__(self, energy: Energy, population: Snapshots):
        super().__init__("oracle", energy, population)

    def simulate(
        self, x0: Any, times: Any, key: KeyLike = 0, *, weights: Any = None, ode: bool = False
    ) -> Float[Array, "t n d"]:
        exact = not self.energy.only(Entropy)
        with jax.enable_x64(exact):
            path = super().simulate(x0, times, key, weights=weights, ode=ode or exact)
            path = np.asarray(path)
        return jnp.asarray(path, float)
