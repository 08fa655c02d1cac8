"""Two wells along the first axis, a bowl along the others."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.simulate import simulate
from stitchflow._energy.terms import Entropy, Potential
from stitchflow._types import KeyLike, Scalar, as_key


def double_well_potential(x: Float[Array, " d"]) -> Scalar:
    r"""$V(x) = (x_1^2 - 1)^2 + \sum_{i>1} x_i^2$ at one point."""
    return (x[0] ** 2 - 1.0) ** 2 + (x[1:] ** 2).sum()


def double_well(
    dim: int = 2,
    n: int = 300,
    times: Sequence[float] = (0.0, 0.2, 0.4, 0.7, 1.0, 1.5),
    beta: float = 0.1,
    key: KeyLike = 0,
) -> tuple[Snapshots, Energy]:
    """Snapshots of a population that starts on the ridge, and the energy that drove it.

    Every snapshot shows different individuals.
    """
    energy = Energy.known(Potential(double_well_potential) + Entropy(beta, learn=False), dim)
    start_key, path_key = jax.random.split(as_key(key))
    x0 = 0.5 * jax.random.normal(start_key, (n * len(times), dim))
    x0 = x0 * jnp.asarray([0.5] + [2.0] * (dim - 1))[None, :]
    path = np.asarray(simulate(energy, x0, np.asarray(times), path_key))
    clouds = [path[k, k * n : (k + 1) * n] for k in range(len(times))]
    return Snapshots.from_arrays(clouds, times), energy
