"""What an AnnData contains about its cells: representations, times, columns, choices of cells."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from stitchflow._reading.time_labels import durations, order_of
from stitchflow._status import BadInput, BadInputType, DataWarning
from stitchflow._types import as_dense, as_numbers, rows_named

# Parts of the names of representations that are made for drawing.
DRAWINGS = ("umap", "tsne", "t-sne", "draw_graph", "force_directed")


def representation_key(adata: Any, name: str, argument: str = "use_rep") -> str:
    """The key in `obsm` that is meant, with or without its prefix `X_`.

    Arguments:
        adata: the cells.
        name: the key as the user wrote it; "X" means the matrix itself.
        argument: the name that error messages use for `name`.
    """
    if not isinstance(name, str):
        raise BadInputType(f"{argument} must be a key of adata.obsm, got {name!r}")
    for key in (name, f"X_{name}", name.removeprefix("X_")):
        if key in adata.obsm:
            return key
    if name == "X":
        return "X"
    listed = ", ".join(adata.obsm) or "nothing"
    raise KeyError(f"{argument}={name!r} is not in adata.obsm, which holds {listed}")


def warn_of_drawings(key: str) -> None:
    """Say so where a representation is made for drawing, so that its distances mean little.

    `key` is its name in `obsm`.
    """
    words = key.lower()
    if any(name in words for name in DRAWINGS):
        warnings.warn(
            f"{key} is made for drawing: its distances and gaps depend on its settings, so speeds, "
            "landscape and beta in it mean little. Fit principal components (X_pca) or a latent "
            f"space (X_scVI), and draw on {key} with pl.stream",
            DataWarning,
            stacklevel=3,
        )


def representation(adata: Any, name: str, argument: str = "use_rep") -> np.ndarray:
    """Read a representation of the cells of an AnnData.

    Arguments:
        adata: the cells.
        name: the key in `obsm`, with or without its prefix `X_`; "X" means the matrix itself.
        argument: the name that error messages use for `name`.

    Returns:
        A dense array (n, dim).
    """
    key = representation_key(adata, name, argument)
    return dense(adata.X if key == "X" else adata.obsm[key], key)


def dense(matrix: Any, name: str) -> np.ndarray:
    """A dense array of a dense or sparse `matrix`, in memory or on disk.

    `name` is how error messages call it.
    """
    matrix = matrix.to_memory() if hasattr(matrix, "to_memory") else matrix
    return as_dense(matrix, name) if hasattr(matrix, "nnz") else np.asarray(matrix)


def times(adata: Any, time_key: str) -> np.ndarray:
    """Read the time of each cell of an AnnData as a number.

    Numbers and labels of numbers are taken as they are, labels such as 36h by their unit. Ordered
    categories each named with one number (E8.5, "day 12") count by it where that agrees with their
    order, else by their place.

    Arguments:
        adata: the cells.
        time_key: the column of `obs`.

    Returns:
        An array (n,). Missing times, and labels without an order, raise an error.
    """
    series = column(adata, time_key)
    if series.isna().any():
        missing = rows_named(np.flatnonzero(series.isna()))
        raise BadInput(f"adata.obs[{time_key!r}] is missing in {missing}")
    try:
        return as_numbers(series.to_numpy(), time_key).astype(np.float64)
    except ValueError:
        pass
    place = f"adata.obs[{time_key!r}]"
    try:
        if getattr(series.dtype, "ordered", False):
            used = series.cat.remove_unused_categories().cat
            return order_of(list(used.categories))[used.codes.to_numpy()]
        labels = list(series.unique())
        found = durations(labels)
    except ValueError as error:
        raise BadInput(f"{place}: {error}") from None
    if found is not None:
        return series.map(dict(zip(labels, found, strict=True))).to_numpy(np.float64)
    made = "" if hasattr(series, "cat") else ".astype('category')"
    raise BadInput(
        f"{place} must hold numbers, got {series.iloc[0]!r}, or ordered categories: {place} = "
        f"{place}{made}.cat.as_ordered() (check the order of .cat.categories)"
    )


def column(adata: Any, name: str) -> Any:
    """The column `name` of `adata.obs`; an error lists the existing ones."""
    if name not in adata.obs:
        listed = ", ".join(map(str, adata.obs.columns)) or "nothing"
        raise KeyError(f"{name!r} is not in adata.obs, which holds {listed}")
    return adata.obs[name]


def chosen(adata: Any, cells: Any, name: str = "cells") -> np.ndarray:
    """The row numbers of the chosen cells.

    Arguments:
        adata: all cells.
        cells: a mask, names of cells or row numbers; None chooses all.
        name: the name that error messages use for `cells`.
    """
    n = adata.n_obs
    if cells is None:
        return np.arange(n)
    given = np.atleast_1d(np.asarray(cells))
    if given.dtype.kind == "b":
        if given.shape != (n,):
            raise BadInput(f"{name} must have one entry per cell ({n},), got {given.shape}")
        rows = np.flatnonzero(given)
    elif given.dtype.kind in "iu":
        if given.size and not (given.min() >= 0 and given.max() < n):
            raise BadInput(f"{name} must be row numbers below {n}, got {given.max()}")
        rows = given
    else:
        wanted = adata.obs_names[adata.obs_names.isin(given.astype(str))]
        if not wanted.is_unique:
            twice = wanted[wanted.duplicated()][0]
            raise BadInput(f"{name}: two cells are called {twice!r}; make obs_names unique")
        rows = adata.obs_names.get_indexer_for(given.astype(str))
        if (rows < 0).any():
            absent = str(given[rows < 0][0])
            raise KeyError(f"{name}: {absent!r} is not among adata.obs_names")
    if not rows.size:
        raise BadInput(f"{name} chooses no cell")
    return rows
