"""Simulation of individuals that move, divide and die."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._method.flow import simulate_in_units
from stitchflow._stitching import defaults
from stitchflow._types import (
    KeyLike,
    as_cloud,
    as_groups,
    as_key,
    as_rng,
    as_times,
    as_weights,
)


def simulate_dividing(
    energy: Energy,
    units: Units,
    rate: Callable[[Any, float], Array],
    x0: Any,
    times: Any,
    key: KeyLike,
    weights: Any = None,
    groups: Any = None,
) -> Float[Array, "t n d"]:
    """Positions at `times` of individuals that follow the SDE, and divide and die along it.

    Their number stays constant, so that a row is not the same individual at all times.

    Arguments:
        energy: what moves them.
        units: the units of the energy.
        rate: birth minus death at points (n, d) and a time, in the user's units.
        x0: the positions (n, d) at the first time.
        times: when positions are returned.
        key: a JAX key or an integer seed.
        weights: the weight of each individual; None weighs all alike.
        groups: the group of each individual, in which it stays; None makes one population of all.
    """
    times, key, x = as_times(times), as_key(key), as_cloud(x0, "x0", units.dim)
    path, shares = [jnp.asarray(x, float)], as_weights(weights, len(x))
    labels = as_groups(groups, len(x))
    for i, (t0, t1) in enumerate(pairwise(times)):
        move, choose = jax.random.split(jax.random.fold_in(key, i))
        stops = np.linspace(t0, t1, defaults.GROWTH_STEPS + 1)
        way = simulate_in_units(energy, units, x, stops, move, False, shares, labels)
        looks = zip(way, stops, strict=True)
        rates = np.stack([np.asarray(rate(y, t)) for y, t in looks])
        gained = np.trapezoid(rates, stops, axis=0)
        x = way[-1][survivors_within(labels, gained, as_rng(choose), shares)]
        path.append(x)
    return jnp.stack(path)


def survivors(
    log_gain: np.ndarray, rng: np.random.Generator, weights: np.ndarray | None = None
) -> np.ndarray:
    """Row numbers of as many individuals as before, each repeated in proportion to its gain.

    This is stratified resampling. Rows keep their weights: row i represents a part of the
    population as large as its weight, and is replaced by the individual at a random place of that
    part, once weights are multiplied by gains.

    Arguments:
        log_gain: the logarithm of the factor by which each individual multiplies.
        rng: the random generator.
        weights: the weight of each row; None weighs all alike.
    """
    n = len(log_gain)
    share = np.exp(log_gain - log_gain.max())
    if weights is None:
        places = (np.arange(n) + rng.uniform(size=n)) / n
    else:
        share = share * weights
        places = (np.cumsum(weights) - weights * rng.uniform(size=n)) / weights.sum()
    passed = np.cumsum(share / share.sum())
    last = int(np.flatnonzero(share)[-1])
    return np.minimum(np.searchsorted(passed, places), last)


def survivors_within(
    labels: np.ndarray | None,
    log_gain: np.ndarray,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """`survivors` of each group apart, so that a row stays in its group.

    Arguments:
        labels: the group of each row; None makes one population of all.
        log_gain: as in `survivors`.
        rng: as in `survivors`.
        weights: as in `survivors`.
    """
    if labels is None:
        return survivors(log_gain, rng, weights)
    chosen = np.empty(len(log_gain), int)
    for name in np.unique(labels):
        own = np.flatnonzero(labels == name)
        shares = None if weights is None or not weights[own].any() else weights[own]
        chosen[own] = own[survivors(log_gain[own], rng, shares)]
    return chosen
