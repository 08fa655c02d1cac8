"""The push of pairs: sums of splines of the distance over all other individuals of a population."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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

    def features(self, pairs: Neighbours, x: np.ndarray) -> np.ndarray:
        """The push of every spline on every individual, (n, d, f)."""
        (n, d), wide = x.shape, self.splines.count + 5
        z = x[pairs.first] - x[pairs.second]
        r = np.sqrt((z**2).sum(axis=1)) + 1e-9
        cell, u = self.splines.pieces(r)
        direction = self._turned(z / r[:, None])
        keys = np.concatenate([pairs.first * wide + cell, pairs.second * wide + cell])
        sums = np.zeros((d, n * wide))
        pieces = self._pieces(u)
        for a in range(d):
            on_first, on_second = pairs.on_first * direction[:, a], -pairs.on_second * direction[:, a]
            for p, piece in enumerate(pieces):
                values = np.concatenate([on_first * piece, on_second * piece])
                sums[a, p:] += np.bincount(keys, values, n * wide)[: n * wide - p]
        return self.splines.fold(sums.reshape(d, n, wide)).transpose(1, 0, 2)

    def push(self, pairs: Neighbours, x: np.ndarray, c: np.ndarray) -> np.ndarray:
        """The push with coefficients `c`, (n, d)."""
        z = x[pairs.first] - x[pairs.second]
        r = np.sqrt((z**2).sum(axis=1)) + 1e-9
        cell, u = self.splines.pieces(r)
        table = self.splines.unfold(c)
        size = sum(table[cell + p] * piece for p, piece in enumerate(self._pieces(u)))
        return _spread(pairs, self._turned(z) * (size / r)[:, None], len(x))

    def jacobian(self, pairs: Neighbours, x: np.ndarray, c: np.ndarray) -> np.ndarray:
        """The derivative of each individual's push by its own place, (n, d, d)."""
        n, d = x.shape
        z = x[pairs.first] - x[pairs.second]
        r = np.sqrt((z**2).sum(axis=1)) + 1e-9
        cell, u = self.splines.pieces(r)
        table = self.splines.unfold(c)
        across = sum(table[cell + p] * piece for p, piece in enumerate(self._pieces(u))) / r
        along = sum(table[cell + p] * bend for p, bend in enumerate(self._bends(u)))
        e = z / r[:, None]
        out = np.empty((n, d, d))
        for a in range(d):
            for b in range(d):
                value = (along - across) * e[:, a] * e[:, b] + (across if a == b else 0.0)
                out[:, a, b] = np.bincount(pairs.first, pairs.on_first * value, n)
                out[:, a, b] += np.bincount(pairs.second, pairs.on_second * value, n)
        if self.kind == "turning":
            out = np.stack([-out[:, 1], out[:, 0]], axis=1)
        return out


def _spread(pairs: Neighbours, force: np.ndarray, n: int) -> np.ndarray:
    """The sum of the forces on each individual; those on the second are opposite, (n, d)."""
    out = np.empty((n, force.shape[1]))
    for a in range(force.shape[1]):
        out[:, a] = np.bincount(pairs.first, pairs.on_first * force[:, a], n)
        out[:, a] -= np.bincount(pairs.second, pairs.on_second * force[:, a], n)
    return out
