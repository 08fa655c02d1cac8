"""Who acts on whom in a population, and the distances and directions between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Neighbours:
    """Every pair of individuals that act on each other, once, and how much the others count.

    Arguments:
        first: the row of one individual of each pair, (p,).
        second: the row of the other one, (p,).
        on_first: the share of the second in the push on the first, (p,).
        on_second: the share of the first in the push on the second, (p,).
        members: the rows of all populations of one size, (populations, size), for each size. Pairs
            are in this order.
        unseen: the share of those who act on an individual that was not seen, (n,).
    """

    first: np.ndarray
    second: np.ndarray
    on_first: np.ndarray
    on_second: np.ndarray
    members: tuple[np.ndarray, ...]
    unseen: np.ndarray

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
        members = tuple(
            order[starts[sizes == size][:, None] + np.arange(size)] for size in np.unique(sizes)
        )
        found = []
        for rows in members:
            i, j = np.triu_indices(rows.shape[1], 1)
            found.append((rows[:, i].ravel(), rows[:, j].ravel()))
        first, second = (np.concatenate(side) for side in zip(*found, strict=True))
        n, seen = len(groups), np.bincount(groups)[groups]
        others = np.bincount(first, weights[second], n) + np.bincount(second, weights[first], n)
        scale = (1.0 - 1.0 / totals) / np.maximum(others, 1e-300)
        on_first, on_second = weights[second] * scale[first], weights[first] * scale[second]
        # The others who were seen are a draw without replacement of the others who were there.
        unseen = 1.0 - (seen - 1.0) / np.maximum(totals - 1.0, 1.0)
        return Neighbours(first, second, on_first, on_second, members, unseen)

    @property
    def hides(self) -> bool:
        """Whether somebody was there who was not seen."""
        return bool((self.unseen > 0.0).any())

    def centred(self, values: np.ndarray) -> np.ndarray:
        """Values of individuals (n, k) minus the mean of their population."""
        out = np.empty_like(values)
        for rows in self.members:
            out[rows] = values[rows] - values[rows].mean(axis=1, keepdims=True)
        return out

    def between(self, of_source: np.ndarray, of_target: np.ndarray) -> tuple[np.ndarray, ...]:
        """Sums of products for every pair: of the second as the source, and of the first, (p, d).

        Arguments:
            of_source: (n, k).
            of_target: (n, d, k).
        """
        on_first, on_second = [], []
        for rows in self.members:
            target = of_target[rows]
            both = np.einsum("gjk,gidk->gjid", of_source[rows], target, optimize=True)
            i, j = np.triu_indices(rows.shape[1], 1)
            on_first.append(both[:, j, i].reshape(-1, target.shape[2]))
            on_second.append(both[:, i, j].reshape(-1, target.shape[2]))
        return np.concatenate(on_first), np.concatenate(on_second)

    def by_source(self, on_first: np.ndarray, of_target: np.ndarray) -> np.ndarray:
        """What each individual does to all others, through functions of those, (n, k).

        Arguments:
            on_first: the push of the second of each pair on the first, (p, d); the first pushes
                the second the opposite way.
            of_target: (n, d, k).
        """
        out, start = np.empty((len(of_target), of_target.shape[2])), 0
        for rows in self.members:
            (g, size), (i, j) = rows.shape, np.triu_indices(rows.shape[1], 1)
            own = slice(start, start := start + g * len(i))
            pushes = np.zeros((g, size, size, on_first.shape[1]))
            share = lambda of, own=own, g=g: (of[own, None] * on_first[own]).reshape(
                g, -1, on_first.shape[1]
            )
            pushes[:, j, i] = share(self.on_first)
            pushes[:, i, j] = -share(self.on_second)
            targets = of_target[rows].reshape(g, -1, of_target.shape[2])
            out[rows] = pushes.reshape(g, size, -1) @ targets
        return out


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
