"""Comparison of clouds with held-out individuals, and the expected score of a perfect model."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from inspect import signature
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import numpy as np

from stitchflow._data.populations import of_same_population
from stitchflow._data.snapshots import Snapshots
from stitchflow._method.flow import Flow
from stitchflow._status import ExtrapolationWarning
from stitchflow._types import KeyLike, as_key, as_rng, near_times
from stitchflow.metrics import DISTANCES

DRAWS = 3
MOST = 2000

# The floor needs at least this share of a method's n of training individuals. With three quarters
# the expected distance of two samples is at most sqrt((1 + 4 / 3) / 2) = 1.08 times that of n, well
# below 1.15 times the floor, which counts as good. By default four fifths remain for training.
ENOUGH = 0.75

Score = dict[str, float]  # by metric; empty where there is none


class Sample(NamedTuple):
    """Individuals with their weights.

    Arguments:
        x: the positions.
        weights: their weights; None where all are equal.
        groups: the group of each, within which interactions act; None where there are none.
        conditions: the condition of each; None where there are none.
    """

    x: np.ndarray
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None
    conditions: np.ndarray | None = None

    @staticmethod
    def of(data: Snapshots, k: int) -> Sample:
        """The individuals of the k-th time whose weight is not zero."""
        groups = None if data.within is None else data.within[data.slice(k)]
        conditions = None if data.conditions is None else data.conditions[data.slice(k)]
        weights = data.uneven_weights(k)
        everybody = Sample(data.cloud(k), weights, groups, conditions)
        return everybody if weights is None else everybody.rows(np.flatnonzero(weights > 0))

    def rows(self, rows: np.ndarray) -> Sample:
        """Some of the individuals, by their row numbers."""
        pick = lambda column: None if column is None else column[rows]
        return Sample(self.x[rows], pick(self.weights), pick(self.groups), pick(self.conditions))

    def beside(self, other: Sample) -> Sample:
        """These individuals followed by others; each side keeps its weights among its own."""
        weights = None
        if self.weights is not None or other.weights is not None:
            each = (np.ones(len(s.x)) if s.weights is None else s.weights for s in (self, other))
            weights = np.concatenate(list(each))
        both = lambda a, b: None if a is None or b is None else np.concatenate([a, b])
        groups = both(self.groups, other.groups)
        conditions = both(self.conditions, other.conditions)
        return Sample(np.concatenate([self.x, other.x]), weights, groups, conditions)

    def some(self, n: int, rng: np.random.Generator) -> Sample:
        """`n` of the individuals, drawn regardless of their weights, which they keep."""
        return self.rows(rng.choice(len(self.x), n, replace=False))

    def up_to(self, n: int, rng: np.random.Generator) -> Sample:
        """`n` of the individuals; if there are fewer, they are repeated as evenly as possible."""
        if n <= len(self.x):
            return self.some(n, rng)
        whole, rest = divmod(n, len(self.x))
        again = rng.choice(len(self.x), rest, replace=False)
        return self.rows(np.concatenate([np.tile(np.arange(len(self.x)), whole), again]))

    def carried(self, flow: Flow, times: Any, key: KeyLike) -> np.ndarray:
        """Where the dynamics of a flow carries the individuals, of shape (time, n, dim).

        Individuals keep their weights and stay in their groups, and those of a condition that
        the flow knows are moved as it moves them. Equal weights are not passed on, nor are groups
        to a flow that does not know them: a user's own flow need not accept either.
        """
        if self.conditions is not None and flow.conditions:
            return self._carried_apart(flow, times, key)
        told: dict[str, Any] = {} if self.weights is None else {"weights": self.weights}
        if self.groups is not None and "groups" in signature(flow.simulate).parameters:
            told["groups"] = self.groups
        return np.asarray(flow.simulate(self.x, times, key=key, **told))

    def _carried_apart(self, flow: Flow, times: Any, key: KeyLike) -> np.ndarray:
        """`carried`, for each condition by its own flow; unknown ones by what all share."""
        assert self.conditions is not None
        out = np.empty((len(np.atleast_1d(times)), *self.x.shape))
        for k, name in enumerate(np.unique(self.conditions)):
            own = np.flatnonzero(self.conditions == name)
            moving = flow.of(name) if str(name) in flow.conditions else flow
            some = self.rows(own)._replace(conditions=None)
            out[:, own] = some.carried(moving, times, jax.random.fold_in(as_key(key), k))
        return out


# Floors by held-out individuals, individuals trained on, and oracle. They do not depend on the fit,
# and are computed once where several methods are judged by the same individuals.
_FLOORS: WeakKeyDictionary[Any, WeakKeyDictionary] = WeakKeyDictionary()


def _known_floors(*places: Any) -> dict:
    found: Any = _FLOORS
    for place in places[:-1]:
        found = found.setdefault(place, WeakKeyDictionary())
    return found.setdefault(places[-1], {})


class Judge:
    """Compares clouds with held-out individuals, with the same random draws for all methods.

    Arguments:
        train: the individuals that were trained on; None where they are not available.
        times: the times that were trained on.
        test: the held-out individuals.
        metrics: the distances.
        key: the random key of all draws.
        oracle: the flow of the true energy; None where it is unknown.
    """

    def __init__(
        self,
        train: Snapshots | None,
        times: np.ndarray,
        test: Snapshots,
        metrics: tuple[str, ...],
        key: jax.Array,
        oracle: Flow | None,
    ):
        self.train, self.times, self.test = train, times, test
        self.metrics, self.key, self.oracle = metrics, key, oracle
        near = near_times(test.times, times)
        self.seen = [int(k) for k in np.flatnonzero(near.any(axis=1))]
        inside = (test.times > times[0]) & (test.times < times[-1])
        unseen = [k for k in range(len(test)) if k not in self.seen]
        self.between = [k for k in unseen if inside[k]]
        self.beyond = [k for k in unseen if test.times[k] > times[-1]]
        known = _known_floors(
            test, test if train is None else train, test if oracle is None else oracle
        )
        draws = np.asarray(jax.random.key_data(key)).tobytes()
        self.floors = known.setdefault((metrics, times.tobytes(), draws), {})

    def size(self, k: int) -> int:
        """The number of draws that a method is asked for at the k-th time."""
        return min(len(Sample.of(self.test, k).x), MOST)

    def compare(self, k: int, clouds: Callable[[int, int], Sample]) -> Score:
        """The mean of every metric over several draws.

        Arguments:
            k: the number of the time.
            clouds: `clouds(draw, n)` gives a cloud of n or more points.
        """
        truth, pairs = Sample.of(self.test, k), []
        for draw in range(DRAWS):
            rng, cloud = self.rng(k, draw), clouds(draw, self.size(k))
            if not np.isfinite(cloud.x).all():
                when = self.test.times[k]
                warnings.warn(f"the cloud at time {when:g} is not finite; no score", stacklevel=2)
                return {}
            n = min(len(cloud.x), len(truth.x), MOST)
            pairs.append((cloud.some(n, rng), truth.some(n, rng)))
        return self.mean_distances(pairs)

    def mean_distances(self, pairs: list[tuple[Sample, Sample]]) -> Score:
        """Every metric, averaged over pairs of clouds and computed in threads."""
        tasks = [(m, *pair) for m in self.metrics for pair in pairs]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            values = list(pool.map(_distance, tasks))
        means = np.reshape(values, (len(self.metrics), len(pairs))).mean(axis=1)
        return dict(zip(self.metrics, means.tolist(), strict=True))

    def rng(self, *place: int) -> np.random.Generator:
        """The random generator of one place, the same for every method."""
        key = self.key
        for number in place:
            key = jax.random.fold_in(key, number)
        return as_rng(key)

    def drawn(self, flow: Flow, k: int) -> Score:
        """The score of the marginal of a flow at the k-th time."""
        t = float(self.test.times[k])

        def draw(i: int, n: int) -> Sample:
            key = jax.random.fold_in(jax.random.fold_in(self.key, 4000 + k), i)
            return Sample(np.asarray(flow.sample([t], n, key=key)[0]))

        return self.compare(k, draw)

    def carried(self, flow: Flow, start: int, ends: list[int]) -> Iterable[tuple[int, Score]]:
        """The scores, at later times, of held-out individuals that the dynamics alone carries."""
        key = jax.random.fold_in(jax.random.fold_in(self.key, 3000), start)
        here = Sample.of(self.test, start)
        with warnings.catch_warnings():  # a protocol that goes beyond the data says so by its name
            warnings.simplefilter("ignore", ExtrapolationWarning)
            path = self._together(here, start).carried(flow, self.test.times[[start, *ends]], key)
        for k, cloud in zip(ends, path[1:], strict=True):
            end = Sample(cloud[: len(here.x)], here.weights)
            yield k, self.compare(k, lambda draw, n, end=end: end)

    def _together(self, here: Sample, start: int) -> Sample:
        """Held-out individuals, followed by those of their populations who were trained on.

        Where the data says which individuals interact, by groups or by how many there are in all,
        a part of a population would feel too few of them. A population that has no room for those
        who were trained on is another one, whatever its name.
        """
        told = self.test.within is not None or self.test.total is not None
        if not told or self.train is None or start not in self.seen:
            return here
        others = Sample.of(self.train, self.train.at(self.test.times[start]))
        if (here.groups is None) != (others.groups is None):
            return here
        rows, groups = self.test.slice(start), self.test.within
        labels = np.zeros(self.test.counts[start]) if groups is None else groups[rows]
        theirs = np.zeros(len(others.x)) if others.groups is None else others.groups
        joining = of_same_population(labels, self.test.totals[rows], theirs)
        return here.beside(others.rows(np.flatnonzero(joining)))

    def followed(self, start: int, k: int) -> bool:
        """Whether an individual of the k-th time is known to be among those of the `start`."""
        ids, rows = self.test.ids, self.test.slice
        return ids is not None and bool(np.isin(ids[rows(k)], ids[rows(start)]).any())

    def floor(self, k: int) -> Score:
        """The score of other individuals of the same population at the k-th time."""
        if k not in self.floors:
            self.floors[k] = self._floor(k)
        return self.floors[k]

    def _floor(self, k: int) -> Score:
        train, least = self.train, ENOUGH * self.size(k)
        if k in self.seen and train is not None:
            others = Sample.of(train, train.at(self.test.times[k]))
            if len(others.x) >= least:
                draw = lambda i, n: others.up_to(n, self.rng(k, i, 1))
                return self.compare(k, draw)
        half = min(len(Sample.of(self.test, k).x) // 2, MOST)
        if self.oracle is not None and (k in self.seen or half < least):
            return self.drawn(self.oracle, k)
        return {} if k in self.seen or not half else self._halves(k, half)

    def _halves(self, k: int, half: int) -> Score:
        truth, pairs = Sample.of(self.test, k), []
        for i in range(DRAWS):
            order = self.rng(k, i, 2).permutation(len(truth.x))
            pairs.append((truth.rows(order[:half]), truth.rows(order[half : 2 * half])))
        return self.mean_distances(pairs)


def _distance(task: tuple[str, Sample, Sample]) -> float:
    metric, a, b = task
    x, y = np.asarray(a.x, np.float64), np.asarray(b.x, np.float64)
    return DISTANCES[metric](x, y, a.weights, b.weights)
