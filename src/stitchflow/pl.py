"""Plots. Every function takes `ax=`, returns the Axes, and leaves showing to the caller."""

from __future__ import annotations

from typing import Any

import numpy as np

from stitchflow._crossval import CrossValidation
from stitchflow._method import Fit
from stitchflow._snapshots import Snapshots
from stitchflow._types import KeyLike

CMAP = "viridis"


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib; install stitchflow[plot]") from None
    return plt.subplots(figsize=(4.2, 3.6), layout="constrained")[1]


def _second(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The second coordinate, or jitter for one-dimensional data."""
    return x[:, 1] if x.shape[1] > 1 else rng.uniform(-0.4, 0.4, len(x))


def _label(ax: Any, dim: int) -> None:
    ax.set_xlabel("dimension 1")
    ax.set_ylabel("dimension 2" if dim > 1 else "jitter")


def snapshots(
    data: Snapshots, fit: Fit | None = None, *, n: int = 300, key: KeyLike = 0, ax: Any = None
) -> Any:
    """Observed individuals coloured by time; with a fit, its samples as rings."""
    ax, rng = _axes(ax), np.random.default_rng(0)
    colours = _colours(data.times)
    for k, t in enumerate(data.times):
        cloud = data.cloud(k)
        cloud = cloud[rng.permutation(len(cloud))[:n]]
        ax.scatter(cloud[:, 0], _second(cloud, rng), s=6, color=colours(t), label=f"t = {t:g}")
        if fit is not None:
            drawn = np.asarray(fit.flow.sample([t], min(n, len(cloud)), key=key)[0])
            ring = {"s": 14, "facecolors": "none", "edgecolors": [colours(t)], "linewidths": 0.6}
            ax.scatter(drawn[:, 0], _second(drawn, rng), **ring)
    _label(ax, data.dim)
    ax.set_title("observed (dots)" + (" and fitted (rings)" if fit is not None else ""))
    if len(data) <= 8:
        ax.legend(fontsize="x-small", markerscale=1.5)
    return ax


def landscape(
    fit: Fit, data: Snapshots, *, t: float | None = None, grid: int = 80, ax: Any = None
) -> Any:
    """The potential on the plane of the first two dimensions, the others at their mean."""
    if fit.energy is None:
        raise ValueError(f"{fit.method.name} has no energy to draw")
    ax = _axes(ax)
    if t is None and fit.energy.time_varying:
        t = float(data.times[len(data) // 2])
    low, high = data.x.min(axis=0), data.x.max(axis=0)
    pad = 0.05 * (high - low)
    axis = [np.linspace(a, b, grid) for a, b in zip(low - pad, high + pad, strict=True)]
    if data.dim == 1:
        ax.plot(axis[0], _centred(fit.energy.potential(axis[0][:, None], t)), color="C0")
        ax.set_xlabel("dimension 1")
        ax.set_ylabel("V")
    else:
        first, second = np.meshgrid(axis[0], axis[1])
        points = np.tile(data.x.mean(axis=0), (grid * grid, 1))
        points[:, 0], points[:, 1] = first.ravel(), second.ravel()
        v = _centred(fit.energy.potential(points, t)).reshape(grid, grid)
        filled = ax.contourf(first, second, v, levels=24, cmap=CMAP)
        ax.figure.colorbar(filled, ax=ax, label="V")
        _label(ax, data.dim)
    ax.set_title("potential V" + ("" if t is None else f" at t = {t:g}"))
    return ax


def trajectories(
    fit: Fit, x0: Any, times: Any, *, n: int = 60, key: KeyLike = 0, ax: Any = None
) -> Any:
    """Paths of individuals driven by the energy alone, coloured from start to end."""
    ax = _axes(ax)
    x0 = np.asarray(x0)[np.random.default_rng(0).permutation(len(x0))[:n]]
    path = np.asarray(fit.flow.simulate(x0, times, key=key))
    colours, times = _colours(np.asarray(times)), np.asarray(times)
    flat = path.shape[2] == 1
    for k in range(len(times) - 1):
        x = np.broadcast_to(times[k : k + 2, None], (2, len(x0))) if flat else path[k : k + 2, :, 0]
        y = path[k : k + 2, :, 0] if flat else path[k : k + 2, :, 1]
        ax.plot(x, y, color=colours(times[k]), linewidth=0.7, alpha=0.8)
    _label(ax, path.shape[2])
    if flat:
        ax.set_xlabel("time")
        ax.set_ylabel("dimension 1")
    ax.set_title("simulated trajectories")
    return ax


def history(fit: Fit, *, ax: Any = None) -> Any:
    """The parts of the objective over the fit."""
    if not fit.history:
        raise ValueError(f"{fit.method.name} has no history to draw")
    ax = _axes(ax)
    twin = ax.twinx()
    ax.plot(fit.history["step"], fit.history["divergence"], color="C0")
    twin.plot(fit.history["step"], fit.history["residual"], color="C1")
    ax.set_xlabel("step")
    ax.set_ylabel("divergence", color="C0")
    twin.set_ylabel("residual", color="C1")
    twin.set_yscale("log")
    ax.set_title("loss history")
    return ax


def _colours(times: np.ndarray) -> Any:
    import matplotlib

    span = float(times[-1] - times[0]) or 1.0
    return lambda t: matplotlib.colormaps[CMAP](0.95 * float(t - times[0]) / span)


def _centred(v: Any) -> np.ndarray:
    v = np.asarray(v)
    return v - v.mean()


def cross_validation(scores: CrossValidation, *, metric: str | None = None, ax: Any = None) -> Any:
    """Scores of every method at everything left out, with the floor as a grey bar."""
    metric = scores.metrics[0] if metric is None else metric
    if metric not in scores.metrics:
        raise ValueError(f"metric must be among {', '.join(scores.metrics)}; got {metric!r}")
    ax, places = _axes(ax), [p for p in scores.places(metric) if p[2] is not None]
    markers = "osD^vP*X"
    for i, method in enumerate(scores.methods):
        values = [scores.value(method, metric, place) for place in places]
        known = [(j, value) for j, value in enumerate(values) if value is not None]
        shift = 0.6 * (i / max(len(scores.methods) - 1, 1) - 0.5)
        at = [j + shift for j, _ in known]
        ax.plot(at, [v for _, v in known], markers[i % 8], label=method, ms=5)
    for j, place in enumerate(places):
        floor = scores.floor(metric, place)
        if floor is not None:
            label = "floor" if j == 0 else None
            ax.hlines(floor, j - 0.4, j + 0.4, color="0.5", lw=3, alpha=0.6, label=label)
    ax.set_xticks(range(len(places)), [f"{out}\n{protocol}" for out, protocol, _ in places])
    ax.set_xlabel("left out")
    ax.set_ylabel(metric)
    ax.set_ylim(bottom=0.0)
    ax.legend(fontsize="x-small")
    return ax
