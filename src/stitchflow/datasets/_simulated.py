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
from stitchflow.datasets._potentials import POTENTIALS, quadratic, wavy_valley_potential


class Simulated(NamedTuple):
    """A simulated experiment with the energy that generated it.

    Arguments:
        train: the snapshots to fit.
        test: snapshots of other individuals of the same populations, for scores.
        energy: the true energy, with which a fit can be compared.
    """

    train: Snapshots
    test: Snapshots
    energy: Energy


def synthetic(
    name: str, *, paired: bool = True, euler: bool = False, n: int = 2000, key: KeyLike = 0
) -> Simulated:
    """A population that follows one of the fifteen potentials of the synthetic benchmark.

    Individuals start uniformly in the square from -4 to 4 and follow minus the gradient of V
    without noise. There are six snapshots, 0.01 apart. Half of the individuals are held out.

    Arguments:
        name: the potential, a key of `POTENTIALS`.
        paired: whether all snapshots show the same individuals; otherwise each shows different
            ones.
        euler: whether one Euler step is made for each gap, as in the published tables; otherwise
            the ODE is solved accurately.
        n: the number of individuals of each snapshot, training and held out together.
        key: an integer seed or a JAX key.

    Returns:
        Training data, held-out data and the energy.

    Examples:
        >>> found = sf.datasets.synthetic("styblinski_tang", euler=True, n=20)      # doctest: +SKIP
        >>> found.train                                                             # doctest: +SKIP
        Snapshots(6 times from 0 to 0.05, 60 individuals, 2 dimensions)
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


def three_marginals(name: str, *, beta: float = 0.1, n: int = 2000, key: KeyLike = 0) -> Simulated:
    """The same individuals at three close times, not followed: t = 0, 0.01 and 0.02.

    They start uniformly in the square from -4 to 4 and follow one of the potentials of the
    synthetic benchmark, or "quadratic" (V = 5|x|^2), with noise. All of them train; the individuals
    of another simulation are held out.

    Arguments:
        name: "quadratic" or a key of `POTENTIALS`.
        beta: the coefficient of the entropy, half the variance that noise adds per unit of time.
        n: the number of training individuals.
        key: an integer seed or a JAX key.

    Returns:
        Training data, held-out data and the energy.

    Examples:
        >>> train, test, energy = sf.datasets.three_marginals("quadratic", n=50)
        >>> train.counts.tolist(), train.paired, round(energy.beta, 3)
        ([50, 50, 50], False, 0.1)
    """
    known = {"quadratic": quadratic, **POTENTIALS}
    if name not in known:
        raise BadInput(f"name must be one of {', '.join(known)}; got {name!r}")
    energy = Energy.known(Potential(known[name]) + Entropy(beta, learn=False), 2)
    train, test = (_shuffled_marginals(energy, n, own) for own in jax.random.split(as_key(key)))
    return Simulated(train, test, energy)


def _shuffled_marginals(energy: Energy, n: int, key: Array) -> Snapshots:
    rng, shown = as_rng(key), 20
    x0 = jnp.asarray(rng.uniform(-4.0, 4.0, size=(n, 2)), float)
    # Steep potentials bend within a gap: it is simulated in twenty pieces at least.
    path = np.asarray(simulate(energy, x0, np.linspace(0.0, 0.02, 2 * shown + 1), key))[::shown]
    return Snapshots.from_arrays([rng.permutation(cloud) for cloud in path], [0.0, 0.01, 0.02])


def wavy_valley(
    *, tilt: float = 0.3, beta: float = 0.00625, n: int = 40, key: KeyLike = 0
) -> Simulated:
    """Particles that follow a sinusoidal valley, observed at t = 0, 5, 10, 20 and 30.

    All snapshots show the same particles, known by their ids. Half of the particles are held out.

    Arguments:
        tilt: the slope along the valley, as in `wavy_valley_potential`.
        beta: the coefficient of the entropy, half the variance that noise adds per unit of time.
        n: the number of particles, training and held out together.
        key: an integer seed or a JAX key.

    Returns:
        Training data, held-out data and the energy.
    """
    energy = Energy.known(Potential(wavy_valley_potential(tilt)) + Entropy(beta, learn=False), 2)
    start, path = jax.random.split(as_key(key))
    x0 = jnp.asarray([[-3.0, 1.0]]) + 0.1 * jax.random.normal(start, (n, 2))
    times = np.array([0.0, 5.0, 10.0, 20.0, 30.0])
    clouds = np.asarray(simulate(energy, x0, times, path))
    data = Snapshots.from_arrays(list(clouds), times, paired=True)
    return Simulated(*data.split(0.5, key=key), energy)


def line_wells(regime: str, *, n: int = 1000, key: KeyLike = 0) -> Simulated:
    """A population that leaves the middle of two wells on a line, $V(x) = (|x| - 7)^2/2$.

    It starts at N(0, 1), has the entropy coefficient 1 and is followed over t from 0 to 4. Half of
    the particles are held out and observed at twenty times, whatever the regime.

    Arguments:
        regime: what is observed for training. "dense": 20 snapshots; "terminal": the first and the
            last of them; "trickle": 1,000 snapshots of 10 particles each.
        n: the number of particles, training and held out together.
        key: an integer seed or a JAX key.

    Returns:
        Training data, held-out data and the energy.
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
    r"""The energy of the paper's interacting particles: Mexican hat, attraction and noise.

    $V(x) = 0.1\,(|x|^2 - 4)^2$, $W(r) = -2.2\,e^{-r^2}$ and $\beta = 0.0225$, each times `unit`.

    Arguments:
        unit: the duration between two snapshots in the time of the paper's equations; with the
            default one snapshot of the file is one unit of time.

    Returns:
        The energy in two dimensions, ready to simulate.

    Examples:
        >>> energy = sf.datasets.cis_energy(unit=1.0)
        >>> round(float(energy.beta), 4)
        0.0225
    """
    return Energy.known(
        Potential(lambda x: unit * 0.1 * ((x**2).sum() - 4.0) ** 2)
        + Interaction(lambda r: unit * -2.2 * jnp.exp(-(r**2)))
        + Entropy(unit * 0.5 * CIS_NOISE, learn=False),
        2,
    )


