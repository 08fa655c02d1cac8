"""What all plots share: axes, colours for colour-blind readers as well, names of axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

CMAP = "viridis"

# Okabe and Ito's colours for categories, without the yellow that is hard to see on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MANY = "tab20"  # for more categories than that
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


def category_colours(n: int) -> list[Any]:
    """A colour for each of `n` categories, all different up to 20 of them."""
    import matplotlib

    if n <= len(PALETTE):
        return list(PALETTE[:n])
    chosen = matplotlib.colormaps[MANY].colors  # pyright: ignore
    return [chosen[i % len(chosen)] for i in range(n)]


def legend_beside(ax: Any, **look: Any) -> None:
    """A legend to the right of the axes, where it covers nothing, in columns of at most 12."""
    shown = len(ax.get_legend_handles_labels()[1])
    place = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "borderaxespad": 0.0}
    columns = max(1, -(-shown // 12))
    ax.legend(**place, fontsize="x-small", frameon=False, ncols=columns, **look)


def time_colours(times: np.ndarray) -> Callable[[float], Any]:
    """A colour for each time, from the first to the last."""
    import matplotlib

    span = float(times[-1] - times[0]) or 1.0
    return lambda t: matplotlib.colormaps[CMAP](0.95 * float(t - times[0]) / span)


def name_axes(ax: Any, dim: int, second: str = "jitter") -> None:
    """Names of the plane of the first two dimensions; `second` where there is only one."""
    ax.set_xlabel("dimension 1")
    ax.set_ylabel("dimension 2" if dim > 1 else second)
