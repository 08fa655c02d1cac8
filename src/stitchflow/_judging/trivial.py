"""The trivial methods with which every fit is compared."""

from __future__ import annotations

from stitchflow._data.snapshots import Snapshots
from stitchflow._judging.evaluate import evaluate
from stitchflow._judging.scores import Scores
from stitchflow._method.contract import METHODS
from stitchflow._stitching.stitching import fit
from stitchflow.rivals import Nearest, OTLinear

# What each of them does, by name. Nothing is trained, and results do not depend on a seed.
TRIVIAL = {
    Nearest.name: "standing still at the nearest snapshot",
    OTLinear.name: "straight optimal-transport lines",
}


def baselines(data: Snapshots | None, test: Snapshots, most: int = 1000) -> dict[str, Scores]:
    """W1 of the trivial methods on held-out individuals, by the name of the method.

    Arguments:
        data: what they are trained on; None returns nothing.
        test: the held-out individuals.
        most: the largest number of individuals of each time to train on.
    """
    if data is None:
        return {}
    small = data.subsample(most)
    fits = {name: fit(small, METHODS[name](), progress=False) for name in TRIVIAL}
    return {name: evaluate(result, test, metrics=("w1",)) for name, result in fits.items()}
