"""What the trivial methods score, to stand beside every fit."""

from __future__ import annotations

from stitchflow._data.snapshots import Snapshots
from stitchflow._judging.evaluate import evaluate
from stitchflow._judging.scores import Scores
from stitchflow._method.contract import METHODS
from stitchflow._stitching.stitching import fit


def baselines(data: Snapshots | None, test: Snapshots, most: int = 1000) -> dict[str, Scores]:
    """W1 of the trivial methods on the same held-out individuals, from 1,000 of each time."""
    if data is None:
        return {}
    small = data.subsample(most)
    names = ("nearest", "ot-linear")
    fits = {name: fit(small, METHODS[name](), progress=False) for name in names}
    return {name: evaluate(result, test, metrics=("w1",)) for name, result in fits.items()}
