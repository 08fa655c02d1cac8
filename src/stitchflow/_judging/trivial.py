"""The trivial methods, which every fit is compared with."""

from __future__ import annotations

from stitchflow._data.snapshots import Snapshots
from stitchflow._judging.evaluate import evaluate
from stitchflow._judging.scores import Scores
from stitchflow._method.contract import METHODS
from stitchflow._stitching.stitching import fit
from stitchflow.rivals import Nearest, OTLinear

# By name, what each of them does. Nothing is trained, and their answers do not depend on a seed.
TRIVIAL = {
    Nearest.name: "standing still at the nearest snapshot",
    OTLinear.name: "straight optimal-transport lines",
}


def baselines(data: Snapshots | None, test: Snapshots, most: int = 1000) -> dict[str, Scores]:
    """W1 of the trivial methods on held-out individuals, trained on at most `most` of each time."""
    if data is None:
        return {}
    small = data.subsample(most)
    fits = {name: fit(small, METHODS[name](), progress=False) for name in TRIVIAL}
    return {name: evaluate(result, test, metrics=("w1",)) for name, result in fits.items()}
