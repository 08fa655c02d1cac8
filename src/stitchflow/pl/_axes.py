"""What all plots share: axes, colours for colour-blind readers as well, names of axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

CMAP = "viridis"

# Okabe and Ito's colours for categories, without the yellow that is hard to see on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = "osD^vP*X"


def axes(ax: Any) -> Any:
    """The given Axes, or a new one of the width of a column."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib; install stitchflow[plot]") from None
    return plt.subplots(figsize=(4.2, 3.6), layout="constrained")[1]


def time_colours(times: np.ndarray) -> Callable[[float], Any]:
    """A colour for each time, from the first to the last."""
    import matplotlib

    span = float(times[-1] - times[0]) or 1.0
    return lambda t: matplotlib.colormaps[CMAP](0.95 * float(t - times[0]) / span)


def name_axes(ax: Any, dim: int, second: str = "jitter") -> None:
    """Names of the plane of the first two dimensions; `second` where there is only one."""
    ax.set_xlabel("dimension 1")
    ax.set_ylabel("dimension 2" if dim > 1 else second)
