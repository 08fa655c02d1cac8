"""Cross-validation: fit every method without some times, groups or conditions, and score those."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from stitchflow._data.checks import check_data
from stitchflow._data.snapshots import Snapshots
from stitchflow._judging.evaluate import check_names, evaluate
from stitchflow._judging.protocols import PROTOCOLS, Protocol
from stitchflow._judging.scores import WIDTH, as_text, broken, fitting
from stitchflow._judging.trivial import TRIVIAL
from stitchflow._method.contract import Method, method_named
from stitchflow._status import BadInput, ExtrapolationWarning, require
from stitchflow._stitching.stitching import fit
from stitchflow._training.cluster import ClusterLike, check_cluster, run_all
from stitchflow._types import KeyLike, as_rng, check_count
from stitchflow.metrics import DISTANCES

COMPARED = ("stitching", "stitching-varying", *TRIVIAL)

# The protocols where times were left out, and where groups or conditions were left out.
ABOUT_UNSEEN = tuple(protocol for protocol in PROTOCOLS if protocol.judged.unseen)
WITHIN_RANGE = tuple(protocol for protocol in PROTOCOLS if protocol is not Protocol.FORECAST)

# Share of the individuals of the last trained time that are kept from training, so that a forecast
# can start from them.
STARTERS = 0.2


@dataclass(frozen=True)
class FoldScore:
    """One score of one method on what was left out.

    Arguments:
        method: the label of the method: its name, unless the caller gave it another one.
        seed: the seed of the fit.
        left_out: the times, the group or the condition that were left out, as text.
        protocol: what was asked of the fit, such as `interpolate`.
        metric: the distance, such as `w1`.
        time: the time of the score; None for the mean over times.
        value: the value of the metric; smaller is better.
        floor: what a perfect model is expected to score; None where it is unknown.
        seconds_train: how long the fit took.
        steps: the number of its steps.
    """

    method: str
    seed: int
    left_out: str
    protocol: str
    metric: str
    time: float | None
    value: float
    floor: float | None
    seconds_train: float
    steps: int


@dataclass(frozen=True)
class Fold:
    """One split of the data.

    Arguments:
        left_out: a name for what was left out.
        train: the individuals to train on.
        test: the individuals to judge by.
        protocols: what is asked of a fit.
    """

    left_out: str
    train: Snapshots
    test: Snapshots
    protocols: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Trial:
    """One fit to one fold; for a method without randomness it represents all seeds.

    Arguments:
        fold: the split of the data.
        name: how the method is called in the scores.
        method: the method.
        seeds: the seeds that this fit represents; the first one is used.
    """

    fold: Fold
    name: str
    method: Method
    seeds: tuple[int, ...]

    def __str__(self) -> str:
        return f"without {self.fold.left_out}: {self.name}"

    def score(self, metrics: Sequence[str], key: KeyLike) -> list[FoldScore]:
        """Fit, and return the scores for every metric and seed."""
        fold, found = self.fold, fit(self.fold.train, self.method, self.seeds[0], progress=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExtrapolationWarning)
            rows = evaluate(found, fold.test, metrics=metrics, protocols=fold.protocols, key=key)
        cost = {"seconds_train": found.seconds, "steps": found.steps}
        return [
            FoldScore(self.name, seed, fold.left_out, **asdict(row), **cost)
            for seed in self.seeds
            for row in rows
        ]


class CrossValidation(list[FoldScore]):
    """The scores of all folds, as a list of rows that prints as a table.

    Arguments:
        iterable: the rows, each a `FoldScore`.

    >>> CrossValidation([]).methods
    []
    """

    def to_pandas(self) -> Any:
        """A data frame with one row for each score."""
        return require("pandas", "data").DataFrame([asdict(row) for row in self])

    @property
    def methods(self) -> list[str]:
        """The names of the methods, in their order."""
        return list(dict.fromkeys(row.method for row in self))

    @property
    def metrics(self) -> list[str]:
        """The names of the distances, in their order."""
        return list(dict.fromkeys(row.metric for row in self))

    def places(self, metric: str) -> list[tuple[str, str, float | None]]:
        """(left out, protocol, time) of every score of a metric, in the order of the folds."""
        rows = (row for row in self if row.metric == metric)
        return list(dict.fromkeys((row.left_out, row.protocol, row.time) for row in rows))

    def value(self, method: str, metric: str, place: tuple[str, str, float | None]) -> float | None:
        """The mean over seeds of one score; None where the method does not have it.

        Arguments:
            method: the name of the method.
            metric: the distance.
            place: one of `places(metric)`.
        """
        values = [
            row.value
            for row in self
            if (row.method, row.metric) == (method, metric)
            and (row.left_out, row.protocol, row.time) == place
        ]
        return float(np.mean(values)) if values else None

    def floor(self, metric: str, place: tuple[str, str, float | None]) -> float | None:
        """What a perfect model is expected to score at a place; None where that is unknown."""
        for row in self:
            if row.metric == metric and (row.left_out, row.protocol, row.time) == place:
                return row.floor
        return None

    def ratio(self, method: str, metric: str, protocol: str = Protocol.INTERPOLATE) -> float | None:
        """The score of a method relative to the better of the two trivial methods.

        It is the geometric mean over times; a value below one means better than both the nearest
        snapshot and straight lines. None where there is no such score.

        Arguments:
            method: the label of the method, one of `methods`.
            metric: the distance, one of `metrics`.
            protocol: which scores are compared.
        """
        check_names("method", [method], self.methods)
        check_names("metric", [metric], self.metrics)
        check_names("protocol", [protocol], PROTOCOLS)
        ratios = []
        for place in self.places(metric):
            trivial = [self.value(name, metric, place) for name in TRIVIAL]
            known = [value for value in trivial if value is not None]
            own = self.value(method, metric, place)
            if place[1] == protocol and place[2] is not None and known and own is not None:
                ratios.append(own / min(known))
        return float(np.exp(np.mean(np.log(ratios)))) if ratios else None

    def __rich__(self) -> Any:
        from rich.console import Group

        parts = fitting(self.methods, WIDTH - 46)  # what the other columns take
        return Group(*(self._table(metric, part) for metric in self.metrics for part in parts))

    def _table(self, metric: str, methods: list[str]) -> Any:
        """The scores of some methods by one metric; a row for each place."""
        from rich import box
        from rich.table import Table

        view = Table(title=f"left out, then scored: {metric}", box=box.SIMPLE_HEAD)
        for name in ("left out", "protocol", "time"):
            view.add_column(name)
        for name in (*map(broken, methods), "floor"):
            view.add_column(name, justify="right")
        cell = lambda value: "-" if value is None else f"{value:.4g}"
        for place in self.places(metric):
            left_out, protocol, time = place
            values = (cell(self.value(name, metric, place)) for name in methods)
            when = "mean" if time is None else f"{time:g}"
            view.add_row(left_out, protocol, when, *values, cell(self.floor(metric, place)))
        ratios = [cell(self.ratio(name, metric)) for name in methods]
        if any(ratio != "-" for ratio in ratios):
            view.add_section()
            view.add_row("all", str(Protocol.INTERPOLATE), "ratio", *ratios, "-")
            view.caption = f"ratio to the better of {' and '.join(TRIVIAL)}, over all times"
        return view

    def __str__(self) -> str:
        return as_text(self, WIDTH)

    __repr__ = __str__


def cross_validate(
    data: Snapshots,
    methods: Mapping[str, str | Method] | Sequence[str | Method] | None = None,
    *,
    leave_out: str | Sequence[Any] = "each",
    seeds: Iterable[int] = (0,),
    metrics: Sequence[str] = ("w1", "w2", "energy_distance"),
    pca: int | None = None,
    key: KeyLike = 0,
    cluster: ClusterLike = None,
    arrived: Callable[[list[FoldScore]], Any] | None = None,
    progress: bool = True,
) -> CrossValidation:
    """Fit every method without a part of the data and score it on that part.

    Arguments:
        data: snapshots of three or more times, or with groups or conditions.
        methods: names or `Method` objects, or a dictionary of them by a label of your own, with
            which several settings of one method can be compared. None compares `stitching`,
            `stitching-varying` and the two trivial methods `nearest` and `ot-linear`.
        leave_out: "each" leaves out every time but the first in turn; inner times are judged by
            `interpolate` and the last one by `forecast`. A list leaves out the given times, one
            fold for each entry, and an entry may be several times. "groups" leaves out every group
            in turn and "conditions" every condition, judged by all protocols but `forecast`. A
            condition that was left out is moved by what the others share.
        seeds: every method with randomness is fitted once for each seed.
        metrics: the distances to compute, names in `stitchflow.metrics.DISTANCES`.
        pca: project on this many principal components of the training individuals of each fold;
            None keeps the coordinates.
        key: a JAX key or an integer seed of the scores, whose draws are the same for all methods.
        cluster: where fits run, as in `run_all`: None here, a number of local workers, or the
            address of a Dask cluster.
        arrived: a function that is called with the scores of each fit as soon as it is done.
        progress: whether a progress bar is shown.

    Returns:
        A list of scores that prints as a table.

    >>> scores = sf.cross_validate(data, seeds=range(3))      # doctest: +SKIP
    >>> scores.ratio("stitching", "w1")                       # doctest: +SKIP
    >>> two = {"wide": sf.Stitching(particles=400), "default": "stitching"}
    >>> scores = sf.cross_validate(data, two)                 # doctest: +SKIP
    """
    check_data(data)
    check_cluster(cluster)
    check_names("metrics", metrics, DISTANCES)
    chosen = _labelled(COMPARED if methods is None else methods)
    seeds = [check_count(seed, "seeds", 0) for seed in seeds]
    if not seeds:
        raise BadInput("seeds must hold at least one seed")
    folds = list(folds_of(data, leave_out, key))
    if pca is not None:
        check_count(pca, "pca")
        if pca > data.dim:
            raise BadInput(f"pca must be at most the {data.dim} dimensions there are, got {pca}")
        folds = [_projected(fold, pca) for fold in folds]
    trials = [
        Trial(fold, name, method, part)
        for fold in folds
        for name, method in chosen.items()
        for part in ([tuple(seeds)] if method.name in TRIVIAL else [(seed,) for seed in seeds])
    ]
    found: dict[Trial, list[FoldScore]] = {}
    judge = partial(Trial.score, metrics=metrics, key=key)
    for trial, rows in run_all(
        judge, trials, cluster=cluster, label="cross-validate", progress=progress
    ):
        if isinstance(rows, Exception):
            raise rows
        found[trial] = rows
        if arrived is not None:
            arrived(rows)
    return CrossValidation(row for trial in trials for row in found[trial])


def _labelled(
    methods: Mapping[str, str | Method] | Sequence[str | Method],
) -> dict[str, Method]:
    """The methods by their labels, which have to differ: equal ones would be averaged."""
    if isinstance(methods, str):
        raise BadInput(f"methods must be a list or a dictionary of methods, got {methods!r}")
    if not isinstance(methods, Mapping):
        names = [entry.name if isinstance(entry, Method) else entry for entry in methods]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            words = f"methods has {twice[0]!r} twice"
            label = '{"narrow": ..., "wide": ...}'
            raise BadInput(f"{words}; give each a label of its own: methods={label}")
        methods = dict(zip(names, methods, strict=True))
    if not methods:
        raise BadInput("methods must name at least one method")
    found = {}
    for label, entry in methods.items():
        if not isinstance(label, str) or not label:
            raise BadInput(f"the labels of methods must be texts, got {label!r}")
        found[label] = entry if isinstance(entry, Method) else method_named(entry, "methods")
    return found


def folds_of(data: Snapshots, leave_out: str | Sequence[Any], key: KeyLike) -> Iterable[Fold]:
    """The folds that `leave_out` describes; invalid requests are refused before any fit.

    Arguments:
        data: all individuals.
        leave_out: as in `cross_validate`.
        key: the random key of the individuals from which forecasts start.
    """
    if isinstance(leave_out, str):
        if leave_out in ("groups", "conditions"):
            yield from _label_folds(data, leave_out)
            return
        if leave_out != "each":
            known = "'each', 'groups', 'conditions' or times"
            raise BadInput(f"leave_out must be {known}, got {leave_out!r}")
        if len(data) < 3:
            raise BadInput(f"leaving a time out needs three or more, got {data.times.tolist()}")
        leave_out = data.times[1:].tolist()
    if not len(leave_out):
        raise BadInput("leave_out names no time")
    for entry in leave_out:
        out = [data.at(t) for t in np.atleast_1d(entry).tolist()]
        times, hidden = data.times[out].tolist(), np.isin(data.index, out)
        kept = np.unique(data.index[~hidden])
        if len(kept) < 2:
            raise BadInput(f"leaving out {times} keeps fewer than two times to train on")
        if min(times) < data.times[kept[0]]:
            raise BadInput(f"leaving out the first time ({min(times):g}) cannot be judged")
        if max(times) > data.times[kept[-1]]:  # a forecast starts from held-out individuals
            hidden |= starters(data, int(kept[-1]), key)
            if len(np.unique(data.index[~hidden])) < len(kept):
                raise BadInput(
                    f"leaving out {times} hides whom its forecast starts from at all times, and "
                    "at one of them nobody else is left to train on"
                )
        yield Fold(
            "+".join(f"{t:.12g}" for t in times),
            data.take(np.flatnonzero(~hidden)),
            data.take(np.flatnonzero(hidden)),
            ABOUT_UNSEEN,
        )


def starters(data: Snapshots, k: int, key: KeyLike) -> np.ndarray:
    """A mask of the individuals from which a forecast starts.

    It contains a fifth of the individuals of one time and, by their ids, the same individuals at
    all other times.

    Arguments:
        data: all individuals.
        k: the number of the time.
        key: the random key of the choice.
    """
    rows = np.arange(len(data.x))[data.slice(k)]
    some = as_rng(key).permutation(rows)[: max(1, round(STARTERS * len(rows)))]
    labels = np.arange(len(data.x)) if data.ids is None else data.ids
    mask = np.isin(labels, labels[some])
    if mask[rows].all():
        raise BadInput(f"time {data.times[k]:g} has too few individuals to start a forecast from")
    return mask


def _label_folds(data: Snapshots, kind: str) -> Iterable[Fold]:
    """One fold for every group or condition, as `kind` says."""
    labels = data.groups if kind == "groups" else data.conditions
    if labels is None:
        raise BadInput(f"leave_out={kind!r} needs {kind}, and this table has none")
    names = np.unique(labels)
    if len(names) < 2:
        raise BadInput(f"leave_out={kind!r} needs two {kind} or more, got {names.tolist()}")
    for name in names:
        own = labels == name
        train, test = data.take(np.flatnonzero(~own)), data.take(np.flatnonzero(own))
        if len(train) < 2:
            raise BadInput(f"without {kind[:-1]} {name} fewer than two times are left")
        yield Fold(str(name), train, test, WITHIN_RANGE)


def _projected(fold: Fold, dims: int) -> Fold:
    """Training and test individuals in the principal components of the training individuals."""
    x = fold.train.x.astype(np.float64)
    centre = x.mean(axis=0)
    axes = np.linalg.svd(x - centre, full_matrices=False)[2][:dims].T
    project = lambda part: replace(part, x=((part.x - centre) @ axes).astype(part.x.dtype))
    return replace(fold, train=project(fold.train), test=project(fold.test))
