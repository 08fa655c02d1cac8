"""Clouds of individuals at real, uneven times, whichever populations they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stitchflow._data.motion import Motion, Windows, actions, motion
from stitchflow._data.units import Units
from stitchflow._html import table
from stitchflow._status import BadInput
from stitchflow._types import check_number, near_times

MOST_ROWS = 20  # of a table in a notebook


@dataclass(frozen=True, eq=False)
class Individuals:
    """One long table of individuals, sorted by time: where they are, and when.

    `Snapshots` adds which populations they belong to, and makes tables and parts of them.

    Arguments:
        x: the positions of all individuals, (n, dim).
        index: for each individual, the place of its time in `times`, (n,).
        times: the observed times, increasing.
        weights: how much each individual counts; they sum to the number of individuals of a time.
        ids: the same individual has the same id at all times; None where individuals are not
            followed.
    """

    x: np.ndarray
    index: np.ndarray
    times: np.ndarray
    weights: np.ndarray
    ids: np.ndarray | None = None

    def __repr__(self) -> str:
        t0, t1 = self.times[0], self.times[-1]
        return (
            f"{type(self).__name__}({len(self.times)} times from {t0:g} to {t1:g}, "
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
