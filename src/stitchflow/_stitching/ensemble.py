"""Ensembles: several fits trained side by side, and how far they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.stats import t as student

from stitchflow._data.checks import check_data
from stitchflow._data.snapshots import Snapshots
from stitchflow._method.contract import Fit, Method
from stitchflow._method.spread import Spread
from stitchflow._stitching.stitching import Stitching
from stitchflow._types import KeyLike, as_key, as_rng, as_times, check_count, check_number


class Band(NamedTuple):
    """A mean over members with an interval around it.

    Arguments:
        mean: over members.
        low: the lower end of the interval, of the same shape.
        high: its upper end.
    """

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Ensemble:
    """Several fits of one method, and how far they differ; made by `fit_ensemble`.

    Fits that differ by their seed alone show how well the optimum is determined. Fits to
    bootstrapped individuals also show what other individuals of the same populations would have
    changed.

    Arguments:
        members: the fits.
        bootstrap: whether each member was fitted to its own bootstrap of the individuals.
    """

    members: list[Fit]
    bootstrap: bool

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        kind = "bootstraps" if self.bootstrap else "seeds"
        return f"Ensemble({len(self)} {kind} of {self.members[0].method.name})"

    def potential(self, x: Any, t: float | None = None) -> Spread:
        """The potential V of the members, each with zero mean over the given points.

        V is determined up to a constant only, which the zero mean fixes.

        Arguments:
            x: points in the user's units, (m, dim).
            t: the time of a potential that varies in time; else None.

        Returns:
            Mean and standard deviation over members, (m,) each.
        """
        values = np.stack([np.asarray(m.energy.potential(x, t)) for m in self.members])  # pyright: ignore
        return _spread(values - values.mean(axis=1, keepdims=True))

    def force(self, x: Any, t: float | None = None) -> Spread:
        """The force of the members, minus the gradient of V.

        Arguments:
            x: points in the user's units, (m, dim).
            t: the time of a potential that varies in time; else None.

        Returns:
            Mean and standard deviation over members, (m, dim) each.
        """
        return _spread(np.stack([np.asarray(m.energy.force(x, t)) for m in self.members]))  # pyright: ignore

    def velocity(self, x: Any, t: float) -> Spread:
        """The velocity of the members' fitted curves.

        Arguments:
            x: points in the user's units, (m, dim).
            t: the time.

        Returns:
            Mean and standard deviation over members, (m, dim) each.
        """
        return _spread(np.stack([np.asarray(m.flow.velocity(x, t)) for m in self.members]))

    def rollout(self, times: Any, n: int = 1000, key: KeyLike = 0) -> np.ndarray:
        """Populations that each member simulates from individuals of the first time.

        Arguments:
            times: the times to simulate to, increasing, in the user's units.
            n: how many individuals start; they are drawn by weight from those of the first time.
            key: an integer seed or a JAX key; members draw independently.

        Returns:
            Positions (member, time, n, dim).
        """
        times, paths = as_times(times), []
        for i, member in enumerate(self.members):
            assert member.data is not None
            key_i = jax.random.fold_in(as_key(key), i)
            weights = member.data.cloud_weights(0)
            rows = as_rng(key_i).choice(
                len(weights), check_count(n, "n"), p=weights / weights.sum()
            )
            whole = [member.data.times[0], *times[times > member.data.times[0]]]
            path = np.asarray(member.flow.simulate(member.data.cloud(0)[rows], whole, key=key_i))
            paths.append(path[len(whole) - len(times) :])
        return np.stack(paths)

    def band(self, times: Any, level: float = 0.9, n: int = 1000, key: KeyLike = 0) -> Band:
        """The mean of the simulated population at each time, with a prediction interval.

        The interval is Student's, for one further member, from the spread of the members' means.

        Arguments:
            times: the times to simulate to, increasing, in the user's units.
            level: the probability that the interval covers, between 0 and 1.
            n: how many individuals each member simulates.
            key: an integer seed or a JAX key.

        Returns:
            Mean, lower and upper end, (time, dim) each.
        """
        level = check_number(level, "level", 0.0, 1.0, open_low=True)
        means = self.rollout(times, n, key).mean(axis=2)
        m = len(means)
        centre, sd = means.mean(axis=0), means.std(axis=0, ddof=1)
        # The centre itself is a mean of m members, and sd an estimate from as many.
        half = student.ppf(0.5 + 0.5 * level, m - 1) * sd * np.sqrt(1.0 + 1.0 / m)
        return Band(centre, centre - half, centre + half)

    def spread(self) -> dict[str, float]:
        r"""The relative spread of V, force and velocity over the training individuals and times.

        $\sqrt{\sum \mathrm{sd}^2\,/\,\sum \mathrm{mean}^2}$

        The sums are over times and at most 300 individuals of each.

        Returns:
            Three numbers by name, zero where all members agree.
        """
        data = self.members[0].data
        assert data is not None
        found: dict[str, list[tuple[float, float]]] = {"V": [], "force": [], "velocity": []}
        rng = np.random.default_rng(0)
        for k, t in enumerate(data.times):
            x = data.cloud(k)[rng.permutation(data.counts[k])[:300]]
            for name, part in (
                ("V", self.potential(x, float(t))),
                ("force", self.force(x, float(t))),
                ("velocity", self.velocity(x, float(t))),
            ):
                found[name].append((float((part.sd**2).sum()), float((part.mean**2).sum())))
        sums = {name: np.sum(parts, axis=0) for name, parts in found.items()}
        return {name: float(np.sqrt(a / max(b, 1e-300))) for name, (a, b) in sums.items()}


def fit_ensemble(
    data: Snapshots,
    method: Method | None = None,
    *,
    members: int = 8,
    bootstrap: bool = True,
    key: KeyLike = 0,
    progress: bool = True,
) -> Ensemble:
    """Fit several members together, in one compiled loop for all of them.

    Arguments:
        data: the snapshots.
        method: the settings of all members; None means `Stitching()`. Other methods raise an error.
        members: how many, at least two.
        bootstrap: fit each member to its own bootstrap of the individuals; otherwise members differ
            by their seed alone.
        key: an integer seed or a JAX key.
        progress: whether a progress bar is shown.

    Returns:
        The `Ensemble`.

    Examples:
        >>> ensemble = sf.fit_ensemble(data, members=8)        # doctest: +SKIP
        >>> ensemble.band(times=[0.0, 1.0, 2.0])               # doctest: +SKIP
    """
    check_data(data)
    method = Stitching() if method is None else method
    check_count(members, "members", 2)
    keys = jax.random.split(as_key(key), members + 1)
    parts = [data.reweighted(k) if bootstrap else data for k in keys[1:]]
    fits = method.fit_together(data, parts, keys[0], progress)
    return Ensemble(fits, bootstrap)


def _spread(values: np.ndarray) -> Spread:
    return Spread(values.mean(axis=0), values.std(axis=0, ddof=1))
