"""Scores and a report of a fit inside an AnnData, on the cells that were held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Term
from stitchflow._judging.evaluate import evaluate
from stitchflow._judging.protocols import PROTOCOLS
from stitchflow._judging.scores import Scores
from stitchflow._status import BadInput
from stitchflow._types import KeyLike
from stitchflow.metrics import DISTANCES
from stitchflow.report import write_report
from stitchflow.tl._store import announce, cells_of, load, params_of, trained


def score(
    adata: Any,
    *,
    metrics: Sequence[str] = tuple(DISTANCES),
    protocols: Sequence[str] = PROTOCOLS,
    key_added: str = "stitchflow",
    energy: Energy | Term | None = None,
    parts: Mapping[str, Any] | None = None,
    key: KeyLike = 0,
) -> Scores:
    """Score a fit on the cells that `tl.fit` held out (`test_fraction`, `hold_out`).

    Writes the scores as a table to `uns[k]["scores"]`. They are explained under
    `stitchflow.evaluate`.

    Arguments:
        adata: the cells, to which `tl.fit` was applied.
        metrics: the names of distances in `metrics.DISTANCES`.
        protocols: what is predicted, among "marginal", "one-step", "rollout", "interpolate" and
            "forecast".
        key_added: the name under which the fit was stored, k for short.
        energy: an energy of your own, as in `tl.load`.
        parts: classes and functions of your own by name, as in `tl.load`.
        key: an integer seed or a JAX key of samples and noise.

    Returns:
        The scores, one row for each protocol, metric and time.

    Examples:
        >>> sf.tl.score(adata, metrics=["w1"])        # doctest: +SKIP
    """
    test = _unseen(adata, key_added)
    if test is None:
        raise BadInput("every cell was fitted: call tl.fit with test_fraction or hold_out")
    fit = load(adata, key_added, energy=energy, parts=parts)
    scores = evaluate(fit, test, metrics=metrics, protocols=protocols, key=key)
    table = scores.to_pandas()
    table[["time", "floor"]] = table[["time", "floor"]].astype(float)
    table.index = table.index.astype(str)
    adata.uns[key_added]["scores"] = table
    announce([f"uns[{key_added!r}]['scores'], held-out scores"])
    return scores


def report(
    adata: Any,
    path: Any,
    *,
    key_added: str = "stitchflow",
    energy: Energy | Term | None = None,
    parts: Mapping[str, Any] | None = None,
) -> None:
    """Write a report of a fit as one HTML page, evaluated on the cells that were held out.

    An existing file is replaced. Without held-out cells the page has no scores.

    Arguments:
        adata: the cells, to which `tl.fit` was applied.
        path: the file to write.
        key_added: the name under which the fit was stored, k for short.
        energy: an energy of your own, as in `tl.load`.
        parts: classes and functions of your own by name, as in `tl.load`.

    Examples:
        >>> sf.tl.report(adata, "report.html")        # doctest: +SKIP
    """
    test, fit = _unseen(adata, key_added), load(adata, key_added, energy=energy, parts=parts)
    write_report(fit, path, test=test)


def _unseen(adata: Any, key_added: str) -> Snapshots | None:
    """The cells that were held out, or None."""
    params, seen = params_of(adata, key_added), trained(adata, key_added)
    return None if seen.all() else cells_of(adata, params, ~seen)
