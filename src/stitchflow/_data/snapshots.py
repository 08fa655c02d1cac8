"""Populations seen at a few times: point clouds of unequal sizes at real, uneven times."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from stitchflow._data.motion import Motion, Windows, actions, motion
from stitchflow._data.populations import as_total, population_codes, population_sizes
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
    """A population observed at several times: one long table of individuals, sorted by time.

    Make one with `from_arrays` or `from_table`, which check their input and sort it. The numbers of
    individuals may differ between times, and times may have any spacing. Methods that return a part
    of the data, such as `split`, return new snapshots and leave these unchanged.

    Arguments:
        x: the positions of all individuals, (n, dim).
        index: for each individual, the place of its time in `times`, (n,).
        times: the observed times, increasing.
        weights: how much each individual counts; they sum to the number of individuals of a time.
        ids: the same individual has the same id at all times; None where individuals are not
            followed.
        groups: the dish, donor, field of view or simulation of each individual; None where there
            are none. The individuals of one group at one time are a population: interactions act
            within it, and all groups inform one energy.
        rows: the row numbers of the individuals in the original table.
        names: the names of all rows of the original table, for display only.
        total: for each individual, how many interacting individuals its population had, where that
            was told; see `totals`.
        parent: for each individual, how many its population had in the table that this one is a
            part of; None where no population lost individuals.

    Examples:
        >>> clouds = [np.zeros((5, 2)), np.ones((7, 2))]
        >>> data = sf.Snapshots.from_arrays(clouds, times=[0.0, 2.5])
        >>> data
        Snapshots(2 times from 0 to 2.5, 12 individuals, 2 dimensions)
        >>> len(data), data.dim, data.counts.tolist()
        (2, 2, [5, 7])
        >>> data.cloud(1).shape
        (7, 2)
    """

    x: np.ndarray
    index: np.ndarray
    times: np.ndarray
    weights: np.ndarray
    ids: np.ndarray | None = None
    groups: np.ndarray | None = None
    rows: np.ndarray | None = None
    names: Any = None  # an array or pandas index, shared by all parts of the table
    total: np.ndarray | None = None
    parent: np.ndarray | None = None

    @staticmethod
    def from_arrays(
        clouds: Sequence[Any],
        times: Any,
        weights: Sequence[Any] | None = None,
        *,
        paired: bool = False,
        groups: Sequence[Any] | None = None,
        total: Any = None,
    ) -> Snapshots:
        """Make snapshots of one array per time.

        Arguments:
            clouds: one array (n, dim) for each time; n may differ between times, dim may not.
            times: the time of each cloud, in any order and with any spacing, all different.
            weights: one array (n,) for each time; None counts all individuals alike. Only ratios
                within a time matter.
            paired: whether row i of every cloud is the same individual, which gives individuals
                ids. All clouds must then have the same size.
            groups: one list (n,) for each time with the group of each individual, as in
                `from_table`; None where there are none.
            total: how many interacting individuals there were, as in `from_table`.

        Returns:
            Snapshots in the order of the times.

        Examples:
            >>> cloud = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
            >>> data = sf.Snapshots.from_arrays([cloud, cloud + 1.0], [0.0, 2.5], paired=True)
            >>> data.paths.shape
            (2, 3, 2)
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
        labels = None
        if groups is not None:
            lists = [np.asarray(as_labels(part, "groups")) for part in groups]
            if [part.shape for part in lists] != [(n,) for n in sizes]:
                shapes = [part.shape for part in lists]
                raise BadInput(f"groups must be lists of the clouds' sizes {sizes}, got {shapes}")
            labels = np.concatenate(lists)
        x, t = np.concatenate(clouds), np.repeat(times, sizes)
        return Snapshots.from_table(x, t, flat, ids, labels, total=total)

    @staticmethod
    def from_table(
        x: Any,
        t: Any,
        weights: Any = None,
        ids: Any = None,
        groups: Any = None,
        *,
        total: Any = None,
    ) -> Snapshots:
        """Make snapshots of a long table with one row per individual and time, in any order.

        Arguments:
            x: the positions, (n, dim).
            t: the time of each row; equal times make one snapshot.
            weights: how much each row counts; None counts all alike. Only ratios within a time
                matter.
            ids: which individual each row shows; rows with equal ids at different times are one
                individual. None where individuals are not followed.
            groups: the dish, donor, field of view or simulation of each row, the same at all times;
                None where there are none. Interactions act within a group. A clone or a cell type
                is not a group: it shares its dish with others.
            total: how many interacting individuals there were, where only some of them were seen:
                one number, or one for each group (a mapping, or a list in the order of the sorted
                groups). None means that all were seen.

        Returns:
            Snapshots with the rows sorted by time; `rows` are their numbers in the given table.

        Examples:
            >>> data = sf.Snapshots.from_table(np.arange(6.0).reshape(3, 2), t=[1.0, 0.0, 1.0])
            >>> data.times.tolist(), data.counts.tolist(), data.rows.tolist()
            ([0.0, 1.0], [1, 2], [1, 0, 2])
            >>> dishes = {"groups": ["a", "b", "a"], "total": {"a": 50, "b": 9}}
            >>> sf.Snapshots.from_table(np.zeros((3, 2)), [0.0, 0.0, 1.0], **dishes).totals.tolist()
            [50.0, 9.0, 50.0]
        """
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
        labels = take(as_labels(groups, "groups"))
        return Snapshots(
            x=x if in_order else x[order],  # a memory map stays one
            index=index,
            times=times,
            weights=_normalise(take(weights), index, n, order),
            ids=take(as_labels(ids, "ids")),
            groups=labels,
            rows=order,
            total=as_total(total, labels, population_codes(index, labels)),
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
        """The number of coordinates of an individual."""
        return self.x.shape[1]

    @cached_property
    def counts(self) -> np.ndarray:
        """The number of individuals at each time."""
        return np.bincount(self.index, minlength=len(self.times))

    @cached_property
    def populations(self) -> np.ndarray:
        """The number of each individual's population, counted by time and then by group, (n,).

        Without groups the individuals of a time are one population.
        """
        return population_codes(self.index, self.groups)

    @cached_property
    def totals(self) -> np.ndarray:
        """How many interacting individuals the population of each individual had, (n,).

        It is the given `total`. Without one it is the number of individuals who were seen, before
        this table was split or subsampled: a part of a table still interacted with the rest.
        """
        for known in (self.total, self.parent):
            if known is not None:
                return known
        return population_sizes(self.populations).astype(np.float64)

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.counts)])

    def slice(self, k: int) -> slice:
        """The rows of one time.

        Arguments:
            k: the place of the time in `times`.

        Returns:
            A slice of `x`, `index`, `weights` and the other columns.
        """
        return slice(int(self._starts[k]), int(self._starts[k + 1]))

    def cloud(self, k: int) -> np.ndarray:
        """The positions of the individuals of one time.

        Arguments:
            k: the place of the time in `times`.

        Returns:
            An array (n, dim).
        """
        return self.x[self.slice(k)]

    def cloud_weights(self, k: int) -> np.ndarray:
        """The weights of the individuals of one time.

        Arguments:
            k: the place of the time in `times`.

        Returns:
            An array (n,) with the sum n.
        """
        return self.weights[self.slice(k)]

    def uneven_weights(self, k: int) -> np.ndarray | None:
        """The weights of the individuals of one time where they differ.

        Arguments:
            k: the place of the time in `times`.

        Returns:
            An array (n,) with the sum n, or None where all weights are equal.
        """
        weights = self.cloud_weights(k)
        return None if np.ptp(weights) == 0 else weights

    @property
    def clouds(self) -> list[np.ndarray]:
        """The positions of the individuals of each time, one array (n, dim) each."""
        return [self.cloud(k) for k in range(len(self))]

    def at(self, t: float) -> int:
        """The place of an observed time in `times`.

        Arguments:
            t: a time; it may differ from the observed one by 1e-9 of the duration.

        Returns:
            A number k for `cloud(k)`. A time that was not observed raises an error that lists those
            that were.

        Examples:
            >>> data = sf.Snapshots.from_table(np.zeros((3, 1)), t=[0.0, 1.0, 2.5])
            >>> data.at(2.5)
            2
        """
        nearest = int(np.abs(self.times - check_number(t, "time")).argmin())
        if not near_times(t, self.times)[0, nearest]:
            listed = ", ".join(f"{u:.12g}" for u in self.times[:20])
            raise BadInput(f"time {t:.12g} was not observed; observed times are {listed}")
        return nearest

    def take(self, rows: np.ndarray) -> Snapshots:
        """Choose some rows of this table.

        Arguments:
            rows: row numbers of this table, not of the original one, in any order.

        Returns:
            Snapshots of those rows. Times without individuals of positive weight are removed.
            `totals` still count those who are left out of a population.
        """
        rows = np.sort(np.asarray(rows, int))
        left = np.bincount(self.index[rows], self.weights[rows], minlength=len(self))
        rows = rows[left[self.index[rows]] > 0]
        kept, index = np.unique(self.index[rows], return_inverse=True)
        pick = lambda column: None if column is None else column[rows]
        labels, before = pick(self.groups), self.totals[rows]
        whole = np.array_equal(before, population_sizes(population_codes(index, labels)))
        return replace(
            self,
            x=self.x[rows],
            index=index,
            times=self.times[kept],
            weights=_normalise(self.weights[rows], index, len(rows), rows),
            ids=pick(self.ids),
            groups=labels,
            rows=pick(self.rows),
            total=pick(self.total),
            parent=None if whole or self.total is not None else before,
        )

    def drop_times(self, times: Iterable[float]) -> Snapshots:
        """Leave out some of the observed times.

        Arguments:
            times: observed times.

        Returns:
            Snapshots of the individuals of the other times.
        """
        return self.take(np.flatnonzero(~np.isin(self.index, [self.at(t) for t in times])))

    def keep_times(self, times: Iterable[float]) -> Snapshots:
        """Choose some of the observed times.

        Arguments:
            times: observed times.

        Returns:
            Snapshots of the individuals of these times.
        """
        return self.take(np.flatnonzero(np.isin(self.index, [self.at(t) for t in times])))

    def split(
        self, fraction: float, key: KeyLike = 0, *, by: str | None = None
    ) -> tuple[Snapshots, Snapshots]:
        """Divide the individuals at random into two parts, such as training and test data.

        Every time keeps at least one individual in the first part. Where ids or groups are kept
        together, a part has no snapshot of a time at which it has no individuals. Parts keep
        `groups` and `totals`: an individual still interacted with those of the other part.

        Arguments:
            fraction: the share of the first part, above 0 and below 1, of the individuals of each
                time, or of all ids or groups where those are kept together.
            key: an integer seed or a JAX key; the same key gives the same parts.
            by: what is divided: "individual", "id" or "group". None means "id" where there are ids,
                so that an individual is in one part at all times, and else "individual".

        Returns:
            The two parts.

        Examples:
            >>> data = sf.Snapshots.from_arrays([np.zeros((10, 2)), np.ones((20, 2))], [0.0, 1.0])
            >>> train, test = data.split(0.7)
            >>> train.counts.tolist(), test.counts.tolist()
            ([7, 14], [3, 6])
            >>> test.totals.tolist()
            [10.0, 10.0, 10.0, 20.0, 20.0, 20.0, 20.0, 20.0, 20.0]
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
        """Draw individuals of each time at random, without replacement.

        Arguments:
            n: the largest number of individuals of a time; times with fewer keep all of them.
            key: an integer seed or a JAX key.

        Returns:
            Snapshots of the drawn individuals.
        """
        rng = as_rng(key)
        rows = [
            rng.permutation(np.arange(len(self.x))[self.slice(k)])[:n] for k in range(len(self))
        ]
        return self.take(np.concatenate(rows))

    def reweighted(self, key: KeyLike) -> Snapshots:
        """A bootstrap of the individuals of each time: the same individuals with random weights.

        Weights follow from draws with replacement. Individuals known by id have the same count at
        all times.

        Arguments:
            key: an integer seed or a JAX key.

        Returns:
            Snapshots with the same rows and other weights, some of them zero.
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
        for k in empty:  # all of a few individuals may be left out by chance
            weights[self.slice(k)] = self.cloud_weights(k)
        totals = np.bincount(self.index, weights=weights)
        return replace(self, weights=weights * (self.counts / totals)[self.index])

    @property
    def paired(self) -> bool:
        """Whether every time shows the same individuals, known by their ids."""
        if self.ids is None or len(set(self.counts)) > 1:
            return False
        first = np.sort(self.ids[self.slice(0)])
        clouds = (np.sort(self.ids[self.slice(k)]) for k in range(len(self)))
        return len(np.unique(first)) == len(first) and all((ids == first).all() for ids in clouds)

    @property
    def paths(self) -> np.ndarray:
        """The paths of the individuals of paired data, (time, individual, dim).

        Individuals are in the order of their ids. Data that is not paired raises an error.
        """
        return self._by_id(self.x)

    @property
    def path_weights(self) -> np.ndarray:
        """The weights along `paths`, (time, individual)."""
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
        """The units in which a fit to this data computes.

        The centre is the mean of all individuals, the length the root of the mean variance over
        dimensions, and the duration the time from the first to the last snapshot.
        """
        x = self.x.astype(np.float64)
        centre = x.mean(axis=0)
        length = float(np.sqrt(((x - centre) ** 2).mean()))
        duration = float(self.times[-1] - self.times[0])
        return Units(tuple(centre.tolist()), length or 1.0, float(self.times[0]), duration or 1.0)

    @cached_property
    def _windows(self) -> Windows:
        """What motion is estimated from: the paths of individuals, or pooled snapshots."""
        if self.paired:
            return Windows(self.times, list(self.paths))
        return Windows.of(self.times, self.clouds)

    @cached_property
    def motion(self) -> Motion:
        """How far individuals move over the whole time, and how much may be sampling noise."""
        return motion(self._windows.clouds, self.paired)

    @cached_property
    def actions(self) -> np.ndarray:
        """The squared displacement over the duration of each gap between times, (times - 1,).

        Large values show where motion is fast.
        """
        times, clouds = self._windows
        passed = np.cumsum(actions(clouds, self.paired) / np.diff(times))
        return np.diff(np.interp(self.times, times, np.concatenate([[0.0], passed])))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that a method stores of its data, without ids.

        Groups are stored as numbers, and how many interacted only where some were not seen.
        """
        stored = {"x": self.x, "index": self.index, "times": self.times, "weights": self.weights}
        if self.groups is not None:
            stored["group"] = np.unique(self.groups, return_inverse=True)[1]
        if self.total is not None or self.parent is not None:
            stored["total"] = np.ascontiguousarray(self.totals)
        return stored

    @staticmethod
    def from_stored(arrays: dict[str, np.ndarray]) -> Snapshots:
        """Snapshots from the arrays that a method has stored.

        Arguments:
            arrays: what `Snapshots.arrays` returned.

        Returns:
            Snapshots without ids and names.
        """
        t = arrays["times"][arrays["index"]]
        columns = {"weights": arrays["weights"], "groups": arrays.get("group")}
        data, total = Snapshots.from_table(arrays["x"], t, **columns), arrays.get("total")
        if total is not None and total.shape != t.shape:
            raise BadInput(f"total must have one entry per row {t.shape}, got {total.shape}")
        return replace(data, total=total)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything in the table, independent of the file it came from.

        The order of the rows matters. A `total` that was told counts; what a part remembers of the
        table it was split from does not, so that data without a `total` keeps its hash.
        """
        # Names of groups are told apart from the same names as ids.
        digest = hashlib.sha256(b"" if self.groups is None else b"groups")
        for column in (self.x, self.index, self.times, self.weights, self.ids, self.groups):
            if column is not None:
                # Texts, and dates, which Python's buffers do not know.
                text = column.dtype.kind in "OUSMm"
                digest.update(str(column.shape).encode())
                if text:
                    digest.update("\0".join(map(str, column)).encode())
                else:  # a memory map is hashed without a copy
                    digest.update(np.ascontiguousarray(column).data)
        if self.total is not None:
            digest.update(b"total" + np.ascontiguousarray(self.total).data)
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
