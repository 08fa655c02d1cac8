"""The parts of an `.h5ad` file that a fit needs; everything else stays on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stitchflow._reading.cells import dense
from stitchflow._reading.declared import check_h5
from stitchflow._reading.h5_probe import CURRENT


@dataclass(frozen=True)
class Cells:
    """The part of an AnnData that was asked for; `cells.py` reads it like a complete one.

    Arguments:
        obs: the columns that were asked for.
        columns: the names of all columns of obs.
        obsm: the representations by name; None for those that were not asked for.
        X: the matrix, if it was asked for; None otherwise.
    """

    obs: Any
    columns: list[str]
    obsm: dict[str, Any]
    X: Any = None


def read_cells(path: Path, keys: Sequence[str], rep: str) -> Cells:
    """The columns `keys` of obs, as far as they exist, and one representation.

    Arguments:
        path: the file.
        keys: the names of columns.
        rep: the representation, with or without its prefix `X_`.
    """
    import h5py
    import pandas

    read = _reader()
    names = (rep, f"X_{rep}", rep.removeprefix("X_"))
    matrix = ["/X"] if rep == "X" else []
    check_h5(path, [*(f"/obs/{k}" for k in keys), *(f"/obsm/{n}" for n in names), *matrix])
    with h5py.File(path) as file:
        obs: Any = file["obs"]
        if obs.attrs.get("encoding-version") == CURRENT:
            there = list(map(str, obs.attrs["column-order"]))
            found = {key: read(obs[key]) for key in keys if key in there}
            index = pandas.Index(read(obs[str(obs.attrs["_index"])])).astype(str)
            stored: Any = file.get("obsm", {})
            obsm = {name: read(stored[name]) if name in names else None for name in stored}
            x = read(file["X"]) if rep == "X" and "X" not in obsm else None
            return Cells(pandas.DataFrame(found, index=index), there, obsm, x)
    return _whole(path, rep)


def _whole(path: Path, rep: str) -> Cells:
    """A file with an older encoding, read by AnnData itself; its genes stay on disk."""
    import anndata

    adata = anndata.read_h5ad(path, backed="r")
    x = dense(adata.X, "X") if rep == "X" else None
    cells = Cells(adata.obs, list(map(str, adata.obs.columns)), dict(adata.obsm), x)
    adata.file.close()
    return cells


def _reader() -> Any:
    import anndata as anndata

    try:
        from anndata.io import read_elem
    except ImportError:  # of AnnData 0.10
        from anndata.experimental import read_elem
    return read_elem
