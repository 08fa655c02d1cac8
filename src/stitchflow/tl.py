"""Single-cell tools in scverse's manner: results go into the AnnData they came from."""

from __future__ import annotations

from typing import Any

import numpy as np

from stitchflow._method import Fit, Method
from stitchflow._snapshots import Snapshots
from stitchflow._stitching import fit as fit_snapshots
from stitchflow._types import KeyLike


def fit(
    adata: Any,
    time_key: str,
    use_rep: str = "X_pca",
    weight_key: str | None = None,
    key_added: str = "stitchflow",
    *,
    method: Method | None = None,
    key: KeyLike = 0,
    progress: bool = True,
) -> Fit:
    """Fit the cells of an AnnData and write what was learned into it.

    Writes `obs[f"{key_added}_potential"]` (V, its mean over the cells of a time removed),
    `obs[f"{key_added}_pseudotime"]` (minus V, rescaled to [0, 1]) and
    `obsm[f"{key_added}_velocity"]`. Times are numbers, or ordered categories of numbers.
    """
    x = representation(adata, use_rep)
    t = times(adata, time_key)
    weights = None if weight_key is None else _column(adata, weight_key)
    result = fit_snapshots(
        Snapshots.from_table(x, t, weights=weights), method, key, progress=progress
    )
    potential, velocity = np.zeros(len(x)), np.zeros(x.shape)
    for when in np.unique(t):
        cells = t == when
        if result.energy is not None:
            v = np.asarray(result.energy.potential(x[cells], when))
            # V(x, t) is free up to c(t): its gauge is fixed before times are compared.
            potential[cells] = v - v.mean() if result.energy.time_varying else v
        velocity[cells] = np.asarray(result.flow.velocity(x[cells], when))
    if result.energy is not None:
        height = np.ptp(potential) or 1.0
        adata.obs[f"{key_added}_potential"] = potential
        adata.obs[f"{key_added}_pseudotime"] = (potential.max() - potential) / height
    adata.obsm[f"{key_added}_velocity"] = velocity
    return result


def representation(adata: Any, use_rep: str) -> np.ndarray:
    """A representation by its key, with or without the `X_` prefix; "X" is the matrix itself."""
    for name in (use_rep, f"X_{use_rep}"):
        if name in adata.obsm:
            return np.asarray(adata.obsm[name])
    if use_rep == "X":
        return adata.X.toarray() if hasattr(adata.X, "toarray") else np.asarray(adata.X)
    listed = ", ".join(adata.obsm) or "nothing"
    raise KeyError(f"use_rep={use_rep!r} is not in adata.obsm, which holds {listed}")


def times(adata: Any, time_key: str) -> np.ndarray:
    """The time of each cell as a number."""
    column = _column(adata, time_key)
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        example = column[0]
        raise ValueError(f"adata.obs[{time_key!r}] must hold numbers, got {example!r}") from None


def _column(adata: Any, name: str) -> np.ndarray:
    if name not in adata.obs:
        listed = ", ".join(map(str, adata.obs.columns)) or "nothing"
        raise KeyError(f"{name!r} is not in adata.obs, which holds {listed}")
    return adata.obs[name].to_numpy()
