"""Averages of test functions after every gap: what was seen, and what the estimate predicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import binom, chi2

from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Bumps
from stitchflow._weak_form.carry import Carried, Drift, carry
from stitchflow._weak_form.frame import Frame
from stitchflow._weak_form.pair_push import Neighbours
from stitchflow._weak_form.springs import Springs


@dataclass(frozen=True)
class Window:
    """The individuals of one snapshot, or of several short ones that follow each other.

    Arguments:
        x: places in internal units, (n, d).
        weights: how much each counts, with the sum 1, (n,).
        time: the mean time in internal units.
        ids: the identity of each individual; None where individuals are not followed.
        near: who acts on whom; None where there are no pair terms.
        condition: the number of the condition of all of them; None where there are none.
    """

    x: np.ndarray
    weights: np.ndarray
    time: float
    ids: np.ndarray | None
    near: Neighbours | None
    condition: int | None = None

    @property
    def effective(self) -> float:
        """The number of equal weights that would average as well."""
        return float(1.0 / (self.weights**2).sum())

    def covariance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The covariance of the averages of two sets of functions of an individual, (a, b)."""
        centred = (a - self.weights @ a) * self.weights[:, None]
        rest = 1.0 - 1.0 / self.effective
        return centred.T @ ((b - self.weights @ b) * self.weights[:, None]) / max(rest, 1e-3)


def windows(data: Snapshots, pairs: bool, frame: Frame | None = None) -> list[Window]:
    """The snapshots of a data set in internal units, those of each condition after each other.

    Arguments:
        data: the snapshots.
        pairs: whether individuals act on each other.
        frame: whose leading directions are looked at; None looks at all coordinates.
    """
    if data.conditions is None:
        return _windows(data, pairs, data.units, None, frame)
    parts = [data.of(name) for name in data.condition_names]
    return [w for k, part in enumerate(parts) for w in _windows(part, pairs, data.units, k)]


