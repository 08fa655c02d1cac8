"""Individuals that are far from all others: a handful of them says nothing about a population."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from stitchflow._data.snapshots import Snapshots
from stitchflow._stitching import defaults


def isolated(data: Snapshots) -> np.ndarray:
    """A mask of those who have fewer than a handful of others of any time near them, (n,).

    The distance to the last of a handful of neighbours is compared, on a logarithmic scale, with
    the median of those seen at the same time, in median absolute deviations of everybody. A whole
    snapshot that lies apart, as the first one may, is not isolated.
    """
    if len(data.x) <= defaults.HANDFUL:
        return np.zeros(len(data.x), bool)
    x = np.asarray(data.x, np.float64)
    # The nearest one is the individual itself.
    reach = KDTree(x).query(x, defaults.HANDFUL + 1)[0][:, -1]
    reach = np.log(np.maximum(reach, 1e-12 * max(float(reach.max()), 1e-300)))
    usual = np.array([np.median(reach[data.slice(k)]) for k in range(len(data))])
    further = reach - usual[data.index]
    return further > defaults.ISOLATED * max(float(np.median(np.abs(further))), 1e-6)
