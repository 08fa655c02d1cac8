"""Drivers: genes whose expression follows the probability of a fate."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import false_discovery_control, norm, rankdata

from stitchflow._reading.cells import dense, times
from stitchflow._status import BadInput, require
from stitchflow._types import KeyLike, as_rng, check_count, check_number
from stitchflow.tl._store import params_of

CHUNK = 500  # genes at once
FEWEST = 10  # cells of a time
NINETY = float(norm.ppf(0.95))


def drivers(
    adata: Any,
    fates: Any = None,
    *,
    layer: str | None = None,
    least: float = 0.1,
    permutations: int = 200,
    key_added: str = "stitchflow",
    key: KeyLike = 0,
) -> Any:
    r"""Rank genes by how far their expression follows the probability of each fate.

    The effect is Spearman's correlation $r$ of a gene with `obsm[k_fate]` among cells of one time,
    averaged over times in proportion to their cells, so that what merely changes in time has none.
    Its standard deviation $s$ is that over permutations of the cells within times. Since fates are
    computed from a representation that all genes are part of, tiny correlations mean nothing: the
    null hypothesis is $|r| \le$ `least`, and
    $p = \Phi\bigl((\operatorname{artanh}(\mathrm{least}) - \operatorname{artanh}|r|) / s\bigr)$.
    A correlation is not a cause: a gene that follows a driver is found as well.

    Arguments:
        adata: the cells, to which `tl.fate` was applied.
        fates: the names of the fates to examine, one or many; None means all.
        layer: the layer with the expression; None means `X`.
        least: the largest correlation that counts as none.
        permutations: how many permutations of the cells.
        key_added: the name under which the fit was stored, k for short.
        key: an integer seed or a JAX key of the permutations.

    Returns:
        A table with the columns `gene`, `fate`, `effect`, its 90 % interval over cells `low` and
        `high`, and `q`, the false discovery rate (Benjamini and Hochberg, over the genes of a fate)
        at which the gene is found; the strongest genes of each fate first. Intervals take the fates
        as they are.

    Examples:
        >>> table = sf.tl.drivers(adata)                        # doctest: +SKIP
        >>> table[table["q"] < 0.1]                             # doctest: +SKIP
    """
    pandas, params = require("pandas"), params_of(adata, key_added)
    check_number(least, "least", 0.0, 0.99)
    check_count(permutations, "permutations", 50)
    if layer is not None and layer not in adata.layers:
        listed = ", ".join(adata.layers) or "nothing"
        raise KeyError(f"layer={layer!r} is not in adata.layers, which holds {listed}")
    table = _fates(adata, fates, key_added)
    values = table.to_numpy(np.float64)
    t = times(adata, params["time_key"])
    cells = _cells(values, t)
    genes = adata.X if layer is None else adata.layers[layer]
    ranked, rng = _ranks(values[cells], t[cells]), as_rng(key)
    shuffled = [ranked[_shuffled(t[cells], rng)] for _ in range(permutations)]
    effects = np.empty((adata.n_vars, len(table.columns)))
    spreads = np.empty_like(effects)
    for start in range(0, adata.n_vars, CHUNK):
        part = slice(start, start + CHUNK)
        own = _ranks(dense(genes[:, part], "the genes")[cells].astype(np.float64), t[cells])
        effects[part] = own.T @ ranked
        null = np.stack([own.T @ other for other in shuffled])
        spreads[part] = np.arctanh(np.clip(null, -0.999, 0.999)).std(axis=0)
    return _sorted(pandas, adata.var_names, list(table.columns), effects, spreads, least)


def _fates(adata: Any, fates: Any, k: str) -> Any:
    """The columns of `obsm[k_fate]` that were asked for."""
    if f"{k}_fate" not in adata.obsm:
        raise KeyError(f"obsm['{k}_fate'] is missing: call tl.fate first")
    table = adata.obsm[f"{k}_fate"]
    if fates is None:
        return table
    wanted = [fates] if isinstance(fates, str) else list(fates)
    for name in wanted:
        if name not in table.columns:
            raise BadInput(f"fates must be among {', '.join(table.columns)}; got {name!r}")
    return table[wanted]


def _cells(values: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Rows of cells with fates that are still open at their time: some differ from others."""
    known = np.isfinite(values).all(axis=1)
    rows = []
    for when in np.unique(t[known]):
        own = np.flatnonzero(known & (t == when))
        if len(own) >= FEWEST and np.ptp(values[own], axis=0).max() > 0.0:
            rows.append(own)
    if not rows:
        raise BadInput(f"no time has {FEWEST} cells or more whose fates differ")
    return np.concatenate(rows)


def _ranks(values: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(cell, column): ranks within times, so scaled that two columns multiply to their effect.

    The mean correlation over times in proportion to their cells is the sum over all cells of the
    product of ranks with mean zero and variance one within their time, over the number of cells.
    """
    ranks = np.zeros(values.shape)
    for when in np.unique(t):
        rows = np.flatnonzero(t == when)
        own = rankdata(values[rows], axis=0)
        own -= own.mean(axis=0)
        size = own.std(axis=0)
        ranks[rows] = own / np.where(size > 0.0, size, np.inf)
    return ranks / np.sqrt(len(values))


def _shuffled(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Row numbers in which the cells of each time are in random order."""
    order = np.arange(len(t))
    for when in np.unique(t):
        rows = np.flatnonzero(t == when)
        order[rows] = rng.permutation(rows)
    return order


def _sorted(
    pandas: Any,
    genes: Any,
    fates: list[str],
    effects: np.ndarray,
    spreads: np.ndarray,
    least: float,
) -> Any:
    z = np.arctanh(np.clip(effects, -0.999999, 0.999999))
    error = np.maximum(spreads, 1e-300)
    p = norm.cdf((np.arctanh(least) - np.abs(z)) / error)
    # A gene that does not vary has no correlation, and no spread of it.
    p = np.where(spreads > 0.0, p, 1.0)
    tables = []
    for j, fate in enumerate(fates):
        found = {
            "gene": np.asarray(genes, str),
            "fate": fate,
            "effect": effects[:, j],
            "low": np.tanh(z[:, j] - NINETY * spreads[:, j]),
            "high": np.tanh(z[:, j] + NINETY * spreads[:, j]),
            "q": false_discovery_control(p[:, j]),
        }
        order = np.lexsort((-np.abs(effects[:, j]), found["q"]))
        tables.append(pandas.DataFrame(found).iloc[order])
    return pandas.concat(tables, ignore_index=True)
