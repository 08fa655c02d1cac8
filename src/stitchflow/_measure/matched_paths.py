"""Paths through matched clouds: straight lines and bounded splines."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline

from stitchflow._stitching import defaults


def straight_lines(
    chain: np.ndarray, observed: np.ndarray, nodes: np.ndarray
) -> Float[np.ndarray, "k n d"]:
    """Straight lines through matched clouds `chain` (t, n, d), evaluated at the node times."""
    right, share = _places(observed, nodes)
    return (1.0 - share) * chain[right - 1] + share * chain[right]


def _places(observed: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each node the observed time that follows it, and the share of the gap that has passed."""
    right = np.clip(np.searchsorted(observed, nodes, side="right"), 1, len(observed) - 1)
    share = (nodes - observed[right - 1]) / (observed[right] - observed[right - 1])
    return right, share[:, None, None]


def through_snapshots(
    chain: np.ndarray, observed: np.ndarray, nodes: np.ndarray
) -> Float[np.ndarray, "k n d"]:
    """Natural cubic splines through matched clouds `chain` (t, n, d), evaluated at the node times.

    Straight lines where there are two clouds. Between two clouds a path leaves the straight line by
    at most half the length of that line; otherwise noise over a short gap would cause a large
    deviation in the next one.
    """
    right, _ = _places(observed, nodes)
    straight = straight_lines(chain, observed, nodes)
    bend = CubicSpline(observed, chain, axis=0, bc_type="natural")(nodes) - straight
    bent = np.linalg.norm(bend, axis=2, keepdims=True)
    allowed = defaults.MOST_BEND * np.linalg.norm(np.diff(chain, axis=0), axis=2, keepdims=True)
    worst = np.stack([bent[right == k + 1].max(0, initial=0.0) for k in range(len(allowed))])
    limit = np.minimum(1.0, allowed / np.maximum(worst, 1e-12))
    return straight + limit[right - 1] * bend
