"""Two conditions of one fit, compared at every cell."""

from __future__ import annotations

from typing import Any

from stitchflow._judging.compare import Comparison
from stitchflow._judging.compare import compare as compared
from stitchflow._reading.cells import representation
from stitchflow.tl._store import announce, load, params_of


def compare(adata: Any, a: str, b: str, *, key_added: str = "stitchflow") -> Comparison:
    """Compare the landscapes of two conditions of a fit, and write the difference at every cell.

    The fit was made by `tl.fit` with a `condition_key`, and a `method` with a `PerCondition` term.
    Writes `obs[k_difference]`, V of `a` minus V of `b` at each cell, and `obs[k_difference_sd]`,
    its standard error.

    Arguments:
        adata: the cells, to which `tl.fit` was applied.
        a: the name of a condition in the column `condition_key`.
        b: the name of another.
        key_added: the name under which the fit was stored, k for short.

    Returns:
        The comparison: rows with intervals, `.differs` and `.sentences` (`stitchflow.compare`).

    Examples:
        >>> sf.tl.compare(adata, "treated", "control").differs        # doctest: +SKIP
    """
    params = params_of(adata, key_added)
    found = compared(load(adata, key_added), a, b)
    v = found.potential(representation(adata, params["use_rep"]))
    adata.obs[f"{key_added}_difference"] = v.mean
    adata.obs[f"{key_added}_difference_sd"] = v.sd
    announce([f"obs['{key_added}_difference'], V of {a} minus V of {b}, and its standard error"])
    return found
