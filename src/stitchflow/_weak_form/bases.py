"""The functions that V, W and K are made of, and how large they are expected to be.

Every basis is linear: a function is a sum of fixed functions times coefficients. Its prior is a sum
of Gaussian processes, one for each width, whose variances the evidence decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from stitchflow._weak_form import constants


@dataclass(frozen=True)
class Block:
    """Coefficients that share one unknown variance.

    Arguments:
        name: what the block describes, for messages.
        factor: the coefficients are `factor @ u` with u independent of equal variance, (f, u).
        flat: whether the variance is so large that the prior says nothing.
        spare: zero for a block that is always used; one for a block that is used only where the
            evidence clearly asks for it, and two where it asks for more than those of one.
        first: whether a spare block is used in the first rounds, until the estimate has settled.
    """

    name: str
    factor: np.ndarray
    flat: bool = False
    spare: int = 0
    first: bool = False

    def placed(self, first: int, size: int, name: str = "") -> Block:
        """This block where its coefficients are some of all `size`, from the `first` on."""
        factor = np.zeros((size, self.factor.shape[1]))
        factor[first : first + len(self.factor)] = self.factor
        return replace(self, name=name + self.name, factor=factor)


@dataclass(frozen=True)
class Bumps:
    """Powers of first and second degree, and Gaussian bumps of several widths.

    Arguments:
        centres: the centres of all bumps, (j, d).
        widths: the standard deviation of each bump, (j,).
    """

    centres: np.ndarray
    widths: np.ndarray

    @staticmethod
    def for_points(x: np.ndarray, scales: tuple[float, ...], most: int) -> Bumps:
        """Bumps near points: on a grid in one and two dimensions, else far from each other.

        Arguments:
            x: points in internal units, (n, d).
            scales: the widths.
            most: the largest number of bumps; finer widths, which would exceed it, are left out.
        """
        centres, widths = [], []
        for scale in scales:
            places = _grid(x, scale) if x.shape[1] <= 2 else _apart(x, max(1, most // len(scales)))
            # The widest are few, and do not count.
            if centres and sum(map(len, centres[1:])) + len(places) > most:
                break
            centres.append(places)
            widths.append(np.full(len(places), scale))
        return Bumps(np.concatenate(centres), np.concatenate(widths))

    def wider(self, than: float) -> Bumps:
        """The bumps whose width is not below `than`; the widest ones always stay."""
        kept = self.widths >= min(than, self.widths.max(initial=0.0))
        return Bumps(self.centres[kept], self.widths[kept])

    @staticmethod
    def as_many(x: np.ndarray, most: int, narrowest: float = 0.0) -> Bumps:
        """Bumps of one width near points, as narrow as allows no more than `most` functions.

        Arguments:
            x: points in internal units, (n, d).
            most: the largest number of functions, powers included.
            narrowest: the smallest width.
        """
        d = x.shape[1]
        if d > 2:
            left = max(most - d - d * (d + 1) // 2, 0)
            found = Bumps.for_points(x, (constants.SPACE_TEST,), max(left, 1))
            return found if left else Bumps(found.centres[:0], found.widths[:0])
        found = Bumps.for_points(x, (constants.WIDEST_TEST,), most)
        if found.count > most:  # the powers alone
            return Bumps(found.centres[:0], found.widths[:0])
        for width in constants.WIDEST_TEST * constants.TEST_LADDER ** np.arange(1, 40):
            finer = Bumps.for_points(x, (width,), most)
            if finer.count > most or width < narrowest:
                break
            found = finer
        return found

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return self.centres.shape[1]

    @property
    def powers(self) -> int:
        """The number of powers: coordinates and products of two."""
        return self.dim + self.dim * (self.dim + 1) // 2

    @property
    def count(self) -> int:
        """The number of functions."""
        return self.powers + len(self.widths)

    @property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        return np.triu_indices(self.dim)

    def blocks(self) -> list[Block]:
        """Powers with a flat prior; for each width a Gaussian process of that width."""
        found = [Block("powers", np.eye(self.count)[:, : self.powers], flat=True)]
        for width in np.unique(self.widths)[::-1]:
            here = np.flatnonzero(self.widths == width)
            squares = cdist(self.centres[here], self.centres[here], "sqeuclidean")
            kernel = np.exp(-0.5 * squares / width**2) + constants.JITTER * np.eye(len(here))
            factor = np.zeros((self.count, len(here)))
            root = np.linalg.cholesky(kernel)
            factor[self.powers + here] = solve_triangular(root, np.eye(len(here)), lower=True).T
            found.append(Block(f"width {width:g}", factor))
        return found

    def bells(self, x: np.ndarray) -> np.ndarray:
        """The bumps at points, (n, j): what all other methods need first and may share."""
        return np.exp(cdist(x, self.centres, "sqeuclidean") * (-0.5 / self.widths**2))

    def values(self, x: np.ndarray) -> np.ndarray:
        """All functions at points, (n, f)."""
        i, j = self._pairs
        return np.concatenate([x, x[:, i] * x[:, j], self.bells(x)], axis=1)

    def slopes(self, x: np.ndarray, bells: np.ndarray | None = None) -> np.ndarray:
        """The gradients of all functions at points, (n, d, f)."""
        (n, d), (i, j) = x.shape, self._pairs
        out = np.empty((n, d, self.count))
        out[:, :, :d] = np.eye(d)
        products = out[:, :, d : self.powers]
        products[:] = 0.0
        columns = np.arange(len(i))
        products[:, i, columns] += x[:, j]
        products[:, j, columns] += x[:, i]
        bells = (self.bells(x) if bells is None else bells) / -(self.widths**2)
        for axis in range(d):
            out[:, axis, self.powers :] = (x[:, axis, None] - self.centres[:, axis]) * bells
        return out

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """The sums of second derivatives of all functions at points, (n, f)."""
        (n, d), (i, j) = x.shape, self._pairs
        squares = cdist(x, self.centres, "sqeuclidean") / self.widths**2
        bumps = np.exp(-0.5 * squares) * ((squares - d) / self.widths**2)
        products = np.broadcast_to(2.0 * (i == j), (n, len(i)))
        return np.concatenate([np.zeros((n, d)), products, bumps], axis=1)

    def gather(self, a: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Sums over points of covectors times the gradients of all functions, (p, f).

        Arguments:
            a: the covectors, (d, p, n).
            x: the points, (n, d).
        """
        (i, j), d = self._pairs, self.dim
        linear = np.stack([a[k].sum(axis=1) for k in range(d)], axis=1)
        moments = np.stack([a[k] @ x for k in range(d)])  # (d, p, d)
        products = (moments[i, :, j] + moments[j, :, i]).T
        bells = self.bells(x) / self.widths**2
        bumps = -sum(a[k] * x[:, k] for k in range(d)) @ bells
        for k in range(d):
            bumps += (a[k] @ bells) * self.centres[:, k]
        return np.concatenate([linear, products, bumps], axis=1)

    def _curvature(self, c: np.ndarray) -> np.ndarray:
        """The constant Hessian of the powers."""
        i, j = self._pairs
        matrix = np.zeros((self.dim, self.dim))
        matrix[i, j] = c[self.dim : self.powers]
        return matrix + matrix.T

    def slope(self, x: np.ndarray, c: np.ndarray, bells: np.ndarray | None = None) -> np.ndarray:
        """The gradient of the function with coefficients `c`, (n, d)."""
        bells = self.bells(x) if bells is None else bells
        weights = bells * (c[self.powers :] / self.widths**2)
        bent = weights @ self.centres - x * weights.sum(axis=1, keepdims=True)
        return c[: self.dim] + x @ self._curvature(c) + bent

    def hessian(self, x: np.ndarray, c: np.ndarray, bells: np.ndarray | None = None) -> np.ndarray:
        """The Hessian of the function with coefficients `c`, (n, d, d)."""
        d, squares = self.dim, self.widths**2
        bells = self.bells(x) if bells is None else bells
        weights = bells * (c[self.powers :] / squares)
        far, z = weights / squares, self.centres
        pulled = (far @ z)[:, :, None] * x[:, None, :]
        products = (z[:, :, None] * z[:, None, :]).reshape(-1, d * d)
        out = (far @ products).reshape(-1, d, d) - pulled - pulled.swapaxes(1, 2)
        out += far.sum(axis=1)[:, None, None] * x[:, :, None] * x[:, None, :]
        out -= weights.sum(axis=1)[:, None, None] * np.eye(d)
        return out + self._curvature(c)


