"""Populations seen at a few times: point clouds of unequal sizes at real, uneven times."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from stitchflow._data.motion import Motion, Windows, actions, motion
from stitchflow._data.units import Units
from stitchflow._html import table
from stitchflow._status import BadInput
from stitchflow._types import (
    KeyLike,
    as_cloud,
    as_labels,
    as_numbers,
    as_rng,
    as_times,
    check_number,
    check_unmasked,
    near_times,
    rows_named,
)

MOST_ROWS = 20  # of a table in a notebook


@dataclass(frozen=True, eq=False)
class Snapshots:
    """Individuals in one long table, sorted by time; time is an index into `times`.

    Make one with `from_arrays` or `from_table`. `weights` sum to the number of individuals within
    each time, `ids` name the same individual across times, `groups` a donor or replicate; `rows`
    are the row numbers of the table this came from, and `names` what that table calls all of its
    rows, for the eye only.
    """

    x: np.ndarray
    index: np.ndarray
    times: np.ndarray
    weights: np.ndarray
    ids: np.ndarray | None = None
    groups: np.ndarray | None = None
    rows: np.ndarray | None = None
    names: Any = None  # an array or pandas index, shared by all parts of the table

    @staticmethod
    def from_arrays(
        clouds: Sequence[Any],
        times: Any,
        weights: Sequence[Any] | None = None,
        *,
        paired: bool = False,
    ) -> Snapshots:
        """From one (n, dim) array per time; with `paired`, row i is the same individual throughout.

        >>> import numpy as np
        >>> Snapshots.from_arrays([np.zeros((5, 2)), np.ones((7, 2))], times=[0.0, 2.5])
        Snapshots(2 times from 0 to 2.5, 12 individuals, 2 dimensions)
        """
        times = as_times(times)
        if len(clouds) != len(times):
            raise BadInput(f"times must have one entry per cloud ({len(clouds)}), got {len(times)}")
        clouds = [as_cloud(cloud, f"cloud {i}") for i, cloud in enumerate(clouds)]
        for i, cloud in enumerate(clouds):
            if cloud.shape[1] != clouds[0].shape[1]:
                raise BadInput(
                    f"cloud {i} has {cloud.shape[1]} dimensions, cloud 0 has {clouds[0].shape[1]}"
                )
            if len(cloud) == 0:
                raise BadInput(f"cloud {i} (time {times[i]:g}) is empty")
        if len(np.unique(times)) != len(times):
            raise BadInput(f"times must differ from each other, got {times.tolist()}")
        sizes = [len(cloud) for cloud in clouds]
        ids = None
        if paired:
            if len(set(sizes)) > 1:
                raise BadInput(f"paired clouds must have equal sizes, got {sizes}")
            ids = np.tile(np.arange(sizes[0]), len(clouds))
        flat = None
        if weights is not None:
            lists = weights if np.iterable(weights) else [weights]
            each = [as_numbers(w, "weights") for w in lists]
            if [w.shape for w in each] != [(n,) for n in sizes]:
                shapes = [w.shape for w in each]
                raise BadInput(f"weights must be lists of the clouds' sizes {sizes}, got {shapes}")
            flat = np.concatenate(each)
        return Snapshots.from_table(
            np.concatenate(clouds), np.repeat(times, sizes), weights=flat, ids=ids
        )

    @staticmethod
    def from_table(
        x: Any, t: Any, weights: Any = None, ids: Any = None, groups: Any = None
    ) -> Snapshots:
        """From a long table: `x` (n, dim), the time of each row, and what else is known of it."""
        x = as_cloud(x, "x")
        t = as_times(t, "t")
        n = len(x)
        if n == 0:
            raise BadInput("x is empty: a table needs at least one row")
        columns = {"t": t, "weights": weights, "ids": ids, "groups": groups}
        for name, column in columns.items():
            if column is not None and np.shape(column) != (n,):
                raise BadInput(f"{name} must have one entry per row ({n},), got {np.shape(column)}")
        check_unmasked(weights, "weights")
        order = np.argsort(t, kind="stable")
        in_order = bool((np.diff(t) >= 0).all())
        times, index = np.unique(t[order], return_inverse=True)
        take = lambda column: None if column is None else np.asarray(column)[order]
        return Snapshots(
            x=x if in_order else x[order],  # a memory map stays one
            index=index,
            times=times,
            weights=_normalise(take(weights), index, n, order),
            ids=take(as_labels(ids, "ids")),
            groups=take(as_labels(groups, "groups")),
            rows=order,
        )

    def __repr__(self) -> str:
        t0, t1 = self.times[0], self.times[-1]
        return (
            f"Snapshots({len(self.times)} times from {t0:g} to {t1:g}, "
            f"{len(self.x)} individuals, {self.dim} dimensions)"
        )

    def _repr_html_(self) -> str:
        pairs = list(zip(self.times, self.counts, strict=True))
        rows = [(f"{t:g}", f"{n:,}") for t, n in pairs]
        if len(rows) > MOST_ROWS:
            half = MOST_ROWS // 2
            rows = [*rows[:half], ("...", f"{len(rows) - 2 * half} more"), *rows[-half:]]
        return table(repr(self), rows, ("time", "individuals"))

    def __len__(self) -> int:
        return len(self.times)

    @property
    def dim(self) -> int:
        """How many coordinates an individual has."""
        return self.x.shape[1]

    @cached_property
    def counts(self) -> np.ndarray:
        """How many individuals each time has."""
        return np.bincount(self.index, minlength=len(self.times))

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.counts)])

    def slice(self, k: int) -> slice:
        """The rows of the k-th time."""
        return slice(int(self._starts[k]), int(self._starts[k + 1]))

    def cloud(self, k: int) -> np.ndarray:
        """The individuals of the k-th time."""
        return self.x[self.slice(k)]

    def cloud_weights(self, k: int) -> np.ndarray:
        """The weights of the individuals of the k-th time."""
        return self.weights[self.slice(k)]

    def uneven_weights(self, k: int) -> np.ndarray | None:
        """The same, or None where all individuals of the k-th time count alike."""
        weights = self.cloud_weights(k)
        return None if np.ptp(weights) == 0 else weights

    @property
    def clouds(self) -> list[np.ndarray]:
        """The individuals of each time."""
        return [self.cloud(k) for k in range(len(self))]

    def at(self, t: float) -> int:
        """The index of an observed time, or an error that lists them."""
        nearest = int(np.abs(self.times - check_number(t, "time")).argmin())
        if not near_times(t, self.times)[0, nearest]:
            listed = ", ".join(f"{u:.12g}" for u in self.times[:20])
            raise BadInput(f"time {t:.12g} was not observed; observed times are {listed}")
        return nearest

    def take(self, rows: np.ndarray) -> Snapshots:
        """Chosen rows of this table; times left without anybody of weight disappear."""
        rows = np.sort(np.asarray(rows, int))
        left = np.bincount(self.index[rows], self.weights[rows], minlength=len(self))
        rows = rows[left[self.index[rows]] > 0]
        kept, index = np.unique(self.index[rows], return_inverse=True)
        pick = lambda column: None if column is None else column[rows]
        return replace(
            self,
            x=self.x[rows],
            index=index,
            times=self.times[kept],
            weights=_normalise(self.weights[rows], index, len(rows), rows),
            ids=pick(self.ids),
            groups=pick(self.groups),
            rows=pick(self.rows),
        )

    def drop_times(self, times: Iterable[float]) -> Snapshots:
        """Without the individuals of the given times."""
        return self.take(np.flatnonzero(~np.isin(self.index, [self.at(t) for t in times])))

    def keep_times(self, times: Iterable[float]) -> Snapshots:
        """Only the individuals of the given times."""
        return self.take(np.flatnonzero(np.isin(self.index, [self.at(t) for t in times])))

    def split(
        self, fraction: float, key: KeyLike = 0, *, by: str | None = None
    ) -> tuple[Snapshots, Snapshots]:
        """Two parts with `fraction` of the individuals of each time in the first.

        Every time keeps at least one individual in the first part. But individuals known by id stay
        on one side at all times, and `by="group"` keeps groups together: then `fraction` is a share
        of ids or groups, and a part has no snapshot of a time at which it has nobody.
        """
        check_number(fraction, "fraction", 0.0, 1.0, open_low=True)
        if by not in (None, "individual", "id", "group"):
            raise BadInput(f"by must be 'individual', 'id', 'group' or None, got {by!r}")
        rng = as_rng(key)
        if by is None:
            by = "individual" if self.ids is None else "id"
        if by != "individual":
            labels = self.ids if by == "id" else self.groups
            if labels is None:
                raise BadInput(f"by={by!r} needs {by}s, and this table has none")
            names, label = np.unique(labels, return_inverse=True)
            first = rng.permutation(len(names))[: max(1, round(fraction * len(names)))]
            chosen = np.isin(label, first)
        else:
            chosen = np.zeros(len(self.x), bool)
            for k in range(len(self)):
                rows = np.arange(len(self.x))[self.slice(k)]
                chosen[rng.permutation(rows)[: max(1, round(fraction * len(rows)))]] = True
        if chosen.all():
            raise BadInput(f"fraction={fraction:g} leaves nobody for the second part of {self!r}")
        return self.take(np.flatnonzero(chosen)), self.take(np.flatnonzero(~chosen))

    def subsample(self, n: int, key: KeyLike = 0) -> Snapshots:
        """At most n individuals of each time, drawn at random."""
        rng = as_rng(key)
        rows = [
            rng.permutation(np.arange(len(self.x))[self.slice(k)])[:n] for k in range(len(self))
        ]
        return self.take(np.concatenate(rows))

    def reweighted(self, key: KeyLike) -> Snapshots:
        """A bootstrap of the individuals of each time: the same ones, with random counts.

        Individuals known by id get one count for all times.
        """
        rng, weights = as_rng(key), np.empty(len(self.x))
        if self.ids is not None:
            names, label = np.unique(self.ids, return_inverse=True)
            counts = rng.multinomial(len(names), np.full(len(names), 1.0 / len(names)))[label]
            weights = counts * self.weights
        else:
            for k, n in enumerate(self.counts):
                share = self.cloud_weights(k) / n
                weights[self.slice(k)] = rng.multinomial(n, share / share.sum())
        empty = [k for k in range(len(self)) if not weights[self.slice(k)].any()]
        for k in empty:  # a handful of individuals may all be left out by chance
            weights[self.slice(k)] = self.cloud_weights(k)
        totals = np.bincount(self.index, weights=weights)
        return replace(self, weights=weights * (self.counts / totals)[self.index])

    @property
    def paired(self) -> bool:
        """Whether every time shows the same identified individuals."""
        if self.ids is None or len(set(self.counts)) > 1:
            return False
        first = np.sort(self.ids[self.slice(0)])
        clouds = (np.sort(self.ids[self.slice(k)]) for k in range(len(self)))
        return len(np.unique(first)) == len(first) and all((ids == first).all() for ids in clouds)

    @property
    def paths(self) -> np.ndarray:
        """(time, individual, dim) of paired data."""
        return self._by_id(self.x)

    @property
    def path_weights(self) -> np.ndarray:
        """(time, individual): the weights along `paths`."""
        return self._by_id(self.weights)

    def _by_id(self, column: np.ndarray) -> np.ndarray:
        """A column (time, individual, ...) with the same individual in the same place."""
        if not self.paired:
            raise BadInput("paths need the same identified individuals at every time")
        assert self.ids is not None
        parts = [self.slice(k) for k in range(len(self))]
        return np.stack([column[s][np.argsort(self.ids[s], kind="stable")] for s in parts])

    @cached_property
    def units(self) -> Units:
        """Centre, one common length (root mean variance) and one duration."""
        x = self.x.astype(np.float64)
        centre = x.mean(axis=0)
        length = float(np.sqrt(((x - centre) ** 2).mean()))
        duration = float(self.times[-1] - self.times[0])
        return Units(tuple(centre.tolist()), length or 1.0, float(self.times[0]), duration or 1.0)

    @cached_property
    def _windows(self) -> Windows:
        """What motion is told by: everybody's path, or snapshots taken together."""
        if self.paired:
            return Windows(self.times, list(self.paths))
        return Windows.of(self.times, self.clouds)

    @cached_property
    def motion(self) -> Motion:
        """How far individuals move over the whole time, and how much of it may be sampling."""
        return motion(self._windows.clouds, self.paired)

    @cached_property
    def actions(self) -> np.ndarray:
        """Squared way over duration of each gap: where motion is fast."""
        times, clouds = self._windows
        passed = np.cumsum(actions(clouds, self.paired) / np.diff(times))
        return np.diff(np.interp(self.times, times, np.concatenate([[0.0], passed])))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """What a baseline needs to keep of its data (ids and groups are not kept)."""
        return {"x": self.x, "index": self.index, "times": self.times, "weights": self.weights}

    @staticmethod
    def from_stored(arrays: dict[str, np.ndarray]) -> Snapshots:
        """Snapshots from `arrays`."""
        t = arrays["times"][arrays["index"]]
        return Snapshots.from_table(arrays["x"], t, weights=arrays["weights"])

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything in the table, whatever file it came from; its order counts."""
        digest = hashlib.sha256()
        for column in (self.x, self.index, self.times, self.weights, self.ids, self.groups):
            if column is not None:
                text = column.dtype.kind in "OU"
                digest.update(str(column.shape).encode())
                if text:
                    digest.update("\0".join(map(str, column)).encode())
                else:  # a memory map is hashed where it is, not copied
                    digest.update(np.ascontiguousarray(column).data)
        return digest.hexdigest()


def _normalise(weights: np.ndarray | None, index: np.ndarray, n: int, rows: np.ndarray):
    """Weights whose mean is one within each time."""
    if weights is None:
        return np.ones(n)
    values = np.asarray(as_numbers(weights, "weights"), np.float64)
    bad = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if bad.size:
        named = rows_named(np.sort(rows[bad]))
        raise BadInput(f"weights must be finite and not negative, got otherwise in {named}")
    largest = np.zeros(index.max(initial=-1) + 1)
    np.maximum.at(largest, index, values)
    if (largest <= 0).any():
        raise BadInput("weights must not be all zero within a time")
    odd = (largest <= 1e-100) | (largest >= 1e100)  # their sums would be zero or infinite
    values = values / np.where(odd, largest, 1.0)[index]
    totals = np.bincount(index, weights=values)
    return values * (np.bincount(index) / totals)[index]
