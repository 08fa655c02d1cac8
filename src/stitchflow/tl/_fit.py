"""Fitting the cells of an AnnData, and the results written for each cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from stitchflow._data.snapshots import Snapshots
from stitchflow._judging.crossval import starters
from stitchflow._method.contract import Fit, Method
from stitchflow._reading.cells import column, representation_key, warn_of_drawings
from stitchflow._status import BadInput, BadInputType, NotAvailable
from stitchflow._stitching.ensemble import fit_ensemble
from stitchflow._stitching.stitching import fit as fit_snapshots
from stitchflow._types import KeyLike, check_count, check_number
from stitchflow.tl._store import announce, cells_of, check_anndata, is_fit, marks, put
from stitchflow.tracking import Callback

# What `tl` writes of a model, by the part of an AnnData; `obs[k_train]` is handled separately.
WRITTEN = {
    "obs": (
        *("potential", "potential_sd", "pseudotime", "pseudotime_sd", "velocity_sd"),
        *("fate", "ancestors", "time", "terminal", "difference", "difference_sd"),
    ),
    "obsm": ("velocity", "fate"),
    "layers": ("velocity",),
    "obsp": ("transitions",),
}


def fit(
    adata: Any,
    time_key: str,
    use_rep: str = "X_pca",
    weight_key: str | None = None,
    key_added: str = "stitchflow",
    group_key: str | None = None,
    condition_key: str | None = None,
    *,
    method: Method | None = None,
    ensemble: int | None = None,
    test_fraction: float = 0.0,
    hold_out: float | str | Iterable[float | str] = (),
    copy: bool = False,
    key: KeyLike = 0,
    progress: bool = True,
    callback: Callback | None = None,
) -> Any:
    """Fit the cells of an AnnData and write what was learned into it.

    Written, with k for `key_added`: `obs[k_potential]` (V, its mean over the cells of a time
    removed where V varies in time), `obs[k_pseudotime]` (the share of cells with a higher V),
    `obsm[k_velocity]` (in the representation, over the unit of time), and `uns[k]` with the whole
    model, so that every other call of `tl` needs nothing but the AnnData. What an earlier fit wrote
    under the same name is removed.

    Arguments:
        adata: the cells.
        time_key: the column of `obs` with the time of each cell: numbers of any spacing, labels
            such as 36h, or ordered categories (`tl.times`).
        use_rep: the representation in `obsm` that is fitted, with or without its prefix `X_`; "X"
            means the matrix itself. Distances have to mean something in it, as in principal
            components; in UMAP or t-SNE they do not, and a warning says so.
        weight_key: the column of `obs` that says how much each cell counts; None counts all alike.
        key_added: the name of what is written.
        group_key: the column of `obs` with the dish or donor of each cell; None where there is
            none. Interactions act within groups.
        condition_key: the column of `obs` with what was done to each cell, such as control or
            treated, constant within a group; None where there is none.
        method: what is fitted, with its settings; None means `Stitching()`.
        ensemble: how many bootstraps are fitted too, at least two. Their standard deviations are
            written to `obs[k_potential_sd]`, `obs[k_pseudotime_sd]` and `obs[k_velocity_sd]`. None
            fits none.
        test_fraction: the share of the cells of each time that is held out of the fit for
            `tl.score`. `obs[k_train]` marks the others.
        hold_out: times, as numbers or labels, one or many, all of whose cells are held out. Where
            no held-out cell of the time before a forecast would be left to start from, a fifth of
            those cells is held out too.
        copy: write to a copy and return it, and leave `adata` unchanged.
        key: an integer seed or a JAX key; the same key gives the same result.
        progress: whether a progress bar is shown.
        callback: a function that is called with a row of numbers each time the loss is read
            (`stitchflow.tracking`).

    Returns:
        The `Fit`, or with `copy` the AnnData that was written to.

    Examples:
        >>> sf.tl.fit(adata, "day", use_rep="X_pca", test_fraction=0.2)       # doctest: +SKIP
        >>> adata.obs["stitchflow_pseudotime"]                                # doctest: +SKIP
    """
    check_anndata(adata)
    _check_key(key_added)
    params: dict[str, Any] = {"time_key": time_key, "use_rep": representation_key(adata, use_rep)}
    params |= {"weight_key": weight_key, "group_key": group_key, "condition_key": condition_key}
    warn_of_drawings(params["use_rep"])
    everybody = cells_of(adata, params, np.ones(adata.n_obs, bool))
    held = _held(everybody, column(adata, time_key), hold_out)
    train = _kept(everybody, test_fraction, held, key)
    params["held_out"] = not train.all()
    _check_mark(adata, key_added, train)
    data = cells_of(adata, params, train)
    result, members = _fitted(data, method, ensemble, key, progress, callback)
    adata = adata.copy() if copy else adata
    if adata.is_view:
        adata._init_as_actual(adata.copy())
    if is_fit(adata.uns.get(key_added)):  # else columns of such names are the user's own
        _clear(adata, key_added, params)
    put(adata, key_added, result, params)
    wrote = [f"uns[{key_added!r}], the model", *_mark(adata, key_added, train)]
    announce(wrote + _write(adata, key_added, everybody, result, members))
    return adata if copy else result


def _fitted(
    data: Snapshots,
    method: Method | None,
    ensemble: int | None,
    key: KeyLike,
    progress: bool,
    callback: Callback | None,
) -> tuple[Fit, list[Fit]]:
    """A fit, and the members of an ensemble."""
    members = []
    if ensemble is not None:
        check_count(ensemble, "ensemble", 2)
        members = fit_ensemble(data, method, members=ensemble, key=key, progress=progress).members
    return fit_snapshots(data, method, key, progress=progress, callback=callback), members


def _mark(adata: Any, k: str, train: np.ndarray) -> list[str]:
    """A column that marks the training cells, where some cells were held out."""
    if train.all():
        return []
    adata.obs[f"{k}_train"] = train
    return [f"obs['{k}_train'], the training cells"]


def _check_key(key_added: Any) -> None:
    """Refuse a key that could not be read from an .h5ad again."""
    if not isinstance(key_added, str):
        raise BadInputType(f"key_added must be text, got {type(key_added).__name__}")
    if not key_added or "/" in key_added or "\0" in key_added:
        words = "text without '/', which separates the groups of an .h5ad"
        raise BadInput(f"key_added must be {words}, got {key_added!r}")


def _check_mark(adata: Any, k: str, train: np.ndarray) -> None:
    """Refuse to overwrite a column of the user, which may be a split of their own."""
    name = f"{k}_train"
    if not train.all() and name in adata.obs and not marks(adata, k):
        raise BadInput(
            f"obs[{name!r}] is not of an earlier fit and would be overwritten: "
            "rename it, or choose another key_added"
        )


def _held(data: Snapshots, labels: Any, hold_out: Any) -> list[float]:
    """Times to hold out, which may be given as their labels in a column of obs."""
    one = isinstance(hold_out, str) or not isinstance(hold_out, Iterable)
    given: list[Any] = [hold_out] if one else list(hold_out)
    assert data.rows is not None
    first = [data.rows[data.slice(k)][0] for k in range(len(data))]
    known = dict(zip(labels.iloc[first], data.times.tolist(), strict=True))
    try:
        return [float(data.times[data.at(known[t] if isinstance(t, str) else t)]) for t in given]
    except KeyError as error:
        listed = ", ".join(map(str, known))
        raise BadInput(f"hold_out: no cell is of {error}; times are {listed}") from None
    except (TypeError, ValueError) as error:
        raise type(error)(f"hold_out: {error}") from None


def _kept(data: Snapshots, test_fraction: float, hold_out: list[float], key: KeyLike) -> np.ndarray:
    """Which cells are used for training."""
    if check_number(test_fraction, "test_fraction", 0.0, 1.0) == 1.0:
        raise BadInput("test_fraction must be below 1: it leaves nobody to fit")
    seen = data.drop_times(hold_out) if hold_out else data
    if len(seen) < 2 <= len(data):
        raise BadInput(f"hold_out must leave two times or more to fit, got {hold_out}")
    if test_fraction:
        try:
            seen = seen.split(1.0 - test_fraction, key)[0]
        except ValueError as error:
            raise BadInput(f"test_fraction={test_fraction:g}: {error}") from None
    elif hold_out and max(hold_out) > seen.times[-1]:
        seen = seen.take(np.flatnonzero(~starters(seen, len(seen) - 1, key)))
    assert seen.rows is not None
    return np.isin(np.arange(len(data.x)), seen.rows)


@dataclass(frozen=True)
class PerCell:
    """Results of one fit for every cell; None where the method does not provide them.

    Arguments:
        potential: V of each cell, (n,), with its free constant fixed.
        velocity: the velocity of each cell in the representation, (n, dim).
    """

    potential: np.ndarray | None
    velocity: np.ndarray | None

    @property
    def pseudotime(self) -> np.ndarray | None:
        """The share of the other cells whose V is higher; zero throughout where V is flat.

        Ranks are spread over [0, 1] however far a few cells lie from all others.
        """
        if self.potential is None:
            return None
        higher = rankdata(-self.potential, method="min") - 1.0
        return higher / max(len(higher) - 1, 1)


def per_cell(fit: Fit, cells: Snapshots) -> PerCell:
    """V with its gauge fixed, and the velocity, for every cell at its own time."""
    potential, velocity = np.zeros(len(cells.x)), np.zeros(cells.x.shape)
    moves = True
    for k, when in enumerate(cells.times):
        rows, cloud = cells.slice(k), cells.cloud(k)
        if fit.energy is not None:
            potential[rows] = fit.energy.potential(cloud, when)
            if fit.energy.time_varying:  # V(x, t) is free up to c(t)
                potential[rows] -= np.average(potential[rows], weights=cells.cloud_weights(k))
        try:
            velocity[rows] = fit.flow.velocity(cloud, when)
        except NotAvailable:
            moves = False
    if fit.energy is not None and not fit.energy.time_varying:  # V(x) up to one constant
        potential -= np.average(potential, weights=cells.weights)
    assert cells.rows is not None
    order = np.argsort(cells.rows)
    return PerCell(
        None if fit.energy is None else potential[order], velocity[order] if moves else None
    )


def _clear(adata: Any, k: str, params: dict[str, Any]) -> None:
    """Remove everything that an earlier fit has written under the same key."""
    if marks(adata, k):
        del adata.obs[f"{k}_train"]
    for part, names in WRITTEN.items():
        container = getattr(adata, part)
        for name in (f"{k}_{name}" for name in names):
            # The time as a category, for CellRank, may be what is fitted now.
            if name in container and name not in params.values():
                del container[name]


def _write(adata: Any, k: str, cells: Snapshots, fit: Fit, members: list[Fit]) -> list[str]:
    """Columns of every cell; returns a line for each."""
    found, wrote = per_cell(fit, cells), []
    others = [per_cell(member, cells) for member in members]
    columns = {"potential": "V", "pseudotime": "the share of cells with a higher V"}
    for name, meaning in columns.items():
        values = getattr(found, name)
        if values is None:
            continue
        adata.obs[f"{k}_{name}"] = values
        wrote.append(f"obs['{k}_{name}'], {meaning}")
        if others:
            spread = np.stack([getattr(other, name) for other in others]).std(axis=0, ddof=1)
            adata.obs[f"{k}_{name}_sd"] = spread
            wrote.append(f"obs['{k}_{name}_sd'], its standard deviation over the ensemble")
    if found.velocity is not None:
        adata.obsm[f"{k}_velocity"] = found.velocity
        wrote.append(f"obsm['{k}_velocity'], velocities in the representation")
        if others:
            spread = np.stack([other.velocity for other in others]).var(axis=0, ddof=1)  # pyright: ignore
            adata.obs[f"{k}_velocity_sd"] = np.sqrt(spread.sum(axis=1))
            wrote.append(f"obs['{k}_velocity_sd'], length of its standard deviation")
    return wrote