def _grid(x: np.ndarray, scale: float) -> np.ndarray:
    """The points of a grid that lie within a width of an individual."""
    axes = [
        np.arange(np.floor(a / scale) - 1, np.ceil(b / scale) + 2) * scale
        for a, b in zip(x.min(axis=0), x.max(axis=0), strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, x.shape[1])
    return grid[KDTree(x).query(grid)[0] <= scale]


def _apart(x: np.ndarray, most: int) -> np.ndarray:
    """Individuals that are far from each other, each the farthest from those before it."""
    chosen = [int(((x - x.mean(axis=0)) ** 2).sum(axis=1).argmin())]
    distance = np.full(len(x), np.inf)
    for _ in range(min(most, len(x)) - 1):
        distance = np.minimum(distance, ((x - x[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(distance.argmax()))
    return x[np.unique(chosen)]


@dataclass(frozen=True)
class Splines:
    """Cubic splines of a distance on evenly spaced knots, zero beyond the last.

    Arguments:
        reach: where the splines end.
        count: the number of functions, the first of which is centred at zero.
        even: whether functions are even around zero, as a smooth W is.
    """

    reach: float
    count: int
    even: bool

    @property
    def step(self) -> float:
        """The distance between knots. The last spline ends at `reach`."""
        return self.reach / (self.count + 1)

    @property
    def knots(self) -> np.ndarray:
        """The distance at which each function is largest."""
        return self.step * np.arange(self.count)

    def fold(self, table: np.ndarray) -> np.ndarray:
        """Sums over the splines of all cells, (..., count + 5), as sums by function (..., count).

        Index i of the table is the spline centred at knot i - 1. The one left of zero is the mirror
        image of its neighbour, or continues the first two in a straight line.
        """
        out = table[..., 1 : self.count + 1].copy()
        if self.even:
            out[..., 1] += table[..., 0]
        else:
            out[..., 0] += 2.0 * table[..., 0]
            out[..., 1] -= table[..., 0]
        return out

    def unfold(self, c: np.ndarray) -> np.ndarray:
        """The coefficient of the spline at every index of the table of `fold`, (count + 5,)."""
        left = c[1] if self.even else 2.0 * c[0] - c[1]
        return np.concatenate([[left], c, np.zeros(4)])

    def blocks(self, name: str, widths: tuple[float, ...], span: float) -> list[Block]:
        """Gaussian processes of some widths, under an envelope that falls over `span`."""
        r, found = self.knots, []
        envelope = np.exp(-0.5 * (r / span) ** 2)
        for width in widths:
            kernel = np.exp(-0.5 * ((r[:, None] - r) / width) ** 2)
            if self.even:
                kernel = kernel + np.exp(-0.5 * ((r[:, None] + r) / width) ** 2)
            sizes, vectors = np.linalg.eigh(kernel * envelope[:, None] * envelope)
            kept = sizes > constants.JITTER * sizes.max()
            found.append(Block(f"{name}, width {width:g}", vectors[:, kept] * np.sqrt(sizes[kept])))
        return found

    def pieces(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The cell of each distance and its place in the cell; far distances are in no cell."""
        u = r / self.step
        cell = np.minimum(u.astype(np.int64), self.count + 1)
        return cell, u - cell

    def derivative(self, u: np.ndarray, order: int) -> list[np.ndarray]:
        """The splines of a cell, or their first or second derivatives, at places u in the cell."""
        return [b / self.step**order for b in (cubic, cubic_slopes, cubic_bends)[order](u)]

    def rows(self, r: np.ndarray, slopes: bool = False) -> np.ndarray:
        """All functions at distances, or their derivatives by the distance, (m, count)."""
        cell, u = self.pieces(r)
        return self._spread(cell, self.derivative(u, int(slopes)))

    def bends(self, r: np.ndarray) -> np.ndarray:
        """The second derivatives of all functions at distances, (m, count)."""
        cell, u = self.pieces(r)
        return self._spread(cell, self.derivative(u, 2))

    def laplacians(self, r: np.ndarray, dim: int) -> np.ndarray:
        """The sums of second derivatives in `dim` dimensions at distances, (m, count)."""
        return self.bends(r) + self.rows(r, slopes=True) * ((dim - 1) / r[:, None])

    def _spread(self, cell: np.ndarray, pieces: list[np.ndarray]) -> np.ndarray:
        """The pieces of the splines of each distance by function, (m, count)."""
        table, every = np.zeros((len(cell), self.count + 5)), np.arange(len(cell))
        for p, piece in enumerate(pieces):
            table[every, cell + p] += piece
        return self.fold(table)


def cubic(u: np.ndarray) -> list[np.ndarray]:
    """The four cubic splines that live on a cell, at places u in [0, 1]."""
    v = 1.0 - u
    return [v**3 / 6, 2 / 3 - u**2 + u**3 / 2, 2 / 3 - v**2 + v**3 / 2, u**3 / 6]


def cubic_slopes(u: np.ndarray) -> list[np.ndarray]:
    """The derivatives of `cubic` by u."""
    v = 1.0 - u
    return [-(v**2) / 2, 1.5 * u**2 - 2 * u, 2 * v - 1.5 * v**2, u**2 / 2]


def cubic_bends(u: np.ndarray) -> list[np.ndarray]:
    """The second derivatives of `cubic` by u."""
    return [1.0 - u, 3 * u - 2, 1 - 3 * u, u]
