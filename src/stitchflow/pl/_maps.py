"""Maps over the plane of the first two dimensions: the potential, and the force's uncertainty."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import KDTree

from stitchflow._data.snapshots import Snapshots
from stitchflow._method.contract import Fit
from stitchflow._status import BadInput
from stitchflow._stitching.ensemble import Ensemble
from stitchflow.pl._axes import CMAP, axes, name_axes

NEAR = 0.06  # of the plane's diagonal: the largest distance of a place to the nearest individual


class Plane(NamedTuple):
    """A grid over the data, the dimensions beyond the second at their mean."""

    across: np.ndarray
    up: np.ndarray
    points: np.ndarray
    near: np.ndarray  # whether an individual is close

    @staticmethod
    def over(data: Snapshots, grid: int) -> Plane:
        low, high = data.x.min(axis=0)[:2], data.x.max(axis=0)[:2]
        pad = 0.05 * (high - low)
        across, up = (np.linspace(*ends, grid) for ends in zip(low - pad, high + pad, strict=True))
        first, second = np.meshgrid(across, up)
        points = np.tile(data.x.mean(axis=0).astype(float), (grid * grid, 1))
        points[:, 0], points[:, 1] = first.ravel(), second.ravel()
        scale = 1.0 / np.maximum(high - low, 1e-300)
        nearest, _ = KDTree(data.x[:, :2] * scale).query(points[:, :2] * scale)
        return Plane(across, up, points, (nearest < NEAR * np.sqrt(2.0)).reshape(grid, grid))


def landscape(
    fit: Fit,
    data: Snapshots | None = None,
    *,
    t: float | None = None,
    grid: int = 80,
    flow: bool = True,
    ax: Any = None,
) -> Any:
    """Draw the potential V on the plane of the first two dimensions, the others at their mean.

    Lines follow the force, minus the gradient of V, where individuals are near. Data of one
    dimension gives a line chart of V. The constant of V is chosen for display.

    Arguments:
        fit: a fit with an energy.
        data: the snapshots that determine the range of the plane and where lines are drawn; None
            means `fit.data`.
        t: the time of a potential that varies in time; None means the middle observed time.
        grid: the number of points along each axis.
        flow: whether the lines are drawn.
        ax: the Matplotlib Axes to draw on; None makes a new figure.

    Returns:
        The Axes.

    Examples:
        >>> sf.pl.landscape(fit)        # doctest: +SKIP
    """
    data = fit.data if data is None else data
    if fit.energy is None:
        raise BadInput(f"{fit.method.name} has no energy to draw")
    if data is None:
        raise BadInput("data is needed: a fit that was loaded does not hold the individuals")
    ax = axes(ax)
    if t is None and fit.energy.time_varying:
        t = float(data.times[len(data) // 2])
    if data.dim == 1:
        line = line_over(data, grid)
        ax.plot(line[:, 0], _centred(fit.energy.potential(line, t)), color="C0")
        name_axes(ax, 1, "V")
    else:
        plane = Plane.over(data, grid)
        v = _centred(fit.energy.potential(plane.points, t)).reshape(grid, grid)
        filled = ax.contourf(plane.across, plane.up, v, levels=24, cmap=CMAP)
        ax.figure.colorbar(filled, ax=ax, label="V")
        if flow:
            force = np.asarray(fit.energy.force(plane.points, t), np.float64)[:, :2]
            force = np.where(plane.near[..., None], force.reshape(grid, grid, 2), np.nan)
            look = {"color": "white", "linewidth": 0.6, "arrowsize": 0.7, "density": 0.9}
            ax.streamplot(plane.across, plane.up, force[..., 0], force[..., 1], **look)
        ax.set_xlim(plane.across[[0, -1]])
        ax.set_ylim(plane.up[[0, -1]])
        name_axes(ax, data.dim)
    ax.set_title("potential V" + ("" if t is None else f" at t = {t:g}"))
    return ax


def uncertainty(
    ensemble: Ensemble,
    data: Snapshots | None = None,
    *,
    t: float | None = None,
    grid: int = 60,
    ax: Any = None,
) -> Any:
    r"""Draw where the members of an ensemble disagree about the force, relative to its size.

    $\sqrt{\sum_d \mathrm{sd}(f_d)^2}$ over the root mean square of the mean force, where
    individuals are near. In one dimension V is drawn, plus and minus its standard deviation, with
    its free constant fixed.

    Arguments:
        ensemble: the fits, whose method must have an energy.
        data: the snapshots that determine the range of the plane; None means those that were
            fitted.
        t: the time of a potential that varies in time; None means the middle observed time.
        grid: the number of points along each axis.
        ax: the Matplotlib Axes to draw on; None makes a new figure.

    Returns:
        The Axes.

    Examples:
        >>> sf.pl.uncertainty(sf.fit_ensemble(data))        # doctest: +SKIP
    """
    first = ensemble.members[0]
    data = first.data if data is None else data
    if data is None or first.energy is None:
        raise BadInput("an uncertainty map needs data and members with an energy")
    ax = axes(ax)
    if t is None and first.energy.time_varying:
        t = float(data.times[len(data) // 2])
    when = "" if t is None else f" at t = {t:g}"
    if data.dim == 1:
        line = line_over(data, grid)
        v = ensemble.potential(line, t)
        ax.fill_between(line[:, 0], v.mean - v.sd, v.mean + v.sd, color="C0", alpha=0.3, lw=0)
        ax.plot(line[:, 0], v.mean, color="C0")
        name_axes(ax, 1, "V")
        ax.set_title(f"V and its spread over {len(ensemble)} fits{when}")
        return ax
    plane = Plane.over(data, grid)
    force = ensemble.force(plane.points, t)
    near = plane.near.ravel()
    size = float(np.sqrt((force.mean[near] ** 2).sum(axis=1).mean())) or 1.0
    share = np.where(near, np.sqrt((force.sd**2).sum(axis=1)) / size, np.nan)
    top = float(np.nanpercentile(share, 99.0)) or 1.0
    values = np.clip(share, 0.0, top).reshape(grid, grid)
    look = {"levels": np.linspace(0.0, top, 13), "cmap": "cividis"}
    filled = ax.contourf(plane.across, plane.up, np.ma.masked_invalid(values), **look)
    ax.figure.colorbar(filled, ax=ax, label="spread of the force / its size", format="%.2g")
    shown = data.x[np.random.default_rng(0).permutation(len(data.x))[:300]]
    ax.scatter(shown[:, 0], shown[:, 1], s=2, color="white", alpha=0.7, linewidths=0)
    name_axes(ax, data.dim)
    ax.set_title(f"where {len(ensemble)} fits disagree{when}")
    return ax


def line_over(data: Snapshots, grid: int) -> np.ndarray:
    """Points over the range of data of one dimension, (grid, 1)."""
    low, high = float(data.x.min()), float(data.x.max())
    pad = 0.05 * (high - low)
    return np.linspace(low - pad, high + pad, grid)[:, None]


def _centred(v: Any) -> np.ndarray:
    v = np.asarray(v)
    return v - v.mean()
