"""From a representation that is linear in the genes back to genes, by its loadings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Term
from stitchflow._reading.cells import dense
from stitchflow._status import BadInput, require
from stitchflow._types import KeyLike, as_times, check_count
from stitchflow.tl._dynamics import Cells
from stitchflow.tl._store import announce

# The largest share of the representation's variance that the loadings may leave unexplained.
MISMATCH = 0.01


class Loadings:
    r"""The genes $g = \bar g + (z - \bar z)\,P^T$ at positions z, for loadings P (gene, dim).

    The representation must have been computed with P: $z = (g - c)\,P$ for some c.
    """

    def __init__(self, adata: Any, seen: Cells, loadings: str, layer: str | None):
        if seen.rep == "X":
            raise BadInput("the fit was made on the genes themselves, which need no loadings")
        if loadings not in adata.varm:
            listed = ", ".join(adata.varm) or "nothing"
            raise KeyError(f"loadings={loadings!r} is not in adata.varm, which holds {listed}")
        if layer is not None and layer not in adata.layers:
            listed = ", ".join(adata.layers) or "nothing"
            raise KeyError(f"layer={layer!r} is not in adata.layers, which holds {listed}")
        dim = seen.x.shape[1]
        self.matrix = np.asarray(adata.varm[loadings], np.float64)[:, :dim]
        genes = adata.X if layer is None else adata.layers[layer]
        self.place = seen.x.mean(axis=0, dtype=np.float64)
        self.genes = np.asarray(genes.mean(axis=0), np.float64).ravel()
        some = np.random.default_rng(0).permutation(adata.n_obs)[:500]
        made = dense(genes[some], "the genes").astype(np.float64) @ self.matrix
        apart = (made - made.mean(axis=0)) - (seen.x[some] - seen.x[some].mean(axis=0))
        share = np.square(apart).sum() / max(np.square(seen.x[some] - self.place).sum(), 1e-300)
        if self.matrix.shape[1] < dim or share > MISMATCH:
            where = "adata.X" if layer is None else f"layers[{layer!r}]"
            raise BadInput(
                f"varm[{loadings!r}] does not turn {where} into obsm[{seen.rep!r}] (they differ in "
                f"{share:.0%} of its variance); name the layer the components were computed from"
            )

    def expression(self, z: np.ndarray) -> np.ndarray:
        return self.genes + (z - self.place) @ self.matrix.T

    def velocity(self, v: np.ndarray) -> np.ndarray:
        return v @ self.matrix.T


def genes(
    adata: Any,
    genes: Sequence[str] | None = None,
    times: Any = None,
    *,
    n: int = 1000,
    loadings: str = "PCs",
    layer: str | None = None,
    key_added: str = "stitchflow",
    energy: Energy | Term | None = None,
    parts: Mapping[str, Any] | None = None,
    key: KeyLike = 0,
) -> Any:
    r"""Compute trends and velocities of genes from those of principal components.

    $g = \bar g + (z - \bar z)\,P^T$ for positions $z$ in the representation and loadings $P$.
    Writes `layers[k_velocity]`, the velocity of every gene in every cell, in units of expression
    over time.

    Arguments:
        adata: the cells, to which `tl.fit` was applied.
        genes: the names of the genes in the table; None means all.
        times: the times of the table; None means 50 from the first to the last one.
        n: how many cells are drawn from the fitted marginal of each time.
        loadings: the key of the loadings in `varm`.
        layer: the layer from which the components were computed; None means `X`.
        key_added: the name under which the fit was stored, k for short.
        energy: an energy of your own, as in `tl.load`.
        parts: classes and functions of your own by name, as in `tl.load`.
        key: an integer seed or a JAX key.

    Returns:
        A table of times by genes with the mean expression.

    Examples:
        >>> sf.tl.genes(adata, ["GATA1", "SPI1"]).plot()        # doctest: +SKIP
    """
    pandas, seen = require("pandas"), Cells.of(adata, key_added, energy, parts)
    made = Loadings(adata, seen, loadings, layer)
    columns = np.arange(adata.n_vars) if genes is None else _columns(adata, genes)
    first, last = float(seen.fit.times[0]), float(seen.fit.times[-1])
    wanted = np.linspace(first, last, 50) if times is None else as_times(times)
    drawn = np.asarray(seen.fit.flow.sample(wanted, check_count(n, "n"), key=key))
    trends = made.expression(drawn.mean(axis=1))[:, columns]
    name = f"{key_added}_velocity"
    if name in adata.obsm:
        adata.layers[name] = made.velocity(np.asarray(adata.obsm[name])).astype(np.float32)
        announce([f"layers[{name!r}], velocities of genes"])
    index = pandas.Index(wanted, name="time")
    return pandas.DataFrame(trends, index, adata.var_names[columns])


def _columns(adata: Any, names: Sequence[str]) -> np.ndarray:
    if isinstance(names, str):
        names = [names]
    found = adata.var_names.get_indexer(list(names))
    if (found < 0).any():
        raise KeyError(f"gene {names[int(np.argmin(found))]!r} is not in adata.var_names")
    return found
