"""Simulated cells: forward by the dynamics, backward along the probability flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Term
from stitchflow._method.contract import Fit
from stitchflow._reading.cells import chosen, column, representation, times
from stitchflow._status import BadInput, require
from stitchflow._types import KeyLike, as_key, as_times, check_count
from stitchflow.tl._store import load, params_of


class Cells(NamedTuple):
    """The cells of an AnnData together with the model that was fitted to them."""

    fit: Fit
    rep: str
    x: np.ndarray
    t: np.ndarray
    weights: np.ndarray | None  # None where all weights are equal

    @staticmethod
    def of(
        adata: Any,
        key_added: str,
        energy: Energy | Term | None,
        parts: Mapping[str, Any] | None,
    ) -> Cells:
        params = params_of(adata, key_added)
        fit = load(adata, key_added, energy=energy, parts=parts)
        x, t = representation(adata, params["use_rep"]), times(adata, params["time_key"])
        weight_key = params.get("weight_key")
        weights = None if weight_key is None else column(adata, weight_key).to_numpy(np.float64)
        return Cells(fit, params["use_rep"], x, t, weights)

    def at(self, when: float) -> np.ndarray:
        """Rows of the observed time nearest to `when`."""
        seen = np.unique(self.t)
        return np.flatnonzero(self.t == seen[np.abs(seen - when).argmin()])

    def path(self, start: float, wanted: Any) -> tuple[np.ndarray, np.ndarray]:
        """Times from the start through the observed ones, and the indices of `wanted` among them.

        All of `wanted` must be after the start, or all before it.
        """
        ends, seen = [start, *wanted], self.fit.times
        between = seen[(seen > min(ends)) & (seen < max(ends))]
        path, places = np.unique([*ends, *between], return_inverse=True)
        places = places[1 : len(ends)]
        if min(wanted) >= start:
            return path, places
        return path[::-1], len(path) - 1 - places

    def starts(self, rows: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
        """(time, places in `rows`) of the cells that start together."""
        for when in np.unique(self.t[rows]):
            yield float(when), np.flatnonzero(self.t[rows] == when)

    def roll(
        self, rows: np.ndarray, path: np.ndarray, draws: int, key: Any, shift: Any = None
    ) -> np.ndarray:
        """(time, draw, cell, dim): cells of one time, moved by `shift`, along a path of times.

        With interactions, all cells of that time are simulated together.
        """
        back = len(path) == 1 or path[1] < path[0]
        together = path[0] > self.fit.times[-1] if back else feels_others(self.fit.energy)
        crowd = np.flatnonzero(self.t == self.t[rows[0]]) if together else rows
        own = np.searchsorted(crowd, rows) if together else np.arange(len(rows))
        cloud = self.x[crowd].astype(np.float64)
        weights = self.weights[crowd] if together and self.weights is not None else None
        if shift is not None:
            cloud[own] += shift
        if back:
            return backward(self.fit, cloud, path, weights)[:, None, own]
        if not together:
            drawn = forward(self.fit, np.tile(cloud, (draws, 1)), path, key)
            return drawn.reshape(len(path), draws, len(rows), -1)
        keys = jax.random.split(as_key(key), draws)
        drawn = [forward(self.fit, cloud, path, k, weights)[:, own] for k in keys]
        return np.stack(drawn, axis=1)


def feels_others(energy: Energy | None) -> bool:
    """Whether a cell's motion depends on where the other cells are."""
    return energy is not None and any(term.sees_others for term in energy.without_noise.terms)


def forward(
    fit: Fit, x0: np.ndarray, path: np.ndarray, key: KeyLike, weights: np.ndarray | None = None
) -> np.ndarray:
    """The dynamics of individuals, without birth and death: a row stays the same cell."""
    return np.asarray(fit.flow.simulate_same(x0, path, key, weights=weights))


