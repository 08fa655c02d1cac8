"""Terminal states: basins of the landscape in which cells end and stay."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from scipy.stats import norm

from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Potential, Term
from stitchflow._status import BadInput, DataWarning, ExtrapolationWarning, require
from stitchflow._types import KeyLike, as_rng, check_number
from stitchflow.tl._dynamics import Cells, forward
from stitchflow.tl._fates import Labels
from stitchflow.tl._store import announce

MOST = 1500  # cells of the last time that go downhill
DESCENT = 400  # steps downhill, each at most `STRIDE` of the spread of the cells
STRIDE = 0.02
JOINED = 0.15  # ends nearer than this share of the spread belong to one basin
OUTSIDE = 0.5  # an end farther than this share of the spread from every cell has left the data
KEPT = 0.9  # cells as near to a basin's middle as this share of those that stay are terminal
NINETY = float(norm.ppf(0.95))


class Basins(NamedTuple):
    """The places where cells come to rest downhill.

    Arguments:
        ends: places (m, dim) where cells came to rest.
        codes: the number of the basin of each end.
        middles: the mean end of each basin, (basin, dim).
    """

    ends: np.ndarray
    codes: np.ndarray
    middles: np.ndarray

    def of(self, x: np.ndarray, reach: float) -> np.ndarray:
        """The basin of places that have come to rest; -1 where that is none of them."""
        distance, nearest = KDTree(self.ends).query(x)
        return np.where(distance <= reach, self.codes[nearest], -1)


def terminal_states(
    adata: Any,
    groups: str | None = None,
    *,
    least: float = 0.02,
    key_added: str = "stitchflow",
    energy: Energy | Term | None = None,
    parts: Mapping[str, Any] | None = None,
    key: KeyLike = 0,
) -> Any:
    """Find the states in which cells end: basins of V in which simulated cells also stay.

    Cells of the last time go downhill on V, without noise, until they rest; the places where they
    rest are joined into basins. Then the cells are simulated, with noise, for as long again as the
    data last. A basin is a state if more than half of its cells are in it after that time.
    Writes `obs[k_terminal]`, a category for the cells of the last time that are as close to the
    middle of their state as simulated cells stay, and missing for all others. CellRank takes the
    column as terminal states, and `tl.fate(adata, f"{k}_terminal")` as fates.

    Arguments:
        adata: the cells, to which `tl.fit` was applied, with a potential in the energy.
        groups: a column of `obs` by which states are named: each has the name of the commonest
            group of its cells. None numbers them.
        least: the smallest share of the cells of the last time that makes a state.
        key_added: the name under which the fit was stored, k for short.
        energy: an energy of your own, as in `tl.load`.
        parts: classes and functions of your own by name, as in `tl.load`.
        key: an integer seed or a JAX key of the noise.

    Returns:
        A table of states: the number of `cells` marked, the `share` of the cells of the last time
        that goes there with its 90 % interval over cells (`low`, `high`), and the share that
        `stays` with its interval (`stays_low`, `stays_high`). Intervals take the fit as it is.

    Examples:
        >>> sf.tl.terminal_states(adata, "cell_type")        # doctest: +SKIP
    """
    pandas, seen = require("pandas"), Cells.of(adata, key_added, energy, parts)
    check_number(least, "least", 0.0, 1.0)
    labels = None if groups is None else Labels(adata, groups)
    if seen.fit.energy is None or not seen.fit.energy.only(Potential):
        raise BadInput(f"{seen.fit.method.name} has no potential in whose basins cells could end")
    everybody = np.flatnonzero(seen.t == seen.fit.times[-1])
    rows = np.sort(as_rng(key).permutation(everybody)[:MOST])
    x, spread = seen.x[rows].astype(np.float64), _spread(seen.x[everybody])
    ends = downhill(seen, x, spread)
    basins = joined(ends, JOINED * spread, max(2, int(np.ceil(least * len(rows)))))
    later = _later(seen, rows, key)
    home = np.where(_within(ends, seen.x, spread), basins.of(ends, 1e-9 * spread), -1)
    there = basins.of(downhill(seen, later, spread), JOINED * spread)
    stays = [there[home == b] == b for b in range(len(basins.middles))]
    states = [b for b, kept in enumerate(stays) if kept.size and kept.mean() > 0.5]
    states.sort(key=lambda b: -int((home == b).sum()))
    if (lost := float((home < 0).mean())) > 0.1:
        words = f"{lost:.0%} of the cells of the last time come to rest in none of the states"
        warnings.warn(words, DataWarning, stacklevel=2)
    marked = _marked(x, later, home, there, basins, states)
    names = _names(labels, rows, marked, states)
    codes = np.full(adata.n_obs, -1)
    codes[rows] = marked
    column = f"{key_added}_terminal"
    adata.obs[column] = pandas.Categorical.from_codes(codes, names)
    announce([f"obs[{column!r}], terminal states"])
    return _table(pandas, names, marked, home, states, stays)


def _spread(x: np.ndarray) -> float:
    return float(np.sqrt(np.var(x, axis=0, dtype=np.float64).sum())) or 1.0


def downhill(seen: Cells, x: np.ndarray, spread: float) -> np.ndarray:
    """Where places x (n, dim) come to rest on V, following its force at the last time.

    A step is a hundredth of the data's duration or `STRIDE` of the `spread`, whichever is less.
    """
    energy, when = seen.fit.energy, float(seen.fit.times[-1])
    assert energy is not None
    step = 0.01 * float(np.ptp(seen.fit.times))
    for _ in range(DESCENT):
        move = step * np.asarray(energy.force(x, when), np.float64)
        length = np.linalg.norm(move, axis=1, keepdims=True)
        x = x + move * np.minimum(1.0, STRIDE * spread / np.maximum(length, 1e-300))
    return x


def joined(ends: np.ndarray, reach: float, fewest: int) -> Basins:
    """Ends within `reach` of one another as basins; those of fewer than `fewest` ends are none."""
    graph = KDTree(ends).sparse_distance_matrix(KDTree(ends), reach)
    count, codes = connected_components(graph, directed=False)
    sizes = np.bincount(codes, minlength=count)
    large = np.flatnonzero(sizes >= fewest)
    number = np.full(count, -1)
    number[large] = np.arange(len(large))
    middles = [ends[codes == code].mean(axis=0) for code in large]
    return Basins(ends, number[codes], np.array(middles).reshape(len(large), ends.shape[1]))


def _later(seen: Cells, rows: np.ndarray, key: KeyLike) -> np.ndarray:
    """Where cells of the last time are after as long again as the data last."""
    last, duration = float(seen.fit.times[-1]), float(np.ptp(seen.fit.times))
    with warnings.catch_warnings():  # that this goes beyond the data is the question
        warnings.simplefilter("ignore", ExtrapolationWarning)
        path = forward(seen.fit, seen.x[rows], np.array([last, last + duration]), key)
    return np.nan_to_num(path[-1].astype(np.float64), nan=1e12, posinf=1e12, neginf=-1e12)


def _within(ends: np.ndarray, cells: np.ndarray, spread: float) -> np.ndarray:
    """Which ends are among the observed cells: beyond them V is what its form makes it."""
    return KDTree(cells).query(ends)[0] <= OUTSIDE * spread


def _marked(
    x: np.ndarray,
    later: np.ndarray,
    home: np.ndarray,
    there: np.ndarray,
    basins: Basins,
    states: list[int],
) -> np.ndarray:
    """The state of each cell that is where simulated cells stay; -1 for other cells."""
    marked = np.full(len(x), -1)
    for i, b in enumerate(states):
        away = lambda places, b=b: np.linalg.norm(places - basins.middles[b], axis=1)
        staying = away(later[(home == b) & (there == b)])
        marked[(home == b) & (away(x) <= np.quantile(staying, KEPT))] = i
    return marked


def _names(
    labels: Labels | None, rows: np.ndarray, marked: np.ndarray, states: list[int]
) -> list[str]:
    """Names of the states: their commonest group, numbered where two states share it."""
    if labels is None:
        return [str(i + 1) for i in range(len(states))]
    found: list[str] = []
    for i in range(len(states)):
        codes = labels.codes[rows[marked == i]]
        codes = codes[codes >= 0]
        name = labels.names[int(np.bincount(codes).argmax())] if codes.size else "unnamed"
        same = sum(other.split(" (")[0] == name for other in found)
        found.append(f"{name} ({same + 1})" if same else name)
    return found


def _table(
    pandas: Any,
    names: list[str],
    marked: np.ndarray,
    home: np.ndarray,
    states: list[int],
    stays: list[np.ndarray],
) -> Any:
    shares = [_share(home == b) for b in states]
    kept = [_share(stays[b]) for b in states]
    columns: dict[str, Any] = {"cells": [int((marked == i).sum()) for i in range(len(states))]}
    for name, values in (("share", shares), ("stays", kept)):
        ends = ("low", "high") if name == "share" else ("stays_low", "stays_high")
        columns |= {column: [v[k] for v in values] for k, column in enumerate((name, *ends))}
    return pandas.DataFrame(columns, index=pandas.Index(names, name="state"))


def _share(mask: np.ndarray) -> tuple[float, float, float]:
    """A share with Wilson's 90 % interval."""
    n, p = len(mask), float(mask.mean())
    middle = (p + NINETY**2 / (2 * n)) / (1 + NINETY**2 / n)
    half = NINETY * np.sqrt(p * (1 - p) / n + NINETY**2 / (4 * n**2)) / (1 + NINETY**2 / n)
    return p, float(middle - half), float(middle + half)
