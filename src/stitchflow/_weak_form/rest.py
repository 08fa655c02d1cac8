"""Whether anything changed between the snapshots; a population at rest tells no rate."""

from __future__ import annotations

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._weak_form import constants


def at_rest(data: Snapshots) -> bool:
    """Whether the snapshots look like draws of their individuals at random.

    Means and second moments of the snapshots are compared with those after the individuals were
    dealt out anew. They vary more if the population changes, and less if the same individuals are
    seen again, which tells beta as well. Between the two, V, W and beta are known up to one factor.

    Arguments:
        data: the snapshots.

    Returns:
        Whether chance explains how far they differ. Individuals that are followed are never at
        rest: their noise is seen.
    """
    if data.ids is not None:
        return False
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(data.x))[: constants.REST_INDIVIDUALS])
    x, snapshot = np.asarray(data.x[rows], np.float64), np.asarray(data.index)[rows]
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12)
    columns = min(x.shape[1], constants.REST_DIMENSIONS)
    first, second = np.triu_indices(columns)
    features = np.concatenate([x, x[:, first] * x[:, second]], axis=1)
    features -= features.mean(axis=0)
    starts = np.flatnonzero(np.diff(snapshot, prepend=-1))
    counts = np.diff(np.append(starts, len(snapshot)))[:, None]

    def spread(order: np.ndarray) -> np.ndarray:
        return (np.add.reduceat(features[order], starts) ** 2 / counts).sum(axis=0)

    seen = spread(np.arange(len(x)))
    dealt = np.stack([spread(rng.permutation(len(x))) for _ in range(constants.REST_DEALS)])
    # All averages together, and each by itself: of one the change may be large, of another small.
    above = np.mean(dealt.sum(axis=1) > seen.sum())
    apart = lambda found: (np.log(found / dealt.mean(axis=0)) ** 2).sum(axis=-1)
    unusual = np.mean(apart(dealt) > apart(seen))
    chance = constants.REST_CHANCE
    return bool(chance < above < 1.0 - chance and unusual > chance)