def backward(
    fit: Fit, x0: np.ndarray, path: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """The probability flow of the fitted marginals, which has no noise and so runs back in time.

    Beyond the last fitted time, at which the path stops, the energy and the cloud x0 are used.
    """
    if len(path) == 1:
        return x0[None]
    if fit.flow.fitted_curve is None:
        return np.asarray(fit.flow.simulate(x0, path, weights=weights, ode=True))
    beyond = int((path > fit.times[-1]).sum())
    carried = x0[None]
    if beyond:
        after = path[: beyond + 1]
        carried = np.asarray(fit.flow.simulate(x0, after, weights=weights, ode=True))
    if beyond < len(path) - 1:
        rest = np.asarray(fit.flow.transport(carried[-1], path[beyond:]))
        carried = np.concatenate([carried[:-1], rest])
    return carried


def simulate(
    adata: Any,
    times: Any = None,
    *,
    cells: Any = None,
    draws: int = 1,
    key_added: str = "stitchflow",
    energy: Energy | Term | None = None,
    parts: Mapping[str, Any] | None = None,
    key: KeyLike = 0,
) -> Any:
    """Simulate cells that the energy alone moves from their observed position and time.

    Each cell starts where and when it was observed. Later times are reached by the SDE, earlier
    ones by the probability flow, which has no noise. Birth and death are not simulated: a particle
    stays the same individual. Times outside the observed ones are extrapolated with what was
    learned between them, with an `ExtrapolationWarning`.

    Arguments:
        adata: the cells, to which `tl.fit` was applied.
        times: the times to simulate to, all after or all before those of the cells; None means the
            observed ones from the cells' own time on.
        cells: which cells start, as a mask, names or row numbers; None means those of the first
            time.
        draws: how many times each cell is simulated.
        key_added: the name under which the fit was stored, k for short.
        energy: an energy of your own, as in `tl.load`.
        parts: classes and functions of your own by name, as in `tl.load`.
        key: an integer seed or a JAX key of the noise.

    Returns:
        A new AnnData of the simulated cells, with `time`, `particle` and `start_cell` in `obs`; a
        particle is one draw of one cell.

    Examples:
        >>> later = sf.tl.simulate(adata, times=[5.0, 6.0], draws=10)        # doctest: +SKIP
    """
    seen = Cells.of(adata, key_added, energy, parts)
    rows = seen.at(seen.t.min()) if cells is None else chosen(adata, cells)
    check_count(draws, "draws")
    first, last = float(seen.t[rows].min()), float(seen.t[rows].max())
    if times is None:
        times = [last, *seen.fit.times[seen.fit.times > last]]
    wanted = as_times(times)
    if not ((wanted >= last).all() or (wanted <= first).all()):
        raise BadInput(
            f"times must be all after or all before the cells' own ({first:g} to {last:g}), "
            f"got {wanted.tolist()}"
        )
    clouds = np.empty((len(wanted), draws, len(rows), seen.x.shape[1]), np.float32)
    for i, (start, places) in enumerate(seen.starts(rows)):
        path, stops = seen.path(start, wanted)
        step = jax.random.fold_in(as_key(key), i)
        clouds[:, :, places] = seen.roll(rows[places], path, draws, step)[stops]
    names = np.asarray(adata.obs_names)[rows]
    particle = np.arange(draws * len(rows))
    obs = {
        "time": np.repeat(wanted, len(particle)),
        "particle": np.tile(particle, len(wanted)),
        "start_cell": np.tile(names, draws * len(wanted)),
    }
    return population(adata, seen.rep, clouds.reshape(-1, seen.x.shape[1]), obs)


def interpolate(
    adata: Any,
    times: Any,
    n: int | None = None,
    *,
    key_added: str = "stitchflow",
    energy: Energy | Term | None = None,
    parts: Mapping[str, Any] | None = None,
    key: KeyLike = 0,
) -> Any:
    """Draw cells from the fitted marginals, also at times that were not observed.

    Arguments:
        adata: the cells, to which `tl.fit` was applied.
        times: the times of the cells to draw.
        n: how many cells of each time; None means the mean number of cells of the observed times.
        key_added: the name under which the fit was stored, k for short.
        energy: an energy of your own, as in `tl.load`.
        parts: classes and functions of your own by name, as in `tl.load`.
        key: an integer seed or a JAX key.

    Returns:
        A new AnnData of the drawn cells, with `time` in `obs`.

    Examples:
        >>> between = sf.tl.interpolate(adata, times=[2.5])        # doctest: +SKIP
    """
    seen, wanted = Cells.of(adata, key_added, energy, parts), as_times(times)
    count = round(len(seen.x) / len(np.unique(seen.t))) if n is None else check_count(n, "n")
    drawn = np.asarray(seen.fit.flow.sample(wanted, count, key=key))
    obs = {"time": np.repeat(wanted, count)}
    return population(adata, seen.rep, drawn.reshape(-1, seen.x.shape[1]), obs)


def population(adata: Any, rep: str, x: np.ndarray, obs: dict[str, Any]) -> Any:
    """A new AnnData of positions in a representation."""
    anndata, pandas = require("anndata"), require("pandas")
    frame = pandas.DataFrame(obs, index=[str(i) for i in range(len(x))])
    if rep == "X":
        return anndata.AnnData(x.astype(np.float32), obs=frame, var=adata.var[[]].copy())
    name = rep.removeprefix("X_")
    var = pandas.DataFrame(index=[f"{name}{i + 1}" for i in range(x.shape[1])])
    found = anndata.AnnData(x.astype(np.float32), obs=frame, var=var)
    found.obsm[rep] = found.X.copy()
    return found
