"""Populations seen at a few times: point clouds of unequal sizes at real, uneven times."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from stitchflow._data.columns import as_clouds, joined_labels, joined_weights, normalised
from stitchflow._data.conditions import check_within_groups, names_of, place_of
from stitchflow._data.draws import bootstrap_weights, divided, some_of_each_time
from stitchflow._data.individuals import Individuals
from stitchflow._data.populations import as_total, population_codes, population_sizes
from stitchflow._status import BadInput
from stitchflow._types import KeyLike, as_cloud, as_labels, as_times, check_unmasked


@dataclass(frozen=True, eq=False, repr=False)
class Snapshots(Individuals):
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
        conditions: what was done to each individual, such as control or treated; None where there
            are none. Part of the energy may differ between conditions.

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

    groups: np.ndarray | None = None
    rows: np.ndarray | None = None
    names: Any = None  # an array or pandas index, shared by all parts of the table
    total: np.ndarray | None = None
    parent: np.ndarray | None = None
    conditions: np.ndarray | None = None

    @staticmethod
    def from_arrays(
        clouds: Sequence[Any],
        times: Any,
        weights: Sequence[Any] | None = None,
        *,
        paired: bool = False,
        groups: Sequence[Any] | None = None,
        conditions: Sequence[Any] | None = None,
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
            conditions: one list (n,) for each time with the condition of each individual, as in
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
        clouds = as_clouds(clouds, times)
        sizes = [len(cloud) for cloud in clouds]
        ids = None
        if paired:
            if len(set(sizes)) > 1:
                raise BadInput(f"paired clouds must have equal sizes, got {sizes}")
            ids = np.tile(np.arange(sizes[0]), len(clouds))
        return Snapshots.from_table(
            np.concatenate(clouds),
            np.repeat(times, sizes),
            joined_weights(weights, sizes),
            ids,
            joined_labels(groups, sizes, "groups"),
            joined_labels(conditions, sizes, "conditions"),
            total,
        )

    @staticmethod
    def from_table(
        x: Any,
        t: Any,
        weights: Any = None,
        ids: Any = None,
        groups: Any = None,
        conditions: Any = None,
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
            conditions: what was done to each row, such as control or treated, constant within a
                group; None where there are none. Without groups a condition is one population.
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
        columns = {"t": t, "weights": weights, "ids": ids}
        columns |= {"groups": groups, "conditions": conditions}
        for name, column in columns.items():
            if column is not None and np.shape(column) != (n,):
                raise BadInput(f"{name} must have one entry per row ({n},), got {np.shape(column)}")
        check_unmasked(weights, "weights")
        order = np.argsort(t, kind="stable")
        in_order = bool((np.diff(t) >= 0).all())
        times, index = np.unique(t[order], return_inverse=True)
        take = lambda column: None if column is None else np.asarray(column)[order]
        labels, kinds = take(as_labels(groups, "groups")), take(as_labels(conditions, "conditions"))
        check_within_groups(kinds, labels)
        apart = kinds if labels is None else labels
        return Snapshots(
            x=x if in_order else x[order],  # a memory map stays one
            index=index,
            times=times,
            weights=normalised(take(weights), index, n, order),
            ids=take(as_labels(ids, "ids")),
            groups=labels,
            rows=order,
            total=as_total(total, apart, population_codes(index, apart)),
            conditions=kinds,
        )

    @cached_property
    def populations(self) -> np.ndarray:
        """The number of each individual's population, counted by time and then by group, (n,).

        Without groups the individuals of a time are one population, or one for each condition.
        """
        return population_codes(self.index, self.within)

    @property
    def within(self) -> np.ndarray | None:
        """The labels within which interactions act, (n,): groups, or else conditions, or None."""
        return self.conditions if self.groups is None else self.groups

    @property
    def condition_names(self) -> tuple[str, ...]:
        """The names of the conditions as text, in their order; none where there are none."""
        return () if self.conditions is None else names_of(self.conditions)

    def of(self, condition: Any) -> Snapshots:
        """The individuals of one condition.

        Arguments:
            condition: its label; one that there is not is refused.

        Returns:
            Snapshots of its individuals, at the times at which it was seen.

        Examples:
            >>> kinds = {"conditions": ["control", "treated", "control"]}
            >>> data = sf.Snapshots.from_table(np.zeros((3, 1)), [0.0, 0.0, 1.0], **kinds)
            >>> data.of("control").counts.tolist()
            [1, 1]
        """
        place_of(condition, self.condition_names)
        assert self.conditions is not None
        names, label = np.unique(self.conditions, return_inverse=True)
        wanted = list(map(str, names.tolist())).index(str(condition))
        return self.take(np.flatnonzero(label == wanted))

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
        before, apart = self.totals[rows], population_codes(index, pick(self.within))
        whole = np.array_equal(before, population_sizes(apart))
        return replace(
            self,
            x=self.x[rows],
            index=index,
            times=self.times[kept],
            weights=normalised(self.weights[rows], index, len(rows), rows),
            ids=pick(self.ids),
            groups=pick(self.groups),
            rows=pick(self.rows),
            total=pick(self.total),
            parent=None if whole or self.total is not None else before,
            conditions=pick(self.conditions),
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
        `groups`, `conditions` and `totals`: an individual still interacted with those of the other
        part.

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
        if by not in (None, "individual", "id", "group"):
            raise BadInput(f"by must be 'individual', 'id', 'group' or None, got {by!r}")
        if by is None:
            by = "individual" if self.ids is None else "id"
        labels = {"individual": None, "id": self.ids, "group": self.groups}[by]
        if by != "individual" and labels is None:
            raise BadInput(f"by={by!r} needs {by}s, and this table has none")
        chosen = divided(self, fraction, key, labels)
        return self.take(np.flatnonzero(chosen)), self.take(np.flatnonzero(~chosen))

    def subsample(self, n: int, key: KeyLike = 0) -> Snapshots:
        """Draw individuals of each time at random, without replacement.

        Arguments:
            n: the largest number of individuals of a time; times with fewer keep all of them.
            key: an integer seed or a JAX key.

        Returns:
            Snapshots of the drawn individuals.
        """
        return self.take(some_of_each_time(self, n, key))

    def reweighted(self, key: KeyLike) -> Snapshots:
        """A bootstrap of the individuals of each time: the same individuals with random weights.

        Weights follow from draws with replacement. Individuals known by id have the same count at
        all times.

        Arguments:
            key: an integer seed or a JAX key.

        Returns:
            Snapshots with the same rows and other weights, some of them zero.
        """
        return replace(self, weights=bootstrap_weights(self, key))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that a method stores of its data, without ids.

        Groups are stored as numbers, and how many interacted only where some were not seen. The
        names of conditions are the bytes of a JSON list: an `.h5ad` stores no fixed-width texts.
        """
        stored = {"x": self.x, "index": self.index, "times": self.times, "weights": self.weights}
        if self.groups is not None:
            stored["group"] = np.unique(self.groups, return_inverse=True)[1]
        if self.conditions is not None:
            names, stored["condition"] = np.unique(self.conditions, return_inverse=True)
            told = json.dumps(list(map(str, names.tolist()))).encode()
            stored["condition_names"] = np.frombuffer(told, np.uint8)
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
        if "condition" in arrays:
            names = np.asarray(
                json.loads(np.asarray(arrays["condition_names"], np.uint8).tobytes())
            )
            columns["conditions"] = names[arrays["condition"]]
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
                _add(digest, column)
        if self.conditions is not None:
            digest.update(b"conditions")
            _add(digest, self.conditions)
        if self.total is not None:
            digest.update(b"total" + np.ascontiguousarray(self.total).data)
        return digest.hexdigest()


def _add(digest: Any, column: np.ndarray) -> None:
    """Add a column to a hash."""
    digest.update(str(column.shape).encode())
    if column.dtype.kind in "OUSMm":  # texts, and dates, which Python's buffers do not know
        digest.update("\0".join(map(str, column)).encode())
    else:  # a memory map is hashed without a copy
        digest.update(np.ascontiguousarray(column).data)
