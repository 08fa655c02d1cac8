"""The directions of many dimensions: a few leading ones, and those in which V is a spring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Entropy, Potential
from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Bumps
from stitchflow._weak_form.springs import Averages, SpringFit, Springs


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
class FramedBumps(Bumps):
    """The functions of V in a frame: `Bumps` of the leading directions, then z and z^2 of others.

    Arguments:
        centres: the centres of the bumps in the leading directions, (j, lead).
        widths: the standard deviation of each bump, (j,).
        axes: all directions as columns, the leading ones first, (d, d).
    """

    axes: np.ndarray

    @property
    def led(self) -> Bumps:
        """The functions of the leading directions."""
        return Bumps(self.centres, self.widths)

    @property
    def dim(self) -> int:
        return len(self.axes)

    @property
    def count(self) -> int:
        return self.led.count + 2 * (self.dim - self.led.dim)

    def values(self, x: np.ndarray) -> np.ndarray:
        z, lead = x @ self.axes, self.led.dim
        return np.concatenate([self.led.values(z[:, :lead]), z[:, lead:], z[:, lead:] ** 2], 1)

    def slopes(self, x: np.ndarray, bells: np.ndarray | None = None) -> np.ndarray:
        z, lead = x @ self.axes, self.led.dim
        led = self.led.slopes(z[:, :lead], bells)
        led = np.einsum("dk,nkf->ndf", self.axes[:, :lead], led)
        rest = np.broadcast_to(self.axes[:, lead:], (len(x), *self.axes[:, lead:].shape))
        return np.concatenate([led, rest, 2.0 * rest * z[:, None, lead:]], axis=2)


def whole_coefficients(c: np.ndarray, fit: SpringFit) -> np.ndarray:
    """The coefficients of `FramedBumps` from those of the leading directions and the springs."""
    powers, _, further = fit.c.shape
    own = fit.c.reshape(powers, 2 * further)
    return np.concatenate([c.reshape(powers, -1), own], axis=1).ravel()


def whole_root(root: np.ndarray, fit: SpringFit) -> np.ndarray:
    """A factor of the covariance of `whole_coefficients` and log beta.

    Springs err by themselves, and follow log beta.

    Arguments:
        root: that of the leading directions, (f + 1, u).
        fit: the springs.
    """
    powers, _, r = fit.c.shape
    led = root[:-1].reshape(powers, -1, root.shape[1])
    follow = fit.by_log_beta.reshape(powers, 2 * r)[:, :, None] * root[-1]
    old = np.concatenate([led, follow], axis=1)
    new = np.zeros((powers, led.shape[1] + 2 * r, r, 2 * powers))
    size = np.sqrt(max(fit.misfit, 1.0))  # what springs do not explain counts as noise
    each = np.arange(r)
    for k in range(2):
        for wave in range(powers):
            new[wave, led.shape[1] + k * r + each, each] = size * fit.root[:, k * powers + wave]
    count = old.shape[0] * old.shape[1]
    wide = np.concatenate([old.reshape(count, -1), new.reshape(count, -1)], axis=1)
    last = np.concatenate([root[-1], np.zeros(2 * powers * r)])
    return np.concatenate([wide, last[None]])


def frame_of(energy: Energy, data: Snapshots, grows: bool) -> Frame | None:
    """The frame in which V is looked for; None where all coordinates are alike.

    In few dimensions they are, and where conditions are compared. Individuals who act on each other
    do so in all directions, and those who multiply in one place do so in all of its directions.

    Arguments:
        energy: the terms.
        data: the snapshots.
        grows: whether individuals multiply.
    """
    alone = all(type(term) in (Potential, Entropy) for term in energy.terms)
    alone = alone and data.conditions is None
    if data.dim <= constants.MOST_LEAD or grows or not alone:
        return None
    return Frame.of(data, constants.MOST_LEAD)