def _windows(
    data: Snapshots,
    pairs: bool,
    units: Units,
    condition: int | None,
    frame: Frame | None = None,
) -> list[Window]:
    """The snapshots of a data set or of one of its conditions; short ones are pooled.

    A pooled window is an average over its times. Carrying it by the distance of two windows' mean
    times predicts the next one, as long as both are sampled alike.

    Arguments:
        data: the snapshots.
        pairs: whether individuals act on each other.
        units: the internal units.
        condition: the number of the condition; None where there are none.
        frame: whose leading directions are looked at; None looks at all coordinates.
    """
    if frame is None:  # in float64, which the arrays of JAX may not have
        x = (data.x.astype(np.float64) - np.asarray(units.centre)) / units.length
    else:
        x = frame.leading(data)
    times = (data.times - units.start) / units.duration
    most = len(data)
    # Individuals that are followed need no averages: each of them is compared with itself.
    if np.median(data.counts) < constants.POOL_BELOW and not data.paired:
        most = int(np.clip(len(x) // constants.POOLED, constants.FEWEST_WINDOWS, len(data)))
    which = np.arange(len(data))
    if most < len(data):  # equal durations, so that neighbours are sampled alike
        which = np.unique(np.minimum((times * most).astype(int), most - 1), return_inverse=True)[1]
    row_window = which[data.index]
    # Every population at every time acts within itself.
    labels = np.zeros(len(x), int)
    if data.within is not None:
        labels = np.unique(data.within, return_inverse=True)[1]
    populations = data.index * (labels.max() + 1) + labels
    totals, counts = getattr(data, "totals", None), np.bincount(populations)
    found = []
    for k in range(int(which[-1]) + 1):
        rows = _some_of(np.flatnonzero(row_window == k), populations, k)
        codes = np.unique(populations[rows], return_inverse=True)[1]
        seen = np.bincount(codes)[codes].astype(float)
        # Who was seen but not looked at acts on the others all the same.
        there = counts[populations[rows]].astype(float)
        there = there if totals is None else np.maximum(np.asarray(totals, float)[rows], there)
        weights = data.weights[rows] / data.weights[rows].sum()
        near = Neighbours.within(codes, weights, there) if pairs and (seen > 1).any() else None
        found.append(
            Window(
                x[rows],
                weights,
                float(weights @ times[data.index[rows]]),
                None if data.ids is None else data.ids[rows],
                near,
                condition,
            )
        )
    return found


def _some_of(rows: np.ndarray, populations: np.ndarray, seed: int) -> np.ndarray:
    """The rows of a window, or as many whole populations at random as make up enough of them.

    A single large population is drawn from as well. More individuals cost more than they tell: at
    this number, averages are known to two per cent of their spread.
    """
    if len(rows) <= constants.MOST_SEEN:
        return rows
    rng = np.random.default_rng(seed)
    names, codes = np.unique(populations[rows], return_inverse=True)
    if len(names) * 2 > len(rows) / constants.MOST_SEEN * 4:
        share = constants.MOST_SEEN / len(rows)
        kept = rng.permutation(len(names)) < max(1, round(share * len(names)))
        return rows[kept[codes]]
    return np.sort(rng.permutation(rows)[: constants.MOST_SEEN])


@dataclass(frozen=True)
class Gap:
    """A window and the next one, with the noise that carries the first.

    Arguments:
        here: the window at the start.
        there: the window at the end.
        follows: whether `here` is where the gap before this one in the list ends.
        seed: of the noise.
    """

    here: Window
    there: Window
    follows: bool
    seed: tuple[int, int]

    @property
    def duration(self) -> float:
        return self.there.time - self.here.time


def gaps_of(found: list[Window], seed: int) -> list[Gap]:
    """All gaps between windows, or some of them where there are very many pairs."""
    pairs = sum(0 if w.near is None else len(w.near.first) for w in found)
    stride = max(1, int(np.ceil(pairs / constants.MOST_PAIRS)))
    joined = [a.condition == b.condition for a, b in pairwise(found)]
    return [
        Gap(found[k], found[k + 1], stride == 1 and k > 0 and joined[k - 1], (seed, k))
        for k in range(0, len(found) - 1, stride)
        if joined[k]
    ]


def straight_lines(found: list[Window]) -> list[Window]:
    """Windows on straight lines between those of the data: of each individual that is followed,
    else of optimal transport.

    They are no data, but a place to start from where gaps are long.
    """
    rng, filled = np.random.default_rng(0), []
    for a, b in pairwise(found):
        if a.condition != b.condition:
            filled.append(a)
            continue
        x, y, ids = _matched(a, b, rng)
        n = len(x)
        for s in np.arange(constants.LINE_WINDOWS) / constants.LINE_WINDOWS:
            place, t = (1 - s) * x + s * y, (1 - s) * a.time + s * b.time
            filled.append(Window(place, np.full(n, 1 / n), t, ids, None, a.condition))
    return [*filled, found[-1]]


def _matched(
    a: Window, b: Window, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Places at two times that belong together, (n, d) each, and whose they are."""
    if a.ids is not None and b.ids is not None:
        ids, i, j = np.intersect1d(a.ids, b.ids, return_indices=True)
        return a.x[i], b.x[j], ids
    n = constants.MOST_LINES
    x, y = (w.x[rng.choice(len(w.x), n, p=w.weights)] for w in (a, b))
    rows, columns = linear_sum_assignment(cdist(x, y, "sqeuclidean"))
    return x[rows], y[columns], None


class Moments:
    """Individuals of all gaps, carried by an estimate and seen through test functions.

    Arguments:
        gaps: the gaps.
        drift: what moves individuals.
        tests: the test functions.
        diffuses: whether individuals move with noise.
        springs: what further directions tell about this noise; None where there are none.
    """

    def __init__(
        self,
        gaps: list[Gap],
        drift: Drift,
        tests: Bumps,
        diffuses: bool,
        springs: Springs | None = None,
    ):
        self.gaps, self.drift, self.tests, self.diffuses = gaps, drift, tests, diffuses
        self.springs = springs
        self.steps = [1] * len(gaps)  # of the solver in each gap
        self._seen = {id(w): tests.values(w.x) for gap in gaps for w in (gap.here, gap.there)}

    @property
    def hides(self) -> bool:
        """Whether somebody pushed others and was not seen."""
        near = [gap.here.near for gap in self.gaps]
        return any(one is not None and one.hides for one in near)

    @cached_property
    def followed(self) -> list[np.ndarray]:
        """Rows at the start of each gap that are the same individuals, as far as can be told.

        Each is taken for the one nearest to where it was; whom is mistaken for whom does not
        matter much, because neighbours push alike.
        """
        first = len(self.gaps[0].here.x)
        found = [np.random.default_rng(0).permutation(first)[: constants.MOST_LINES]]
        for before, gap in pairwise(self.gaps):
            apart = cdist(before.here.x[found[-1]], gap.here.x, "sqeuclidean")
            kept, rows = linear_sum_assignment(apart)
            found = [own[kept] for own in found] + [rows]
        return found

    def seen(self, window: Window) -> np.ndarray:
        """The test functions at the individuals of a window, (n, tests)."""
        return self._seen[id(window)]

    def carried(self, c: np.ndarray, beta: float) -> Iterator[tuple[Gap, Carried]]:
        """Every gap and where its individuals end, for coefficients `c` and noise `beta`."""
        for k, gap in enumerate(self.gaps):
            here, rng = gap.here, np.random.default_rng(gap.seed)
            noise = beta if self.diffuses else 0.0
            drift = self.drift.under(here.condition)
            found = carry(
                drift, c, noise, here.x, here.time, gap.duration, self.steps[k], here.near, rng
            )
            # The next round resolves the steepness that this one met. A few steps too many are
            # kept: other steps are other noise, which would unsettle the rounds.
            if not self.steps[k] / 2 <= found.steps <= self.steps[k]:
                self.steps[k] = found.steps
            yield gap, found

    @property
    def plainly_same(self) -> bool:
        """Whether averages change by less than those of independent draws would.

        This tells the same individuals before anything is known about what moves them. Where they
        move fast, averages change by more, and only a fit can tell.
        """
        powers = slice(0, self.tests.powers)
        changes, draws = [], []
        for gap in self.gaps:
            a, b = self.seen(gap.here)[:, powers], self.seen(gap.there)[:, powers]
            changes.append((gap.there.weights @ b - gap.here.weights @ a) ** 2)
            own = gap.here.covariance(a, a), gap.there.covariance(b, b)
            draws.append(np.diag(own[0]) + np.diag(own[1]))
        ratio = np.sum(changes, axis=0) / np.maximum(np.mean(draws, axis=0), 1e-300)
        # The chance that so many of the averages of independent draws change by so little.
        usual, count = float(np.median(ratio)), len(ratio)
        single = float(chi2.cdf(usual, len(self.gaps)))
        return bool(binom.sf(count - count // 2 - 1, count, single) < constants.PLAINLY)
