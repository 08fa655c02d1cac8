"""Fates of cells whose starting positions are shifted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Term
from stitchflow._reading.cells import chosen
from stitchflow._status import BadInput, BadInputType, require
from stitchflow._types import KeyLike, check_count, check_number
from stitchflow.tl._dynamics import Cells
from stitchflow.tl._fates import Labels, ends
from stitchflow.tl._genes import Loadings


def perturb(
    adata: Any,
    shift: Mapping[str, float],
    groups: str,
    *,
    cells: Any = None,
    time: float | None = None,
    draws: int = 10,
    neighbours: int = 10,
    loadings: str = "PCs",
    layer: str | None = None,
    key_added: str = "stitchflow",
    energy: Energy | Term | None = None,
    parts: Mapping[str, Any] | None = None,
    key: KeyLike = 0,
) -> Any:
    """Compare the fates of cells as they are with those after genes or components are shifted.

    Both versions of the cells are simulated with the same noise.

    Arguments:
        adata: the cells, to which `tl.fit` was applied.
        shift: how much is added to each gene or component, such as `{"GATA1": 1.0}` or `{"PC2":
            -0.5}`.
        groups: the column of `obs` with the group of each cell.
        cells: which cells are shifted, as a mask, names or row numbers; None means those of the
            first time.
        time: when fates are read; None means the last observed time.
        draws: how many times each cell is simulated.
        neighbours: how many observed cells share each end.
        loadings: the key in `varm` of the loadings that turn genes into components.
        layer: the layer from which the components were computed; None means `X`.
        key_added: the name under which the fit was stored, k for short.
        energy: an energy of your own, as in `tl.load`.
        parts: classes and functions of your own by name, as in `tl.load`.
        key: an integer seed or a JAX key of the noise.

    Returns:
        A table of groups with the columns `before`, `after`, `change` and `standard_error`, which
        is that of the change over cells.

    Examples:
        >>> sf.tl.perturb(adata, {"GATA1": 1.0}, groups="cell_type")        # doctest: +SKIP
    """
    pandas, seen = require("pandas"), Cells.of(adata, key_added, energy, parts)
    labels = Labels(adata, groups)
    rows = seen.at(seen.t.min()) if cells is None else chosen(adata, cells)
    end = float(seen.fit.times[-1]) if time is None else check_number(time, "time")
    if (seen.t[rows] >= end).any():
        raise BadInput(f"cells must be seen before time {end:g}")
    check_count(draws, "draws")
    moved = direction(adata, seen, shift, loadings, layer)
    before, after = (
        ends(seen, labels, rows, end, draws, neighbours, key, by)
        for by in (np.zeros_like(moved), moved)
    )
    both = np.isfinite(before).all(axis=1) & np.isfinite(after).all(axis=1)
    change = (after - before)[both]
    error = change.std(axis=0, ddof=1) / np.sqrt(len(change)) if len(change) > 1 else np.nan
    return pandas.DataFrame(
        {
            "before": before[both].mean(axis=0),
            "after": after[both].mean(axis=0),
            "change": change.mean(axis=0),
            "standard_error": error,
        },
        index=pandas.Index(labels.names, name=groups),
    )


def direction(
    adata: Any, seen: Cells, shift: Mapping[str, float], loadings: str, layer: str | None
) -> np.ndarray:
    """The total shift in the representation for shifts of genes and components.

    Arguments:
        adata: the cells.
        seen: the cells with their fit.
        shift: amounts by the name of a gene or component.
        loadings: the key of the loadings in `varm`.
        layer: the layer from which the components were computed; None means `X`.

    Returns:
        A vector (dim,).
    """
    if not isinstance(shift, Mapping) or not shift:
        raise BadInputType(f"shift must be amounts by gene or component, got {shift!r}")
    dim = seen.x.shape[1]
    axes = {f"PC{i + 1}": i for i in range(dim)}
    if seen.rep == "X":
        axes = {name: i for i, name in enumerate(adata.var_names)}
    unknown = [name for name in shift if name not in axes and name not in adata.var_names]
    if unknown:
        raise KeyError(f"shift: {unknown[0]!r} is neither a gene nor one of PC1 to PC{dim}")
    total = np.zeros(dim)
    through = None
    for name, amount in shift.items():
        amount = check_number(amount, f"shift of {name}")
        if name in axes:
            total[axes[name]] += amount
            continue
        through = Loadings(adata, seen, loadings, layer) if through is None else through
        total += amount * through.matrix[adata.var_names.get_loc(name)]
    return total
