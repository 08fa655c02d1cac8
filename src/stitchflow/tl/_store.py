"""The model inside `uns`: plain text, numbers and arrays that an .h5ad can store."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Term
from stitchflow._method.contract import Fit
from stitchflow._reading.cells import column, representation, times
from stitchflow._status import BadInput, BadInputType, require
from stitchflow._storage.run_state import check_format
from stitchflow._storage.save import from_plain, plain

log = logging.getLogger(__name__)


def check_anndata(adata: Any) -> None:
    anndata = require("anndata")
    if not isinstance(adata, anndata.AnnData):
        raise BadInputType(f"adata must be an AnnData, got {type(adata).__name__}")


def put(adata: Any, key_added: str, fit: Fit, params: dict[str, Any]) -> None:
    """Write a fit and the settings of the call into `uns[key_added]`.

    Arguments:
        adata: the cells.
        key_added: the name of the entry.
        fit: the fit.
        params: the settings, of which those that are None are left out.
    """
    header, arrays = plain(fit)
    text = json.dumps(header)
    adata.uns[key_added] = {
        "params": {name: value for name, value in params.items() if value is not None},
        "header": text,
        # A slash in a name would create a group in the file.
        "arrays": {name.replace("/", "|"): array for name, array in arrays.items()},
        "sha256": _seal(text, arrays),
    }


def params_of(adata: Any, key_added: str) -> dict[str, Any]:
    """The settings of the fit under this key, or an error that lists the existing keys."""
    check_anndata(adata)
    if not is_fit(entry := adata.uns.get(key_added)):
        listed = ", ".join(name for name, other in adata.uns.items() if is_fit(other)) or "none"
        raise KeyError(f"no fit under uns[{key_added!r}]; fits there are: {listed}. Call tl.fit")
    return dict(entry["params"])


def is_fit(entry: Any) -> bool:
    """Whether an entry of `uns` is a fit, rather than data of the user."""
    return isinstance(entry, dict) and {"params", "header", "arrays"} <= set(entry)


def load(
    adata: Any,
    key_added: str = "stitchflow",
    *,
    energy: Energy | Term | None = None,
    parts: Mapping[str, Any] | None = None,
) -> Fit:
    """Open the fit that is stored in an AnnData.

    A stored fit contains no code: classes and functions of your own are handed over again.

    Arguments:
        adata: the cells, to which `tl.fit` was applied.
        key_added: the name under which the fit was stored, k for short.
        energy: the energy of the fit, where it contains functions of your own; None otherwise.
        parts: classes and functions of your own by the name that the error message asks for, such
            as `{"lab.Capped": Capped}`; None otherwise.

    Returns:
        The `Fit`. Where the cells are still those that were fitted, they are its `data`.

    Examples:
        >>> fit = sf.tl.load(adata)        # doctest: +SKIP
    """
    params, entry = params_of(adata, key_added), adata.uns[key_added]
    try:
        header, arrays = _opened(entry)
        fit = from_plain(header, arrays, energy, parts)
    except ValueError as error:
        raise BadInput(f"uns[{key_added!r}]: {error}") from None
    try:
        data = cells_of(adata, params, trained(adata, key_added))
    except (KeyError, ValueError):  # columns were removed or changed since the fit
        return fit
    if data.fingerprint == header["data"].get("fingerprint"):
        fit.data = data
    return fit


def _opened(entry: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a stored fit, checked for their format and hash."""
    text = str(entry["header"])
    try:
        header = json.loads(text)
    except (RecursionError, ValueError) as error:
        raise BadInput(f"its header is not JSON ({error})") from None
    if not isinstance(header, dict) or not isinstance(entry["arrays"], dict):
        raise BadInput("its header and its arrays must each be a dictionary")
    arrays = {n.replace("|", "/"): np.asarray(array) for n, array in entry["arrays"].items()}
    check_format(header.get("format"), "it")
    if "sha256" in entry and str(entry["sha256"]) != _seal(text, arrays):  # older ones have none
        raise BadInput("it does not match its own hash: the fit is damaged")
    return header, arrays


def _seal(header: str, arrays: dict[str, np.ndarray]) -> str:
    """The hash of a stored fit, independent of the number types in which arrays are stored."""
    digest = sha256(header.encode())
    for name, array in sorted(arrays.items()):
        values = array.astype(np.float64) if array.dtype.kind in "biuf" else array
        digest.update(f"{name} {array.shape}".encode() + values.tobytes())
    return digest.hexdigest()


def trained(adata: Any, key_added: str) -> np.ndarray:
    """Which cells were used for training."""
    if marks(adata, key_added):
        return np.asarray(adata.obs[f"{key_added}_train"], bool)
    return np.ones(adata.n_obs, bool)


def marks(adata: Any, key_added: str) -> bool:
    """Whether `obs[k_train]` was written by a fit; a fit to all cells writes no such column.

    Fits of version 0.1.0 do not record this; their column is assumed to be written by the fit.
    """
    entry, name = adata.uns.get(key_added), f"{key_added}_train"
    return name in adata.obs and is_fit(entry) and bool(entry["params"].get("held_out", True))


def cells_of(adata: Any, params: dict[str, Any], mask: np.ndarray) -> Snapshots:
    """Some of the cells as snapshots."""
    of_obs = lambda name: (
        None if params.get(name) is None else column(adata, params[name]).to_numpy()
    )
    told = {"weights": of_obs("weight_key"), "groups": of_obs("group_key")}
    told["conditions"] = of_obs("condition_key")
    x, t = representation(adata, params["use_rep"]), times(adata, params["time_key"])
    everybody = Snapshots.from_table(x, t, **told)
    everybody = replace(everybody, names=adata.obs_names)
    assert everybody.rows is not None
    return everybody.take(np.flatnonzero(mask[everybody.rows]))


def announce(wrote: list[str]) -> None:
    """Log what was written, in the format of scanpy."""
    log.info("added\n%s", "\n".join(f"    {line}" for line in wrote))
