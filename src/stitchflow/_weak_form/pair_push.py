"""The push of pairs: sums of splines of the distance over all other individuals of a population."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from stitchflow._weak_form.bases import Splines, cubic, cubic_bends, cubic_slopes


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
class PairPush:
    """A push along the line between two individuals, or at a right angle to it.

    With a spline function g of the distance, the drift of individual i is minus the mean over the
    others of `W'(r) z / r` (an interaction), of `-g(r) z / r` (a radial kernel), or of the latter
    turned by a right angle.

    Arguments:
        splines: the functions of the distance.
        kind: "interaction", "radial" or "turning".
    """

    splines: Splines
    kind: str

    def _turned(self, z: np.ndarray) -> np.ndarray:
        return np.stack([-z[:, 1], z[:, 0]], axis=1) if self.kind == "turning" else z

    def _pieces(self, u: np.ndarray) -> list[np.ndarray]:
        """The splines of a cell in the push: derivatives of W, or minus the values of K."""
        if self.kind == "interaction":
            return [b / self.splines.step for b in cubic_slopes(u)]
        return [-b for b in cubic(u)]

    def _bends(self, u: np.ndarray) -> list[np.ndarray]:
        if self.kind == "interaction":
            return [b / self.splines.step**2 for b in cubic_bends(u)]
        return [-b / self.splines.step for b in cubic_slopes(u)]

    def features(self, near: Geometry) -> np.ndarray:
        """The push of every spline on every individual, (n, d, f)."""
        pairs, n, d, wide = near.pairs, near.n, near.e.shape[1], self.splines.count + 5
        cell, u = self.splines.pieces(near.r)
        e = self._turned(near.e)
        keys = np.concatenate([pairs.first * wide + cell, pairs.second * wide + cell])
        sums = np.zeros((d, n * wide))
        pieces = self._pieces(u)
        for a in range(d):
            on_first, on_second = pairs.on_first * e[:, a], -pairs.on_second * e[:, a]
            for p, piece in enumerate(pieces):
                values = np.concatenate([on_first * piece, on_second * piece])
                sums[a, p:] += np.bincount(keys, values, n * wide)[: n * wide - p]
        return self.splines.fold(sums.reshape(d, n, wide)).transpose(1, 0, 2)

    def push(self, near: Geometry, c: np.ndarray) -> np.ndarray:
        """The push with coefficients `c`, (n, d)."""
        cell, u = self.splines.pieces(near.r)
        size = _sum_at(self.splines.unfold(c), cell, self._pieces(u))
        return near.total(self._turned(near.e) * size[:, None], -1.0)

    def sources(self, near: Geometry, c: np.ndarray) -> csr_array:
        """What each individual does to all others, (n, n d): the rows of those who push."""
        cell, u = self.splines.pieces(near.r)
        size = _sum_at(self.splines.unfold(c), cell, self._pieces(u))
        force, pairs, d = self._turned(near.e) * size[:, None], near.pairs, near.e.shape[1]
        rows, columns, values = [], [], []
        for a in range(d):
            rows += [pairs.second, pairs.first]
            columns += [pairs.first * d + a, pairs.second * d + a]
            values += [pairs.on_first * force[:, a], -pairs.on_second * force[:, a]]
        entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
        return csr_array(entries, shape=(near.n, near.n * d))

    def jacobian(self, near: Geometry, c: np.ndarray) -> np.ndarray:
        """The derivative of each individual's push by its own place, (n, d, d)."""
        d = near.e.shape[1]
        cell, u = self.splines.pieces(near.r)
        table = self.splines.unfold(c)
        across = _sum_at(table, cell, self._pieces(u)) / near.r
        along = _sum_at(table, cell, self._bends(u)) - across
        a, b = np.triu_indices(d)
        flat = near.total(along[:, None] * near.e[:, a] * near.e[:, b], 1.0)
        out = np.empty((near.n, d, d))
        out[:, a, b] = out[:, b, a] = flat
        out += near.total(across[:, None], 1.0)[:, :, None] * np.eye(d)
        if self.kind == "turning":
            out = np.stack([-out[:, 1], out[:, 0]], axis=1)
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


def _sum_at(table: np.ndarray, cell: np.ndarray, pieces: list[np.ndarray]) -> np.ndarray:
    """The spline function with coefficients `table` at places given by cell and pieces."""
    out = table[cell] * pieces[0]
    for p in (1, 2, 3):
        out += table[cell + p] * pieces[p]
    return out
