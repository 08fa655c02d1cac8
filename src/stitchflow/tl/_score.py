"""Held-out scores of a fit inside an AnnData."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stitchflow._energy import Energy
from stitchflow._evaluate import PROTOCOLS, Scores, evaluate
from stitchflow._terms import Term
from stitchflow._types import KeyLike
from stitchflow.metrics import DISTANCES
from stitchflow.tl._store import cells_of, load, params_of, said, trained


def score(
    adata: Any,
    *,
    metrics: Sequence[str] = tuple(DISTANCES),
    protocols: Sequence[str] = PROTOCOLS,
    key_added: str = "stitchflow",
    energy: Energy | Term | None = None,
    key: KeyLike = 0,
) -> Scores:
    """Score a fit on the cells it was not shown (`test_fraction`, `hold_out` of `tl.fit`).

    Returns the rows of `evaluate` and writes them as a table to `uns[k]["scores"]`. `energy` as in
    `load`.
    """
    params, seen = params_of(adata, key_added), trained(adata, key_added)
    if seen.all():
        raise ValueError("every cell was fitted: call tl.fit with test_fraction or hold_out")
    test = cells_of(adata, params, ~seen)
    fit = load(adata, key_added, energy=energy)
    scores = evaluate(fit, test, metrics=metrics, protocols=protocols, key=key)
    table = scores.to_pandas()
    table[["time", "floor"]] = table[["time", "floor"]].astype(float)
    table.index = table.index.astype(str)
    adata.uns[key_added]["scores"] = table
    said([f"uns[{key_added!r}]['scores'], held-out scores"])
    return scores
