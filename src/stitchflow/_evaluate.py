"""Held-out scores: the protocols, draws and floors by which every method is judged alike."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np

from stitchflow._extras import require
from stitchflow._method import Fit
from stitchflow._progress import tqdm
from stitchflow._snapshots import Snapshots
from stitchflow._status import NotAvailable
from stitchflow._types import KeyLike, as_key, as_rng
from stitchflow.metrics import DISTANCES

DRAWS = 3
MOST = 2000
PROTOCOLS = ("marginal", "one-step", "rollout", "interpolate", "forecast")


@dataclass(frozen=True)
class Row:
    """One score. `time` is None for the mean over times; `floor` None where it is unknown."""

    protocol: str
    metric: str
    time: float | None
    value: float
    floor: float | None


class Scores(list[Row]):
    """Rows of an evaluation."""

    def to_pandas(self) -> Any:
        """A data frame of one row a score."""
        return require("pandas", "data").DataFrame([asdict(row) for row in self])

    def mean(self, protocol: str, metric: str = "w1") -> float:
        """The mean over times of one protocol and metric."""
        for row in self:
            if (row.protocol, row.metric, row.time) == (protocol, metric, None):
                return row.value
        raise KeyError(f"no mean of {metric} under {protocol} among these scores")

    def __rich__(self) -> Any:
        return table({"value": self})

    def __str__(self) -> str:
        return as_text(self, 100)

    __repr__ = __str__


def as_text(view: Any, width: int) -> str:
    """What rich would print of a view."""
    from rich.console import Console

    console = Console(width=width)
    with console.capture() as text:
        console.print(view)
    return text.get()


def table(columns: dict[str, Scores], title: str | None = None) -> Any:
    """Scores of one or several methods side by side, with the first one's floor, for rich."""
    from rich.table import Table

    view = Table(title=title)
    for name in ("protocol", "metric", "time"):
        view.add_column(name)
    for name in (*columns, "floor"):
        view.add_column(name, justify="right")
    found = [{(r.protocol, r.metric, r.time): r for r in rows} for rows in columns.values()]
    last = None
    for place, row in found[0].items():
        if last is not None and place[:2] != last:
            view.add_section()
        last = place[:2]
        values = [f"{rows[place].value:.4g}" if place in rows else "-" for rows in found]
        floor = "-" if row.floor is None else f"{row.floor:.4g}"
        time = "mean" if row.time is None else f"{row.time:g}"
        view.add_row(row.protocol, row.metric, time, *values, floor)
    return view


def evaluate(
    fit: Fit,
    test: Snapshots,
    *,
    metrics: Sequence[str] = tuple(DISTANCES),
    protocols: Sequence[str] = PROTOCOLS,
    key: KeyLike = 0,
    progress: bool = False,
) -> Scores:
    """Score a fit on individuals it has not seen.

    Times the fit was trained on are judged by `marginal`, `one-step` and `rollout`; a time it never
    saw by `interpolate` inside its range and `forecast` after it. A protocol that the method cannot
    answer has no rows.
    """
    if not isinstance(test, Snapshots):
        raise TypeError(f"test must be Snapshots, got {type(test).__name__}")
    if test.dim != fit.flow.dim:
        raise ValueError(f"test must have {fit.flow.dim} dimensions, got {test.dim}")
    _check_names("metrics", metrics, DISTANCES)
    _check_names("protocols", protocols, PROTOCOLS)
    judge = _Judge(fit, test, tuple(metrics), as_key(key))
    rows = Scores()
    for protocol in tqdm(protocols, desc="evaluate", disable=not progress, leave=False):
        try:
            scores = list(_SCORERS[protocol](judge))
        except NotAvailable:
            continue
        rows.extend(judge.rows(protocol, scores))
    return rows


def _check_names(argument: str, given: Iterable[str], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"{argument} must be among {', '.join(known)}; got {name!r}")


# By held-out individuals, then by those trained on: they, and not a fit, have a floor, and
# several methods are judged by the same ones.
_FLOORS: WeakKeyDictionary[Snapshots, WeakKeyDictionary[Snapshots, dict]] = WeakKeyDictionary()


def _floors_of(fit: Fit, test: Snapshots, metrics: tuple[str, ...], key: jax.Array) -> dict:
    """The floors found so far of the same individuals, metrics, times and draws."""
    trained = _FLOORS.setdefault(test, WeakKeyDictionary())
    known = trained.setdefault(test if fit.data is None else fit.data, {})
    draws = np.asarray(jax.random.key_data(key)).tobytes()
    return known.setdefault((metrics, fit.times.tobytes(), draws), {})


