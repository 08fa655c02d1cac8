"""Who acts on whom in a population, and the distances and directions between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array


@dataclass(frozen=True)
class Neighbours:
    """Every pair of individuals that act on each other, once, and how much the others count.

    Arguments:
        first: the row of one individual of each pair, (p,).
        second: the row of the other one, (p,).
        on_first: the share of the second in the push on the first, (p,).
        on_second: the share of the first in the push on the second, (p,).
    """

    first: np.ndarray
    second: np.ndarray
    on_first: np.ndarray
    on_second: np.ndarray

    @staticmethod
    def within(groups: np.ndarray, weights: np.ndarray, totals: np.ndarray) -> Neighbours:
        """All pairs within a population.

        The push on an individual is (N - 1) / N times the mean over the others who were seen, where
        N counts those who were there.

        Arguments:
            groups: the population of each row as an integer, (n,).
            weights: how much each row counts, (n,).
            totals: how many individuals the population of each row had, (n,).
        """
        order = np.argsort(groups, kind="stable")
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        sizes = np.diff(np.append(starts, len(order)))
        found = []
        for size in np.unique(sizes):
            i, j = np.triu_indices(size, 1)
            rows = starts[sizes == size][:, None]
            found.append((order[(rows + i).ravel()], order[(rows + j).ravel()]))
        first, second = (np.concatenate(side) for side in zip(*found, strict=True))
        n = len(groups)
        others = np.bincount(first, weights[second], n) + np.bincount(second, weights[first], n)
        scale = (1.0 - 1.0 / totals) / np.maximum(others, 1e-300)
        return Neighbours(
            first, second, weights[second] * scale[first], weights[first] * scale[second]
        )


@dataclass(frozen=True)
class Geometry:
    """The distances and directions of all pairs of a population at some places.

    Arguments:
        pairs: who acts on whom.
        n: the number of individuals.
        r: the distance of each pair, (p,).
        e: the unit vector from the second to the first, (p, d).
    """

    pairs: Neighbours
    n: int
    r: np.ndarray
    e: np.ndarray

    @staticmethod
    def at(pairs: Neighbours, x: np.ndarray) -> Geometry:
        """The geometry of individuals at `x`, (n, d)."""
        z = x[pairs.first] - x[pairs.second]
        r = np.sqrt(np.einsum("pd,pd->p", z, z)) + 1e-9
        return Geometry(pairs, len(x), r, z / r[:, None])

    def total(self, values: np.ndarray, sign: float) -> np.ndarray:
        """The sum over pairs for each individual, (n, k); `sign` is what the second one gets."""
        out = np.empty((self.n, values.shape[1]))
        for k in range(values.shape[1]):
            out[:, k] = np.bincount(self.pairs.first, self.pairs.on_first * values[:, k], self.n)
            second = np.bincount(self.pairs.second, self.pairs.on_second * values[:, k], self.n)
            out[:, k] += sign * second
        return out

    def sources(self, force: np.ndarray) -> csr_array:
        """What each individual does to all others, (n, n d): the rows of those who push.

        Arguments:
            force: the push of each pair on its first individual, (p, d).
        """
        pairs, d = self.pairs, force.shape[1]
        rows, columns, values = [], [], []
        for a in range(d):
            rows += [pairs.second, pairs.first]
            columns += [pairs.first * d + a, pairs.second * d + a]
            values += [pairs.on_first * force[:, a], -pairs.on_second * force[:, a]]
        entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
        return csr_array(entries, shape=(self.n, self.n * d))
