"""Many small populations, each of which is seen again whole at every time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction
from stitchflow._energy.terms import Entropy, Potential
from stitchflow._weak_form import constants
from stitchflow._weak_form.drift_parts import Drift
from stitchflow._weak_form.neighbours import Geometry, Neighbours
from stitchflow._weak_form.pair_push import PairPush


@dataclass(frozen=True)
class Flock:
    """Some whole populations, row by row.

    Arguments:
        rows: where they are among all individuals.
        starts: the first row of each population, counted from the first of these.
        near: who acts on whom.
    """

    rows: slice
    starts: np.ndarray
    near: Neighbours

    @staticmethod
    def of(sizes: np.ndarray, first: int) -> Flock:
        """Populations of these sizes, the first of which begins at row `first` of all."""
        count, ends = int(sizes.sum()), np.cumsum(sizes)
        codes = np.repeat(np.arange(len(sizes)), sizes)
        near = Neighbours.within(codes, np.ones(count), sizes[codes].astype(float))
        return Flock(slice(first, first + count), ends - sizes, near)

    @cached_property
    def codes(self) -> np.ndarray:
        """The population of each row."""
        return (
            np.searchsorted(self.starts, np.arange(self.rows.stop - self.rows.start), "right") - 1
        )

    def total(self, values: np.ndarray) -> np.ndarray:
        """Sums over the members of each population."""
        return np.add.reduceat(values, self.starts, axis=0)

    def over_pairs(self, values: list[np.ndarray], cell: np.ndarray, wide: int) -> np.ndarray:
        """Sums over the pairs of each population, a table of cells each, (populations, wide).

        Every pair counts 1/N in a population of N.

        Arguments:
            values: what each pair adds to its cell and to those after it.
            cell: the cell of each pair.
            wide: the number of cells.
        """
        keys = self.codes[self.near.first] * wide + cell
        size, out = len(self.starts) * wide, np.zeros(len(self.starts) * wide)
        for p, value in enumerate(values):
            sums = np.bincount(keys, self.near.on_first * value, size)
            out[p:] += sums[: size - p]
        return out.reshape(-1, wide)

    def geometry(self, x: np.ndarray) -> Geometry:
        """The distances and directions of pairs of members at `x`, (n, d)."""
        return Geometry.at(self.near, x)


@dataclass(frozen=True)
class Populations:
    """Populations that are followed as wholes: who is who within each is not known.

    Arguments:
        x: places in internal units, population after population, (times, n, d).
        times: in internal units.
        sizes: the number of members of each population.
    """

    x: np.ndarray
    times: np.ndarray
    sizes: np.ndarray

    @staticmethod
    def of(energy: Energy, data: Snapshots) -> Populations | None:
        """The populations of a data set; None where they are not followed, or other terms learned.

        They are followed where there are many of them, often seen, each with the same number of
        members at all times, and their centres move by far less than those of other members, drawn
        anew from the same population, would: by less than a share `FOLLOWED` of that. The same has
        to hold against centres of unrelated populations, because the size of the noise is read
        from steps of the centres that are shorter than their memory.

        Arguments:
            energy: the terms that are learned.
            data: the snapshots.
        """
        known = all(
            isinstance(term, Entropy)
            or (type(term) is Potential and not term.time_varying)
            or (type(term) is Interaction and term.radial)
            for term in energy.terms
        )
        if data.groups is None:
            return None
        plain = data.conditions is None and not data.paired
        plain = plain and bool(np.allclose(data.weights, 1.0))
        long = len(data) >= constants.POPULATION_TIMES
        if not (known and plain and long and energy.only(Potential) and energy.only(Entropy)):
            return None
        if data.dim > constants.POPULATION_DIMENSIONS or len(set(data.counts.tolist())) > 1:
            return None
        names, codes = np.unique(data.groups, return_inverse=True)
        # In an order of chance, so that the first of them stand for all.
        codes = np.random.default_rng(0).permutation(len(names))[codes]
        order = np.lexsort((codes, data.index))
        each = codes[order].reshape(len(data), -1)
        sizes = np.bincount(each[0], minlength=len(names))
        if sizes.min() < 2 or (each != each[0]).any() or (data.totals > sizes[codes]).any():
            return None
        units = data.units
        x = (data.x[order].astype(np.float64) - np.asarray(units.centre)) / units.length
        times = (data.times - units.start) / units.duration
        found = Populations(x.reshape(len(data), -1, data.dim), times, sizes)
        enough = found.samples >= constants.FEWEST_SAMPLES
        return found if enough and max(found.forgotten) < constants.FOLLOWED else None

    @property
    def spans(self) -> int:
        """Into how many spans of time noise is divided to be measured."""
        return int(
            np.clip((len(self.times) - 1) // constants.BLOCK_GAPS, 1, constants.NOISE_BLOCKS)
        )

    @property
    def witnesses(self) -> int:
        """The number of populations of which the noise is measured."""
        return min(len(self.sizes), constants.NOISE_SAMPLES // self.spans)

    @property
    def samples(self) -> int:
        """Of how many populations in spans of time the noise is measured."""
        return self.spans * self.witnesses

    @property
    def told(self) -> int:
        """How many functions of a kind have a noise that can be measured."""
        return self.samples // constants.SAMPLES_PER_FUNCTION // constants.KINDS_OF_FUNCTIONS

    @property
    def starts(self) -> np.ndarray:
        """The first row of each population."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def centres(self) -> np.ndarray:
        """The centre of every population at every time, (times, populations, d)."""
        return np.add.reduceat(self.x, self.starts, axis=1) / self.sizes[:, None]

    @property
    def forgotten(self) -> tuple[float, float]:
        """How far centres move over a gap, relative to other members and to other populations."""
        moved = (np.diff(self.centres, axis=0) ** 2).sum(axis=2).mean()
        squares = np.add.reduceat((self.x**2).sum(axis=2), self.starts, axis=1) / self.sizes
        inner = (squares - (self.centres**2).sum(axis=2)) / (self.sizes - 1)
        outer = self.centres.var(axis=1, ddof=1).sum(axis=1)
        return float(moved / (2.0 * inner.mean())), float(moved / (2.0 * outer.mean()))

    def flocks(self, share: float = 1.0) -> Iterator[Flock]:
        """All populations in parts of bounded size, or the first ones of them.

        Arguments:
            share: which share of the populations.
        """
        last = max(1, round(share * len(self.sizes)))
        step = max(1, int(constants.POPULATION_CHUNK / self.sizes.mean()))
        for first in range(0, last, step):
            end = min(first + step, last)
            yield Flock.of(self.sizes[first:end], int(self.starts[first]))


