"""Populations simulated from known energies: the paper's experiments.

Each function returns training individuals, held-out individuals and the energy that drove both.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._energy.simulate import simulate
from stitchflow._energy.terms import Entropy, Potential
from stitchflow._status import BadInput
from stitchflow._types import KeyLike, Scalar, as_key, as_rng
from stitchflow.datasets._potentials import POTENTIALS, wavy_valley_potential


class Simulated(NamedTuple):
    """A simulated experiment with the energy that generated it."""

    train: Snapshots
    test: Snapshots
    energy: Energy


def synthetic(
    name: str, *, paired: bool = True, euler: bool = False, n: int = 2000, key: KeyLike = 0
) -> Simulated:
    """A potential of the synthetic benchmark: an ODE from U[-4, 4]^2, six snapshots 0.01 apart.

    Without `paired`, every snapshot shows different individuals. `euler` takes one Euler step for
    each gap, as in the published tables. Half of the individuals are held out.
    """
    if name not in POTENTIALS:
        raise BadInput(f"name must be one of {', '.join(POTENTIALS)}; got {name!r}")
    energy = Energy.known(Potential(POTENTIALS[name]), 2)
    times = 0.01 * np.arange(6)
    rng = as_rng(key)
    x0 = rng.uniform(-4.0, 4.0, size=(n if paired else n * len(times), 2))
    if euler:
        path = [x0]
        for step in np.diff(times):
            path.append(path[-1] + step * np.asarray(energy.force(path[-1]), np.float64))
        path = np.stack(path)
    else:
        with jax.enable_x64(True):  # steep potentials need more than single precision
            exact = Energy.known(Potential(POTENTIALS[name]), 2)
            path = np.asarray(simulate(exact, jnp.asarray(x0), times, as_key(0), ode=True))
    clouds = path if paired else [path[k, k * n : (k + 1) * n] for k in range(len(times))]
    data = Snapshots.from_arrays(list(clouds), times, paired=paired)
    return Simulated(*data.split(0.5, key=key), energy)


def wavy_valley(
    *, tilt: float = 0.3, beta: float = 0.00625, n: int = 40, key: KeyLike = 0
) -> Simulated:
    """Paired particles along a sinusoidal valley at t = 0, 5, 10, 20, 30; half are held out."""
    energy = Energy.known(Potential(wavy_valley_potential(tilt)) + Entropy(beta, learn=False), 2)
    start, path = jax.random.split(as_key(key))
    x0 = jnp.asarray([[-3.0, 1.0]]) + 0.1 * jax.random.normal(start, (n, 2))
    times = np.array([0.0, 5.0, 10.0, 20.0, 30.0])
    clouds = np.asarray(simulate(energy, x0, times, path))
    data = Snapshots.from_arrays(list(clouds), times, paired=True)
    return Simulated(*data.split(0.5, key=key), energy)


def line_wells(regime: str, *, n: int = 1000, key: KeyLike = 0) -> Simulated:
    """V = (|x| - 7)^2 / 2 in one dimension, beta 1, from N(0, 1) over t in [0, 4].

    `regime`: "dense" (20 snapshots), "terminal" (the first and the last), "trickle" (1,000
    snapshots of 10 particles). Half of the particles are held out and observed at twenty times.
    """
    grids = {
        "dense": np.linspace(0.0, 4.0, 20),
        "terminal": np.array([0.0, 4.0]),
        "trickle": np.linspace(0.0, 4.0, 1000),
    }
    if regime not in grids:
        raise BadInput(f"regime must be one of {', '.join(grids)}; got {regime!r}")
    times = grids[regime]
    energy = Energy.known(
        Potential(lambda x: 0.5 * (jnp.abs(x[0]) - 7.0) ** 2) + Entropy(1.0, learn=False), 1
    )
    start, path = jax.random.split(as_key(key))
    # Scores use twenty times whatever times the fit uses.
    judged = np.unique(np.abs(times[None, :] - grids["dense"][:, None]).argmin(axis=1))
    everything = times if regime != "terminal" else grids["dense"]
    clouds = np.asarray(simulate(energy, jax.random.normal(start, (n, 1)), everything, path))
    order = as_rng(key).permutation(n)
    seen, held = order[: n // 2], order[n // 2 :]
    rng = as_rng(key)
    if regime == "terminal":
        train = Snapshots.from_arrays([clouds[0, seen], clouds[-1, seen]], times)
        return Simulated(train, Snapshots.from_arrays(list(clouds[:, held]), everything), energy)
    shown = [
        cloud[rng.permutation(seen)[:10]] if regime == "trickle" else cloud[seen]
        for cloud in clouds
    ]
    train = Snapshots.from_arrays(shown, times)
    test = Snapshots.from_arrays([clouds[k, held] for k in judged], times[judged])
    return Simulated(train, test, energy)


# One unit of the CIS file's time (a snapshot index) in the time of the paper's equations: with it
# the mean radius of the file's population is 1.44, 1.69 and 1.93 at t = 5, 10 and 20.
CIS_TIME = 0.087

# The variance sigma^2 that the noise adds in one unit of the paper's time. The paper prints 0.045
# as sigma, but the squared increments of the file's particles agree with sigma^2 = 0.045: they
# measure beta = 0.0018 to 0.0021 an index by direction and method, and half of
# CIS_TIME * CIS_NOISE is 0.00196.
CIS_NOISE = 0.045


def cis_energy(unit: float = CIS_TIME) -> Energy:
    """Mexican hat and Gaussian attraction, in units where one snapshot of the file is one time.

    The velocity of the paper's equations is multiplied by `unit`, and with it V, W and beta alike.
    """
    return Energy.known(
        Potential(lambda x: unit * 0.1 * ((x**2).sum() - 4.0) ** 2)
        + Interaction(lambda r: unit * -2.2 * jnp.exp(-(r**2)))
        + Entropy(unit * 0.5 * CIS_NOISE, learn=False),
        2,
    )


def morse(r: Scalar) -> Scalar:
    """The generalised Morse potential of the chiral system."""
    return jnp.exp(-r / 0.5) - 0.375 * jnp.exp(-r / 1.5)


def chiral_kernel(z: Float[Array, " d"]) -> Float[Array, " d"]:
    r"""$K = 0.2\,(-\nabla W) + 1.5\,R_{\pi/2}(-\nabla W)$, W of Morse (eq:chiral_kernel_def)."""
    r = jnp.sqrt((z**2).sum() + 1e-12)
    push = -jax.grad(morse)(r) * z / r
    return 0.2 * push + 1.5 * jnp.stack([-push[1], push[0]])


def chiral_energy() -> Energy:
    """The chiral system: a vector kernel and nothing else."""
    return Energy.known(VectorKernel(chiral_kernel), 2)


def chiral(*, snapshots: int = 1601, n: int = 500, key: KeyLike = 0) -> Simulated:
    """Two horizontal blobs that orbit each other over t in [0, 800]; half are held out."""
    energy = chiral_energy()
    rng = as_rng(key)
    x0 = rng.normal(size=(n, 2)) * [1.5, 0.2] + np.where(np.arange(n)[:, None] % 2, [0, 2], [0, -2])
    times = np.linspace(0.0, 800.0, snapshots)
    clouds = np.asarray(simulate(energy, jnp.asarray(x0, float), times, as_key(key), ode=True))
    order = rng.permutation(n)  # split by particle; ids are not passed on
    half = lambda rows: Snapshots.from_arrays(list(clouds[:, rows]), times)
    return Simulated(half(order[0::2]), half(order[1::2]), energy)
