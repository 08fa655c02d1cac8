"""Where the landscapes of two conditions differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._judging.compare import Comparison
from stitchflow.pl._axes import axes, name_axes
from stitchflow.pl._maps import Plane, line_over


def difference(comparison: Comparison, data: Snapshots, *, grid: int = 60, ax: Any = None) -> Any:
    """Draw V of one condition minus V of another, and where the data tell it from zero.

    On the plane of the first two dimensions, the others at their mean; places where no individual
    is near are left white, and dots cover those where the 90 % interval contains zero. Data of one
    dimension gives a line with its 90 % band.

    Arguments:
        comparison: the result of `sf.compare`.
        data: the snapshots that determine the range of the plane.
        grid: the number of points along each axis.
        ax: the Matplotlib Axes to draw on; None makes a new figure.

    Returns:
        The Axes.

    Examples:
        >>> sf.pl.difference(sf.compare(fit, "treated", "control"), data)        # doctest: +SKIP
    """
    ax, reach = axes(ax), comparison.multiple
    if data.dim == 1:
        line = line_over(data, grid)
        v = comparison.potential(line)
        low, high = v.mean - reach * v.sd, v.mean + reach * v.sd
        ax.fill_between(line[:, 0], low, high, color="C0", alpha=0.3, lw=0)
        ax.plot(line[:, 0], v.mean, color="C0")
        ax.axhline(0.0, color="0.5", lw=0.8)
        name_axes(ax, 1, "difference of V")
    else:
        plane = Plane.over(data, grid)
        v = comparison.potential(plane.points)
        value = np.where(plane.near, v.mean.reshape(grid, grid), np.nan)
        top = float(np.nanmax(np.abs(value))) or 1.0
        look = {"levels": np.linspace(-top, top, 22), "cmap": "RdBu_r"}
        filled = ax.contourf(plane.across, plane.up, np.ma.masked_invalid(value), **look)
        ax.figure.colorbar(filled, ax=ax, label="difference of V", format="%.2g")
        untold = plane.near & (np.abs(v.mean) < reach * v.sd).reshape(grid, grid)
        marked = np.where(untold, 1.0, np.nan)
        dots = {"levels": [0.5, 1.5], "hatches": [".."], "colors": "none"}
        if untold.any():
            ax.contourf(plane.across, plane.up, np.ma.masked_invalid(marked), **dots)
        name_axes(ax, data.dim)
    ax.set_title(f"V of {comparison.conditions[0]} minus {comparison.conditions[1]}")
    return ax
