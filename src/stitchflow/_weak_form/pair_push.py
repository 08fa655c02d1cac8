"""The push of pairs: sums of splines of the distance over all other individuals of a population."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stitchflow._weak_form.bases import Splines
from stitchflow._weak_form.drift_parts import PairPart, Ranged
from stitchflow._weak_form.neighbours import Geometry as Geometry
from stitchflow._weak_form.neighbours import Neighbours as Neighbours


@dataclass(frozen=True)
class PairPush(PairPart):
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

    @property
    def count(self) -> int:
        return self.splines.count

    @property
    def step(self) -> float:
        return self.splines.step

    def blocks(self, widths: tuple[float, ...], ranges: tuple[float, ...]) -> Ranged:
        own = lambda span: self.splines.blocks(self.kind, widths, span)
        reach = self.splines.reach
        if self.kind != "interaction":
            return {0.0: own(reach)}
        return {s: own(s) for s in tuple(s for s in ranges if s <= reach) or (reach,)}

    def _turned(self, z: np.ndarray) -> np.ndarray:
        return np.stack([-z[:, 1], z[:, 0]], axis=1) if self.kind == "turning" else z

    def _pieces(self, u: np.ndarray) -> list[np.ndarray]:
        """The splines of a cell in the push: derivatives of W, or minus the values of K."""
        if self.kind == "interaction":
            return self.splines.derivative(u, 1)
        return [-b for b in self.splines.derivative(u, 0)]

    def _bends(self, u: np.ndarray) -> list[np.ndarray]:
        if self.kind == "interaction":
            return self.splines.derivative(u, 2)
        return [-b for b in self.splines.derivative(u, 1)]

    def each_push(self, near: Geometry) -> np.ndarray:
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

    def force(self, near: Geometry, c: np.ndarray) -> np.ndarray:
        cell, u = self.splines.pieces(near.r)
        size = _sum_at(self.splines.unfold(c), cell, self._pieces(u))
        return self._turned(near.e) * size[:, None]

    def over_pairs(self, near: Geometry, covectors: np.ndarray) -> np.ndarray:
        cell, u = self.splines.pieces(near.r)
        along, sums = (covectors * self._turned(near.e)).sum(axis=1), np.zeros(self.count + 5)
        for p, piece in enumerate(self._pieces(u)):
            sums[p:] += np.bincount(cell, along * piece, self.count + 5)[: self.count + 5 - p]
        return self.splines.fold(sums)

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


def _sum_at(table: np.ndarray, cell: np.ndarray, pieces: list[np.ndarray]) -> np.ndarray:
    """The spline function with coefficients `table` at places given by cell and pieces."""
    out = table[cell] * pieces[0]
    for p in (1, 2, 3):
        out += table[cell + p] * pieces[p]
    return out