class _Judge:
    """Compares clouds with held-out individuals; draws depend on the time only, not the method."""

    def __init__(self, fit: Fit, test: Snapshots, metrics: tuple[str, ...], key: jax.Array):
        self.fit, self.test, self.metrics, self.key = fit, test, metrics, key
        span = max(float(np.ptp(fit.times)), 1e-300)
        near = np.abs(test.times[:, None] - fit.times[None, :]) <= 1e-9 * span
        self.seen = [int(k) for k in np.flatnonzero(near.any(axis=1))]
        inside = (test.times > fit.times[0]) & (test.times < fit.times[-1])
        unseen = [k for k in range(len(test)) if k not in self.seen]
        self.between = [k for k in unseen if inside[k]]
        self.beyond = [k for k in unseen if test.times[k] > fit.times[-1]]
        self._floors = _floors_of(fit, test, self.metrics, key)

    def _pick(self, cloud: np.ndarray, weights: np.ndarray | None, n: int, rng) -> np.ndarray:
        p = None if weights is None or np.ptp(weights) == 0 else weights / weights.sum()
        return cloud[rng.choice(len(cloud), n, replace=False, p=p)]

    def compare(self, k: int, clouds: Callable[[int, int], np.ndarray]) -> dict[str, float]:
        """Mean over draws of every metric; `clouds(draw, n)` gives a cloud of n or more points."""
        truth, weights = self.test.cloud(k), self.test.cloud_weights(k)
        pairs = []
        for draw in range(DRAWS):
            rng = self.rng(k, draw)
            cloud = np.asarray(clouds(draw, min(len(truth), MOST)), np.float64)
            if not np.isfinite(cloud).all():
                when = self.test.times[k]
                warnings.warn(f"the cloud at time {when:g} is not finite; no score", stacklevel=2)
                return {}
            n = min(len(cloud), int(np.count_nonzero(weights)), MOST)
            pairs.append((self._pick(cloud, None, n, rng), self._pick(truth, weights, n, rng)))
        return self.mean_distances(pairs)

    def mean_distances(self, pairs: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
        """Every metric, averaged over pairs of clouds; the solvers run in threads of their own."""
        tasks = [(m, *pair) for m in self.metrics for pair in pairs]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            values = list(pool.map(_distance, tasks))
        means = np.reshape(values, (len(self.metrics), len(pairs))).mean(axis=1)
        return dict(zip(self.metrics, means.tolist(), strict=True))

    def rng(self, *place: int) -> np.random.Generator:
        """The generator of one place: the same for every method."""
        key = self.key
        for number in place:
            key = jax.random.fold_in(key, number)
        return as_rng(key)

    def floor(self, k: int) -> dict[str, float]:
        """What a perfect model would score: other individuals of the same time."""
        if k not in self._floors:
            self._floors[k] = self._floor(k)
        return self._floors[k]

    def _floor(self, k: int) -> dict[str, float]:
        if k in self.seen:
            train = self.fit.data
            if train is None:
                return {}
            j = train.at(self.test.times[k])
            cloud, weights = train.cloud(j), train.cloud_weights(j)

            def draw(i: int, n: int) -> np.ndarray:
                n = min(n, int(np.count_nonzero(weights)))
                return self._pick(cloud, weights, n, self.rng(k, i, 1))

            return self.compare(k, draw)
        truth, pairs = self.test.cloud(k), []
        if len(truth) < 2:
            return {}
        half = min(len(truth) // 2, MOST)
        for i in range(DRAWS):
            order = self.rng(k, i, 2).permutation(len(truth))
            pairs.append((truth[order[:half]], truth[order[half : 2 * half]]))
        return self.mean_distances(pairs)

    def rows(self, protocol: str, scores: list[tuple[int, dict[str, float]]]) -> Iterable[Row]:
        for metric in self.metrics:
            times, values, floors = [], [], []
            for k, score in scores:
                if metric in score:
                    floor = self.floor(k).get(metric)
                    times.append(k)
                    values.append(score[metric])
                    floors.append(floor)
                    yield Row(protocol, metric, float(self.test.times[k]), score[metric], floor)
            # The first observed time is where everything starts: it is not part of the mean.
            kept = [i for i, k in enumerate(times) if self.test.times[k] > self.fit.times[0]]
            if kept and len(values) == len(scores):
                known = [floors[i] for i in kept if floors[i] is not None]
                floor = float(np.mean(known)) if len(known) == len(kept) else None
                yield Row(protocol, metric, None, float(np.mean([values[i] for i in kept])), floor)

    def simulated(self, start: int, times: Any) -> np.ndarray:
        key = jax.random.fold_in(jax.random.fold_in(self.key, 3000), start)
        return np.asarray(self.fit.flow.simulate(self.test.cloud(start), times, key=key))


def _distance(task: tuple[str, np.ndarray, np.ndarray]) -> float:
    metric, x, y = task
    return DISTANCES[metric](np.asarray(x, np.float64), np.asarray(y, np.float64))


def _drawn(judge: _Judge, times: list[int]) -> Iterable[tuple[int, dict[str, float]]]:
    for k in times:
        t = float(judge.test.times[k])

        def draw(i: int, n: int, t: float = t, k: int = k) -> np.ndarray:
            key = jax.random.fold_in(jax.random.fold_in(judge.key, 4000 + k), i)
            return np.asarray(judge.fit.flow.sample([t], n, key=key)[0])

        yield k, judge.compare(k, draw)


def _marginal(judge: _Judge):
    return _drawn(judge, judge.seen)


def _interpolate(judge: _Judge):
    return _drawn(judge, judge.between)


def _one_step(judge: _Judge):
    times = judge.test.times
    for k, after in zip(judge.seen[:-1], judge.seen[1:], strict=True):
        end = judge.simulated(k, [times[k], times[after]])[-1]
        yield after, judge.compare(after, lambda draw, n, end=end: end)


def _rollout(judge: _Judge):
    if len(judge.seen) < 2:
        return
    path = judge.simulated(judge.seen[0], judge.test.times[judge.seen])
    for k, cloud in zip(judge.seen[1:], path[1:], strict=True):
        yield k, judge.compare(k, lambda draw, n, cloud=cloud: cloud)


def _forecast(judge: _Judge):
    if not judge.beyond or not judge.seen:
        return
    start = judge.seen[-1]
    path = judge.simulated(start, judge.test.times[[start, *judge.beyond]])
    for k, cloud in zip(judge.beyond, path[1:], strict=True):
        yield k, judge.compare(k, lambda draw, n, cloud=cloud: cloud)


_SCORERS: dict[str, Callable] = {
    "marginal": _marginal,
    "one-step": _one_step,
    "rollout": _rollout,
    "interpolate": _interpolate,
    "forecast": _forecast,
}
