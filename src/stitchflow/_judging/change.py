"""Tests before any model: did the population change, and must individuals have moved?

Both tests use the individuals alone. Their statistics are energy distances, which have no width to
choose. The numbers of individuals and of stretches of time that enter are bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import nchypergeom_fisher

from stitchflow._data.snapshots import Snapshots
from stitchflow._types import KeyLike, as_rng

# The significance level: chance alone gives such evidence in less than one of twenty data sets.
LEVEL = 0.05

# Individuals that are used at most: their distances take 32 MB.
MOST = 2000

# Consecutive snapshots are joined to stretches of this many individuals, because a few individuals
# cannot show motion. There are at least five stretches, so that motion is visible, and at most ten.
JOINED, FEWEST, STRETCHES = 200, 5, 10
PERMUTATIONS = 199  # p-values in steps of 0.005, a tenth of the level

# Six doublings. Without motion, one place may gain this much on another over the whole time: 11 %
# of the population may become 89 %. A bound is needed, because growth without one makes a normal
# distribution from the tail of any other. A place that gains more than this without motion has to
# be described by weights or by `Growth`.
MOST_GAINED = 64.0

# The places of most gain contain a third of the later individuals, and those of most loss a third
# of the first: with fewer the shares are noisy, with more they are alike.
COMPARED = 1.0 / 3.0
FOLDS = 10


class Change(NamedTuple):
    """The p-values of two hypotheses about the snapshots.

    Arguments:
        rest: the p-value of "all snapshots show one distribution".
        in_place: the p-value of "no individual moves, and no place gains more than 64 times as much
            as another".

    >>> Change(rest=0.005, in_place=0.4).changed, Change(rest=0.005, in_place=0.4).moved
    (True, False)
    """

    rest: float
    in_place: float

    @property
    def changed(self) -> bool:
        """Whether the snapshots differ by more than sampling noise."""
        return self.rest <= LEVEL

    @property
    def moved(self) -> bool:
        """Whether individuals must have moved."""
        return self.changed and self.in_place <= LEVEL


def change(data: Snapshots, key: KeyLike = 0) -> Change:
    """Test whether a population changed and whether individuals must have moved.

    Where every individual is followed over all times, nobody appears or disappears, so that any
    change of the population is motion.

    Arguments:
        data: the snapshots; weights are taken into account.
        key: a JAX key or an integer seed of the permutations.

    Returns:
        Two p-values.

    >>> change(data).moved                               # doctest: +SKIP
    """
    rng = as_rng(key)
    if len(data) < 2:
        return Change(1.0, 1.0)
    if data.paired:
        cloud = _Cloud.followed(data, rng)
        times, n = cloud.stretch[-1] + 1, int((cloud.stretch == 0).sum())
        # The times of each individual are permuted.
        own = np.tile(np.arange(times), (n, 1))
        shuffle = lambda: (rng.permuted(own, axis=1).T * n + np.arange(n)).ravel()
        return Change(_rest(cloud, shuffle), 0.0)
    cloud = _Cloud.of(data, rng)
    # The individuals of all times are permuted.
    rest = _rest(cloud, lambda: rng.permutation(len(cloud.stretch)))
    return Change(rest, _in_place(cloud, rng))


class _Cloud(NamedTuple):
    """Individuals with their weights, stretches of time and mutual distances."""

    weights: np.ndarray
    stretch: np.ndarray  # sorted
    distances: np.ndarray

    @staticmethod
    def of(data: Snapshots, rng: np.random.Generator) -> _Cloud:
        """A random part of the individuals of each stretch."""
        number, each = int(np.clip(len(data.x) // JOINED, FEWEST, STRETCHES)), np.arange(len(data))
        if len(data) > number:
            middle = (np.cumsum(data.counts) - 0.5 * data.counts) / len(data.x)
            each = np.unique((middle * number).astype(int), return_inverse=True)[1]
        stretch, number = each[data.index], each[-1] + 1
        rows = [np.flatnonzero((stretch == k) & (data.weights > 0)) for k in range(number)]
        rows = np.concatenate([rng.permutation(own)[: MOST // number] for own in rows])
        return _Cloud.at(data, rows, stretch[rows])

    @staticmethod
    def followed(data: Snapshots, rng: np.random.Generator) -> _Cloud:
        """A random part of the individuals, in the same order at each of some times."""
        assert data.ids is not None
        table = np.lexsort((data.ids, data.index)).reshape(len(data), -1)
        table = table[np.unique(np.linspace(0, len(data) - 1, STRETCHES).round().astype(int))]
        table = table[:, rng.permutation(table.shape[1])[: MOST // len(table)]]
        return _Cloud.at(data, table.ravel(), np.repeat(np.arange(len(table)), table.shape[1]))

    @staticmethod
    def at(data: Snapshots, rows: np.ndarray, stretch: np.ndarray) -> _Cloud:
        x = np.asarray(data.x[rows], np.float64)
        return _Cloud(data.weights[rows], stretch, cdist(x, x))


def _rest(cloud: _Cloud, shuffle: Callable[[], np.ndarray]) -> float:
    """The p-value of one distribution at all times, by random permutations of individuals."""
    ends = np.searchsorted(cloud.stretch, np.arange(1, cloud.stretch[-1] + 1))

    def within(order: np.ndarray) -> float:
        return sum(_dispersion(cloud, part) for part in np.split(order, ends))

    found = within(np.arange(len(cloud.stretch)))
    chance = np.array([within(shuffle()) for _ in range(PERMUTATIONS)])
    # Sums in another order differ in their last digits; equal sums count as chance.
    return float((1 + (chance <= found + 1e-12 * abs(found)).sum()) / (1 + PERMUTATIONS))


def _dispersion(cloud: _Cloud, rows: np.ndarray) -> float:
    r"""$\sum_{ij} w_i w_j |x_i - x_j| / \sum_i w_i$ over some individuals.

    The sum over stretches falls short of the dispersion of all individuals by the weighted sum of
    the energy distances between all pairs of stretches: the smaller it is, the more they differ.
    """
    w = cloud.weights[rows]
    return float(w @ cloud.distances[np.ix_(rows, rows)] @ w / max(w.sum(), 1e-300))


def _in_place(cloud: _Cloud, rng: np.random.Generator) -> float:
    """The p-value of growth in place: no part of space gains more than is allowed on another.

    Where proportions change by a density ratio r(x) and individuals do not move, the odds of two
    sets of places change by at most the largest r over the smallest. The sets are those where the
    witness of the energy distance is largest and smallest, between the first stretch and the one
    that differs most from it. Both are found without the tenth of the individuals that are then
    counted in them.
    """
    fold = np.empty(len(cloud.stretch), int)
    for k in range(cloud.stretch[-1] + 1):
        own = np.flatnonzero(cloud.stretch == k)
        fold[own] = rng.permutation(len(own)) % FOLDS
    counts = np.zeros((2, 2))
    for f in range(FOLDS):
        counts += _counted(cloud, fold != f, fold == f)
    (gained, lost), (had, kept) = np.rint(counts).astype(int)
    later, first = gained + lost, had + kept
    if not (later and first):
        return 1.0
    return float(nchypergeom_fisher.sf(gained - 1, later + first, gained + had, later, MOST_GAINED))


def _counted(cloud: _Cloud, known: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """How many of the asked, later and first, are in the places of most gain and most loss."""
    stretches = [cloud.weights * (cloud.stretch == k) for k in range(cloud.stretch[-1] + 1)]
    shares = np.stack([_shares(own * known) for own in stretches])
    means = shares @ cloud.distances  # from each stretch to each individual
    pairs = means @ shares.T
    apart = 2.0 * pairs[0] - pairs[0, 0] - np.diag(pairs)
    far = 1 + int(apart[1:].argmax())
    witness = means[0] - means[far]  # large near the later individuals
    gained = _quantile(witness, shares[far], 1.0 - COMPARED)
    lost = _quantile(witness, shares[0], COMPARED)
    table = np.empty((2, 2))
    for row, k in enumerate((far, 0)):
        # Kish's effective number of individuals with unequal weights.
        effective = stretches[k].sum() ** 2 / (stretches[k] @ stretches[k])
        counted = effective * _shares(stretches[k]) * asked
        table[row] = (
            counted[witness >= max(gained, lost)].sum(),
            counted[witness < min(gained, lost)].sum(),
        )
    return table


def _shares(weights: np.ndarray) -> np.ndarray:
    return weights / max(weights.sum(), 1e-300)


def _quantile(values: np.ndarray, weights: np.ndarray, level: float) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) >= level * weights.sum()
    return float(values[order][np.argmax(reached)])
