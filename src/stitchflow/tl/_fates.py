"""Where simulated cells end, and where chosen cells came from."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import KDTree

from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Term
from stitchflow._reading.cells import chosen, column
from stitchflow._status import BadInput, require
from stitchflow._types import KeyLike, as_key, as_times, check_count, check_number
from stitchflow.tl._dynamics import Cells
from stitchflow.tl._store import announce


def landing(points: np.ndarray, cells: np.ndarray, neighbours: int) -> csr_array:
    """(point, cell): equal shares for the nearest cells; zeros where a point is not finite."""
    k = min(check_count(neighbours, "neighbours"), len(cells))
    fine = np.flatnonzero(np.isfinite(points).all(axis=1))
    if len(fine) < len(points):
        lost = len(points) - len(fine)
        warnings.warn(f"{lost} of {len(points)} simulated cells escaped", stacklevel=3)
    near = np.reshape(KDTree(cells).query(points[fine], k)[1], (-1, k))
    rows = np.repeat(fine, k)
    shares = np.full(rows.size, 1.0 / k)
    return csr_array((shares, (rows, near.ravel())), shape=(len(points), len(cells)))


class Labels:
    """A column of groups; cells without a group are ignored."""

    def __init__(self, adata: Any, groups: str):
        series = column(adata, groups).astype("category").cat.remove_unused_categories()
        self.key, self.names = groups, [str(name) for name in series.cat.categories]
        self.codes = series.cat.codes.to_numpy()

    def voters(self, rows: np.ndarray, when: float) -> np.ndarray:
        rows = rows[self.codes[rows] >= 0]
        if not rows.size:
            raise BadInput(f"no cell near time {when:g} has a group in obs[{self.key!r}]")
        return rows

    def votes(self, rows: np.ndarray) -> np.ndarray:
        """(row, group) membership."""
        return np.eye(len(self.names))[self.codes[rows]]

    def among(self, seen: Cells, points: np.ndarray, when: float, neighbours: int) -> np.ndarray:
        """(point, group): groups of the nearest cells at a time; NaN for points that escaped."""
        voters = self.voters(seen.at(when), when)
        shares = landing(points, seen.x[voters], neighbours) @ self.votes(voters)
        shares[shares.sum(axis=1) == 0.0] = np.nan
        return shares


def ends(
    seen: Cells,
    labels: Labels,
    rows: np.ndarray,
    end: float,
    draws: int,
    neighbours: int,
    key: KeyLike,
    shift: Any = None,
) -> np.ndarray:
    """(cell, group): the share of the draws of each cell that end in each group."""
    found = np.empty((len(rows), len(labels.names)))
    for i, (start, places) in enumerate(seen.starts(rows)):
        step = jax.random.fold_in(as_key(key), i)
        path, _ = seen.path(start, [end])
        points = seen.roll(rows[places], path, draws, step, shift)[-1]
        shares = labels.among(seen, points.reshape(-1, points.shape[-1]), end, neighbours)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Mean of empty slice", RuntimeWarning)
            found[places] = np.nanmean(shares.reshape(-1, len(places), shares.shape[1]), axis=0)
    return found


def fate(
    adata: Any,
    groups: str,
    *,
    time: float | None = None,
    cells: Any = None,
    draws: int = 10,
    neighbours: int = 10,
    key_added: str = "stitchflow",
    energy: Energy | Term | None = None,
    parts: Mapping[str, Any] | None = None,
    key: KeyLike = 0,
) -> Any:
    """Estimate the probabilities that a cell's descendants are in each group at a later time.

    Every cell is simulated from its own time to the end, and each end is assigned in equal shares
    to the groups of its nearest observed cells. Writes `obsm[k_fate]`, a table of cells by groups,
    and the likeliest group to `obs[k_fate]`.

    Arguments:
        adata: the cells, to which `tl.fit` was applied.
        groups: the column of `obs` with the group of each cell; cells without one are ignored. A
            slash in the name of a group becomes a bar in the table's columns ("Mono|Mac").
        time: the end; None means the last observed time.
        cells: which cells are simulated, as a mask, names or row numbers; None means all cells that
            were observed at the end or before.
        draws: how many times each cell is simulated.
        neighbours: how many observed cells share each end.
        key_added: the name under which the fit was stored, k for short.
        energy: an energy of your own, as in `tl.load`.
        parts: classes and functions of your own by name, as in `tl.load`.
        key: an integer seed or a JAX key of the noise.

    Returns:
        The table of the cells that were simulated; a row sums to one.

    Examples:
        >>> sf.tl.fate(adata, groups="cell_type")        # doctest: +SKIP
    """
    pandas, seen = require("pandas"), Cells.of(adata, key_added, energy, parts)
    labels, end = Labels(adata, groups), _end(seen, time)
    columns = _without_slashes(labels)
    check_count(draws, "draws")
    rows = np.flatnonzero(seen.t <= end) if cells is None else chosen(adata, cells)
    if not rows.size or (seen.t[rows] > end).any():
        raise BadInput(f"cells must be seen at or before time {end:g}")
    shares = ends(seen, labels, rows, end, draws, neighbours, key)
    table = np.full((adata.n_obs, len(labels.names)), np.nan)
    table[rows] = shares
    likeliest = np.full(adata.n_obs, -1)
    known = rows[np.isfinite(shares).all(axis=1)]
    likeliest[known] = table[known].argmax(axis=1)
    name = f"{key_added}_fate"
    frame = pandas.DataFrame(table, index=adata.obs_names, columns=columns)
    adata.obsm[name] = frame
    adata.obs[name] = pandas.Categorical.from_codes(likeliest, labels.names)
    announce([f"obsm[{name!r}], fate probabilities", f"obs[{name!r}], the likeliest fate"])
    return frame.iloc[rows]


def ancestors(
    adata: Any,
    cells: Any,
    groups: str | None = None,
    *,
    times: Any = None,
    neighbours: int = 10,
    key_added: str = "stitchflow",
    energy: Energy | Term | None = None,
    parts: Mapping[str, Any] | None = None,
) -> Any:
    """Find where chosen cells came from, by carrying them back along the probability flow.

    At each earlier time the nearest observed cells are the ancestors. Writes `obs[k_ancestors]`,
    the share of the chosen cells that descends from each observed cell, which sums to one at each
    time.

    Arguments:
        adata: the cells, to which `tl.fit` was applied.
        cells: the chosen cells, as a mask, names or row numbers.
        groups: the column of `obs` with the group of each cell; None makes no table of groups.
        times: earlier times to look at; None means all observed times before the cells' own.
        neighbours: how many observed cells share each carried cell.
        key_added: the name under which the fit was stored, k for short.
        energy: an energy of your own, as in `tl.load`.
        parts: classes and functions of your own by name, as in `tl.load`.

    Returns:
        The table of times by groups, or without `groups` the written column.

    Examples:
        >>> sf.tl.ancestors(adata, adata.obs["cell_type"] == "Mono", "cell_type")   # doctest: +SKIP
    """
    pandas, seen = require("pandas"), Cells.of(adata, key_added, energy, parts)
    labels = None if groups is None else Labels(adata, groups)
    rows = chosen(adata, cells)
    first = float(seen.t[rows].min())
    before = seen.fit.times[seen.fit.times < first] if times is None else as_times(times)
    if not len(before) or max(before) >= first:
        raise BadInput(f"times must be before the cells' own, of which the first is {first:g}")
    wanted = np.unique(before)[::-1]
    shares, table = (
        np.zeros(adata.n_obs),
        np.zeros((len(wanted), len(labels.names) if labels else 0)),
    )
    for start, places in seen.starts(rows):
        path, stops = seen.path(start, wanted)
        carried = seen.roll(rows[places], path, 1, 0)[stops, 0]
        for i, (when, points) in enumerate(zip(wanted, carried, strict=True)):
            near = seen.at(when)
            shares[near] += landing(points, seen.x[near], neighbours).sum(axis=0) / len(rows)
            if labels is not None:
                found = labels.among(seen, points, when, neighbours)
                table[i] += np.nansum(found, axis=0) / len(rows)
    name = f"{key_added}_ancestors"
    adata.obs[name] = shares
    announce([f"obs[{name!r}], the share of the chosen cells that descends from each cell"])
    if labels is None:
        return adata.obs[name]
    return pandas.DataFrame(table, pandas.Index(wanted, name="time"), labels.names)


def _without_slashes(labels: Labels) -> list[str]:
    """Names of columns without slashes, which would create groups in an .h5ad file."""
    names = [name.replace("/", "|") for name in labels.names]
    if len(set(names)) < len(set(labels.names)):
        raise BadInput(f"groups of obs[{labels.key!r}] must differ by more than / for |")
    return names


def _end(seen: Cells, time: float | None) -> float:
    return float(seen.fit.times[-1]) if time is None else check_number(time, "time")
