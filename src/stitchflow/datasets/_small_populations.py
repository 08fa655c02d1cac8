"""Many small populations with the same energy: the models of Wei and Lu (arXiv 2604.02581)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction
from stitchflow._energy.terms import Entropy, Potential
from stitchflow._status import BadInput
from stitchflow._types import KeyLike, as_key, as_rng
from stitchflow.datasets._simulated import Simulated

Distances = Float[Array, "..."]
BETA = 0.5  # sigma is 1
EDGE = 0.05  # width of the edges of model A
STEP = 0.001  # of the Euler scheme


def _confinement(r: Distances) -> Distances:
    return -0.5 * r + 2.0 * r**2


def _shells(r: Distances) -> Distances:
    """A: -3 between 0.5 and 1, 2 between 1 and 2, and 0 elsewhere, with smooth edges."""
    rise = lambda at: 0.5 * (1.0 + jnp.tanh((r - at) / EDGE))
    return -3.0 * (rise(0.5) - rise(1.0)) + 2.0 * (rise(1.0) - rise(2.0))


def _bumps(r: Distances) -> Distances:
    """E: a well at 0.75 and a hill at 1.5."""
    bump = lambda at, width: jnp.exp(-0.5 * ((r - at) / width) ** 2)
    return -3.0 * bump(0.75, 0.125) + 2.0 * bump(1.5, 0.25)


MODELS: dict[str, Callable[[Distances], Distances]] = {"A": _shells, "E": _bumps}


def populations_energy(model: str) -> Energy:
    r"""The energy of `populations`: $V(x) = -|x|/2 + 2|x|^2$, a radial W, and $\beta = 1/2$.

    Arguments:
        model: "A", where W has steps (-3 for r between 0.5 and 1, 2 between 1 and 2, with edges of
            width 0.05), or "E", where it is the sum of a Gaussian well and a Gaussian hill.

    Returns:
        The energy in two dimensions, ready to simulate.

    Examples:
        >>> energy = sf.datasets.populations_energy("A")
        >>> [round(float(w), 3) for w in energy.interaction([0.75, 1.5])]
        [-3.0, 2.0]
    """
    _check(model)
    return Energy.known(
        Potential(lambda x: _confinement(jnp.sqrt((x**2).sum() + 1e-12)))
        + Interaction(MODELS[model])
        + Entropy(BETA, learn=False),
        2,
    )


def populations(
    model: str,
    *,
    dt: float = 0.01,
    snapshots: int = 100,
    count: int = 2000,
    members: int = 10,
    key: KeyLike = 0,
) -> Simulated:
    r"""Many small populations that do not feel each other, whose members interact.

    A member moves by $dX_i = -\nabla V(X_i)\,dt - \frac1N\sum_{j\ne i}\nabla W(X_i - X_j)\,dt + dB$
    with the N members of its population, from a start at 0.5 times a standard normal, in Euler
    steps of 0.001. Populations are told apart by their group; members are not followed. All
    populations train, and a tenth as many of another simulation are held out.

    Arguments:
        model: "A" or "E", as in `populations_energy`.
        dt: the time between snapshots, a multiple of 0.001.
        snapshots: the number of observed times.
        count: the number of training populations.
        members: how many individuals a population has.
        key: an integer seed or a JAX key.

    Returns:
        Training data, held-out data and the energy.

    Examples:
        >>> train, test, energy = sf.datasets.populations("E", snapshots=3, count=20)
        >>> train.counts.tolist(), test.counts.tolist(), len(set(train.groups.tolist()))
        ([200, 200, 200], [20, 20, 20], 20)
    """
    _check(model)
    steps = round(dt / STEP)
    if steps < 1 or abs(steps * STEP - dt) > 1e-9:
        raise BadInput(f"dt must be a multiple of {STEP:g}, got {dt:g}")
    times, held = dt * np.arange(snapshots), -(-count // 10)
    train_key, test_key = jax.random.split(as_key(key))
    parts, first = [], 0
    for number, own_key in ((count, train_key), (held, test_key)):
        path = np.asarray(_simulate(model, number, members, steps, snapshots, own_key))
        parts.append(_snapshots(path, times, first, own_key))
        first += number
    train, test = parts
    return Simulated(train, test, populations_energy(model))


def _check(model: str) -> None:
    if model not in MODELS:
        raise BadInput(f"model must be one of {', '.join(MODELS)}; got {model!r}")


def _snapshots(
    path: Float[np.ndarray, "t n d s"], times: np.ndarray, first: int, key: Array
) -> Snapshots:
    """Populations numbered from `first`, their members in another order at every time."""
    count, rng = path.shape[3], as_rng(key)
    clouds = path.transpose(0, 3, 1, 2)  # (time, population, member, dim)
    order = rng.permuted(np.broadcast_to(np.arange(path.shape[1]), clouds.shape[:3]), axis=2)
    x = np.take_along_axis(clouds, order[..., None], axis=2).reshape(-1, path.shape[2])
    groups = np.repeat(first + np.arange(count), path.shape[1])
    return Snapshots.from_table(
        x, np.repeat(times, len(groups)), groups=np.tile(groups, len(times))
    )


# The axis of populations is the last one: the few members of each would leave vector units idle.
@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _simulate(
    model: str, count: int, members: int, steps: int, snapshots: int, key: Array
) -> Float[Array, "t n d s"]:
    slope = jax.grad(lambda r: MODELS[model](r).sum())
    confining = jax.grad(lambda r: _confinement(r).sum())
    start, noise = jax.random.split(key)
    x0 = 0.5 * jax.random.normal(start, (members, 2, count))
    self_pair = jnp.eye(members)[:, :, None]

    def drift(x: Array) -> Array:
        z = x[:, None] - x[None, :]
        r = jnp.sqrt((z**2).sum(2) + self_pair)
        pull = (slope(r) * (1.0 - self_pair) / r)[:, :, None] * z
        radius = jnp.sqrt((x**2).sum(1, keepdims=True) + 1e-12)
        return -confining(radius) * x / radius - pull.sum(1) / members

    def step(x: Array, number: Array) -> tuple[Array, None]:
        kick = jax.random.normal(jax.random.fold_in(noise, number), x.shape)
        return x + STEP * drift(x) + jnp.sqrt(2.0 * BETA * STEP) * kick, None

    def gap(x: Array, k: Array) -> tuple[Array, Array]:
        moved = jax.lax.scan(step, x, k * steps + jnp.arange(steps))[0]
        return moved, x

    return jax.lax.scan(gap, x0, jnp.arange(snapshots))[1]
