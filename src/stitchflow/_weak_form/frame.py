"""The directions of many dimensions: a few leading ones, and those in which V is a spring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block, Bumps
from stitchflow._weak_form.springs import Averages, Springs


@dataclass(frozen=True)
class Frame:
    """Principal directions of all individuals in internal units, widest first.

    A rotation leaves noise that is the same in all directions as it is, so that the weak form in
    the leading directions is one by itself, with the same beta.

    Arguments:
        axes: the directions as columns, (d, d).
        lead: how many of them are leading ones.
    """

    axes: np.ndarray
    lead: int

    @staticmethod
    def of(data: Snapshots, lead: int) -> Frame:
        """The frame of a data set, in one pass over it."""
        total, products = np.zeros(data.dim), np.zeros((data.dim, data.dim))
        for rows, x in _chunks(data):
            weights = np.asarray(data.weights[rows], np.float64)[:, None]
            total += (weights * x).sum(axis=0)
            products += (weights * x).T @ x
        size = float(np.sum(data.weights))
        mean = total / size
        vectors = np.linalg.eigh(products / size - np.outer(mean, mean))[1][:, ::-1]
        # The sign of a direction is free: its largest entry is made positive.
        largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(data.dim)]
        return Frame(vectors * np.sign(largest), lead)

    def leading(self, data: Snapshots) -> np.ndarray:
        """All individuals in the leading directions, (n, lead)."""
        own = self.axes[:, : self.lead]
        return np.concatenate([x @ own for _, x in _chunks(data)])

    def springs(self, data: Snapshots, powers: int) -> Springs:
        """What is seen in the other directions, in one pass over the data.

        Arguments:
            data: the snapshots.
            powers: the number of polynomials of time of each coefficient.
        """
        own, times = self.axes[:, self.lead :], len(data)
        sums, some = np.zeros((times, 4, own.shape[1])), [[] for _ in range(times)]
        first, second = np.zeros(times), np.zeros(times)
        # A draw of every snapshot tells how far directions vary together.
        share = constants.WITNESSES / np.maximum(data.counts, 1)
        rng = np.random.default_rng(0)
        for rows, x in _chunks(data):
            z, index = x @ own, np.asarray(data.index[rows])
            weights = np.asarray(data.weights[rows], np.float64)
            drawn = rng.uniform(size=len(z)) < share[index]
            for k in np.unique(index):
                here = index == k
                w, part = weights[here], z[here]
                for p in range(4):
                    sums[k, p] += w @ part ** (p + 1)
                first[k], second[k] = first[k] + w.sum(), second[k] + (w**2).sum()
                some[k].append(z[here & drawn])
        moments = sums / first[:, None, None]
        when = (data.times - data.units.start) / data.units.duration
        seen = Averages.of(when, first**2 / second, moments)
        return Springs(seen, tuple(np.concatenate(part) for part in some), powers)


def _chunks(data: Snapshots) -> Iterator[tuple[slice, np.ndarray]]:
    """Rows of a data set, and their places in internal units in float64, in parts."""
    centre, length = np.asarray(data.units.centre), data.units.length
    for first in range(0, len(data.x), constants.CHUNK):
        rows = slice(first, first + constants.CHUNK)
        yield rows, (np.asarray(data.x[rows], np.float64) - centre) / length


@dataclass(frozen=True)
class FramedBumps:
    """The functions of V in a frame: `Bumps` of the leading directions, then z and z^2 of others.

    Arguments:
        bumps: the functions of the leading directions.
        axes: the directions, (d, d).
    """

    bumps: Bumps
    axes: np.ndarray

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return len(self.axes)

    @property
    def count(self) -> int:
        """The number of functions."""
        return self.bumps.count + 2 * (self.dim - self.bumps.dim)

    def blocks(self) -> list[Block]:
        """Springs have a flat prior, which their own fit has as well."""
        springs = np.eye(self.count)[:, self.bumps.count :]
        own = [block.placed(0, self.count) for block in self.bumps.blocks()]
        return [*own, Block("springs", springs, flat=True)]

    def values(self, x: np.ndarray) -> np.ndarray:
        """All functions at points (n, d), (n, f)."""
        z, lead = x @ self.axes, self.bumps.dim
        return np.concatenate([self.bumps.values(z[:, :lead]), z[:, lead:], z[:, lead:] ** 2], 1)

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """The gradients of all functions at points, (n, d, f)."""
        z, lead = x @ self.axes, self.bumps.dim
        led = np.einsum("dk,nkf->ndf", self.axes[:, :lead], self.bumps.slopes(z[:, :lead]))
        rest = np.broadcast_to(self.axes[:, lead:], (len(x), *self.axes[:, lead:].shape))
        return np.concatenate([led, rest, 2.0 * rest * z[:, None, lead:]], axis=2)