def forces(drift: Drift, flock: Flock, x: np.ndarray, t: float) -> np.ndarray:
    """The derivative of minus the drift of each individual by the coefficients, (n, d, f)."""
    near = flock.geometry(x)
    pushes = [push.each_push(near) for push in drift.pairs]
    return drift.features(x, t, np.concatenate([np.zeros((*x.shape, 0)), *pushes], axis=2))


class Sight:
    """What the functions of an energy say about populations at a time.

    The function of a coefficient of V is summed over the individuals, that of one of W over pairs,
    with 1/N in a population of N: these are the terms of the energy itself.

    Arguments:
        drift: the functions.
        flock: the populations.
        x: the individuals, (n, d).
    """

    def __init__(self, drift: Drift, flock: Flock, x: np.ndarray):
        self.drift, self.flock, self.x = drift, flock, x
        self.near = flock.geometry(x) if drift.pairs else None

    def _pairs(self, push: PairPush, weigh: np.ndarray, kind: int) -> np.ndarray:
        """Sums over pairs of splines or their derivatives, each times `weigh`."""
        assert self.near is not None
        cell, u = push.splines.pieces(self.near.r)
        values = [weigh * piece for piece in push.splines.derivative(u, kind)]
        wide = push.splines.count + 5
        return push.splines.fold(self.flock.over_pairs(values, cell, wide))

    @property
    def values(self) -> np.ndarray:
        """The functions themselves, (populations, f)."""
        landscape = self.drift.landscape
        assert landscape is not None
        pairs = [self._pairs(p, np.ones(len(self._r)), 0) for p in self._pushes]
        return np.concatenate([self.flock.total(landscape.bumps.values(self.x)), *pairs], axis=1)

    @property
    def laplacians(self) -> np.ndarray:
        """The sums of their second derivatives by all places, (populations, f)."""
        landscape, dim = self.drift.landscape, self.x.shape[1]
        assert landscape is not None
        pairs = [
            2.0 * self._pairs(p, np.ones(len(self._r)), 2)
            + 2.0 * self._pairs(p, (dim - 1) / self._r, 1)
            for p in self._pushes
        ]
        own = self.flock.total(landscape.bumps.laplacians(self.x))
        return np.concatenate([own, *pairs], axis=1)

    def slope(self, c: np.ndarray) -> np.ndarray:
        """Minus the drift of each individual under coefficients `c`, (n, d)."""
        out = np.zeros(self.x.shape)
        for part, own in self.drift.each():
            if isinstance(part, PairPush):
                assert self.near is not None
                out += part.push(self.near, c[own])
            else:
                out += part.bumps.slope(self.x, c[own])
        return out

    def along(self, covectors: np.ndarray) -> np.ndarray:
        """Sums of `covectors` (n, d) times the forces of every function, (populations, f)."""
        landscape = self.drift.landscape
        assert landscape is not None
        slopes = landscape.bumps.slopes(self.x)
        own = self.flock.total(np.einsum("ndf,nd->nf", slopes, covectors, optimize=True))
        pairs = []
        for push in self._pushes:
            assert self.near is not None
            apart = covectors[self.flock.near.first] - covectors[self.flock.near.second]
            pairs.append(self._pairs(push, (apart * self.near.e).sum(axis=1), 1))
        return np.concatenate([own, *pairs], axis=1)

    @property
    def _pushes(self) -> list[PairPush]:
        return [push for push in self.drift.pairs if isinstance(push, PairPush)]

    @property
    def _r(self) -> np.ndarray:
        assert self.near is not None
        return self.near.r