def morse(r: Scalar) -> Scalar:
    r"""The generalised Morse potential of the chiral system, $e^{-2r} - 0.375\,e^{-r/1.5}$.

    Arguments:
        r: a distance.

    Returns:
        W at the distance.
    """
    return jnp.exp(-r / 0.5) - 0.375 * jnp.exp(-r / 1.5)


def chiral_kernel(z: Float[Array, " d"]) -> Float[Array, " d"]:
    r"""The vector kernel of the chiral system (eq:chiral_kernel_def).

    $K = 0.2\,(-\nabla W) + 1.5\,R_{\pi/2}(-\nabla W)$

    W is a generalised Morse potential, and $R_{\pi/2}$ rotates by a right angle, so that this part
    is not the gradient of an energy.

    Arguments:
        z: the displacement of a particle from another one, (2,).

    Returns:
        The velocity that the other particle gives it, (2,).
    """
    r = jnp.sqrt((z**2).sum() + 1e-12)
    push = -jax.grad(morse)(r) * z / r
    return 0.2 * push + 1.5 * jnp.stack([-push[1], push[0]])


def chiral_energy() -> Energy:
    """The energy of the chiral system, which consists of `chiral_kernel` alone.

    Returns:
        The energy in two dimensions, ready to simulate.
    """
    return Energy.known(VectorKernel(chiral_kernel), 2)


def chiral(
    *, snapshots: int = 1601, n: int = 500, split: bool = True, key: KeyLike = 0
) -> Simulated:
    """Two horizontal clusters of particles that orbit each other over t from 0 to 800.

    Half of the particles are held out; both halves say how many interact in all.

    Arguments:
        snapshots: how many evenly spaced times are observed.
        n: the number of particles, training and held out together.
        split: whether half of the particles are held out; otherwise all of them train, and those of
            another simulation are held out.
        key: an integer seed or a JAX key.

    Returns:
        Training data, held-out data and the energy.
    """
    if not split:
        keys = jax.random.split(as_key(key))
        train, test = (chiral(snapshots=snapshots, n=n, key=own) for own in keys)
        return Simulated(_whole(train), _whole(test), train.energy)
    energy = chiral_energy()
    rng = as_rng(key)
    x0 = rng.normal(size=(n, 2)) * [1.5, 0.2] + np.where(np.arange(n)[:, None] % 2, [0, 2], [0, -2])
    times = np.linspace(0.0, 800.0, snapshots)
    clouds = np.asarray(simulate(energy, jnp.asarray(x0, float), times, as_key(key), ode=True))
    order = rng.permutation(n)  # split by particle; ids are not passed on
    half = lambda rows: Snapshots.from_arrays(list(clouds[:, rows]), times, total=n)
    return Simulated(half(order[0::2]), half(order[1::2]), energy)


def _whole(parts: Simulated) -> Snapshots:
    """Both parts of a simulation in one table."""
    sides = (parts.train, parts.test)
    x = np.concatenate([side.x for side in sides])
    return Snapshots.from_table(x, np.concatenate([side.times[side.index] for side in sides]))
