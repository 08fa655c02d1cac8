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
    r"""The potential $V(x) = (x_1^2 - 1)^2 + \sum_{i>1} x_i^2$ at one point.

    Arguments:
        x: the point, (dim,).

    Returns:
        V at the point.

    Examples:
        >>> import jax.numpy as jnp
        >>> float(sf.datasets.double_well_potential(jnp.array([0.0, 2.0])))
        5.0
    """
    return (x[0] ** 2 - 1.0) ** 2 + (x[1:] ** 2).sum()


def double_well(
    dim: int = 2,
    n: int = 300,
    times: Sequence[float] = (0.0, 0.2, 0.4, 0.7, 1.0, 1.5),
    beta: float = 0.1,
    key: KeyLike = 0,
) -> tuple[Snapshots, Energy]:
    r"""Snapshots of a population that starts on the ridge between two wells, and its energy.

    The population follows $dX = -\nabla V(X)\,dt + \sqrt{2\beta}\,dB$ with the potential of
    `double_well_potential`. Every snapshot shows different individuals.

    Arguments:
        dim: the number of dimensions; the wells are along the first one.
        n: the number of individuals of each snapshot.
        times: the observed times, increasing from the start.
        beta: the coefficient of the entropy, half the variance that noise adds per unit of time.
        key: an integer seed or a JAX key.

    Returns:
        The snapshots, and the energy that drove the population.

    Examples:
        >>> data, energy = sf.datasets.double_well(n=100)        # doctest: +SKIP
        >>> data                                                  # doctest: +SKIP
        Snapshots(6 times from 0 to 1.5, 600 individuals, 2 dimensions)
    """
    energy = Energy.known(Potential(double_well_potential) + Entropy(beta, learn=False), dim)
    start_key, path_key = jax.random.split(as_key(key))
    x0 = 0.5 * jax.random.normal(start_key, (n * len(times), dim))
    x0 = x0 * jnp.asarray([0.5] + [2.0] * (dim - 1))[None, :]
    path = np.asarray(simulate(energy, x0, np.asarray(times), path_key))
    clouds = [path[k, k * n : (k + 1) * n] for k in range(len(times))]
    return Snapshots.from_arrays(clouds, times), energy
