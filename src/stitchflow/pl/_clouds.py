"""Points in the plane: snapshots with samples of the fit, and the paths of individuals."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d

from stitchflow._data.snapshots import Snapshots
from stitchflow._method.contract import Fit
from stitchflow._status import BadInput
from stitchflow._types import KeyLike, as_times
from stitchflow.pl._axes import axes, category_colours, legend_beside, name_axes, time_colours

MOST_FATES = 20  # colours that can be told apart
SMOOTH = 0.05  # of the whole time: the width of the average of a path
STEPS = 60  # a path is drawn through at least so many points


def snapshots(
    data: Snapshots, fit: Fit | None = None, *, n: int = 300, key: KeyLike = 0, ax: Any = None
) -> Any:
    """Draw the observed individuals as dots coloured by time, and samples of a fit as rings.

    The first two dimensions are shown; data of one dimension is spread vertically at random.

    Arguments:
        data: the snapshots.
        fit: the fit whose marginals are sampled at the observed times; None draws the data alone.
        n: the largest number of individuals, and of samples, of each time.
        key: an integer seed or a JAX key of the samples.
        ax: the Matplotlib Axes to draw on; None makes a new figure.

    Returns:
        The Axes.

    Examples:
        >>> sf.pl.snapshots(data, fit)        # doctest: +SKIP
    """
    ax, rng = axes(ax), np.random.default_rng(0)
    colours = time_colours(data.times)
    for k, t in enumerate(data.times):
        cloud = data.cloud(k)
        cloud = cloud[rng.permutation(len(cloud))[:n]]
        ax.scatter(cloud[:, 0], _second(cloud, rng), s=6, color=colours(t), label=f"t = {t:g}")
        if fit is not None:
            drawn = np.asarray(fit.flow.sample([t], min(n, len(cloud)), key=key)[0])
            ring = {"s": 14, "facecolors": "none", "edgecolors": [colours(t)], "linewidths": 0.6}
            ax.scatter(drawn[:, 0], _second(drawn, rng), **ring)
    name_axes(ax, data.dim)
    ax.set_title("observed (dots)" + (" and fitted (rings)" if fit is not None else ""))
    if len(data) <= 24:
        legend_beside(ax, markerscale=1.5)
    return ax


def trajectories(
    fit: Fit,
    x0: Any,
    times: Any,
    *,
    fate: Callable[[np.ndarray], Any] | None = None,
    n: int = 60,
    key: KeyLike = 0,
    ax: Any = None,
) -> Any:
    """Draw paths of individuals that the energy alone drives, over the individuals of the data.

    Paths are coloured from start to end. They are simulated at further times between the given ones
    and, for the eye, averaged over a twentieth of the whole time; both ends are where they were
    simulated. The first two dimensions are shown; a single dimension is drawn over time.

    Arguments:
        fit: a fit that can simulate.
        x0: where individuals start at `times[0]`, (m, dim).
        times: the times of the path, increasing; two are enough.
        fate: a function of the end points (n, dim) that returns one label for each; paths are then
            coloured by their label, of which at most 20 may differ.
        n: the largest number of paths; they are drawn at random from `x0`.
        key: an integer seed or a JAX key of the noise.
        ax: the Matplotlib Axes to draw on; None makes a new figure.

    Returns:
        The Axes.

    Examples:
        >>> left = lambda end: end[:, 0] < 0
        >>> sf.pl.trajectories(fit, data.cloud(0), data.times, fate=left)     # doctest: +SKIP
    """
    ax = axes(ax)
    x0 = np.asarray(x0)[np.random.default_rng(0).permutation(len(x0))[:n]]
    times = _finer(as_times(times))
    path = _smooth(np.asarray(fit.flow.simulate(x0, times, key=key)))
    flat = path.shape[2] == 1
    if fit.data is not None:
        _behind(ax, fit.data)
    across = np.broadcast_to(times[:, None], path.shape[:2]) if flat else path[:, :, 0]
    up = path[:, :, 0] if flat else path[:, :, 1]
    if fate is None:
        _by_time(ax, across, up, times)
    else:
        _by_fate(ax, across, up, np.asarray(fate(path[-1])))
    name_axes(ax, path.shape[2])
    if flat:
        ax.set_xlabel("time")
        ax.set_ylabel("dimension 1")
    ax.set_title("simulated trajectories" + ("" if fate is None else " by fate"))
    return ax


def _finer(times: np.ndarray) -> np.ndarray:
    """The times and evenly spaced ones in every gap, `STEPS` or more in all."""
    each = -(-STEPS // max(len(times) - 1, 1))
    pieces = [np.linspace(a, b, each, endpoint=False) for a, b in pairwise(times)]
    return np.concatenate([*pieces, times[-1:]])


def _smooth(path: np.ndarray) -> np.ndarray:
    """(time, n, dim): paths without their fastest motion, with both ends where they are.

    What is averaged is the distance from the straight line between the ends, which is zero there;
    reflected with its sign turned, it stays zero.
    """
    share = np.linspace(0.0, 1.0, len(path))[:, None, None]
    line = (1.0 - share) * path[:1] + share * path[-1:]
    away = path - line
    turned = np.concatenate([-away[:0:-1], away, -away[-2::-1]])
    averaged = gaussian_filter1d(turned, SMOOTH * len(path), axis=0)
    return line + averaged[len(path) - 1 : 2 * len(path) - 1]


def _behind(ax: Any, data: Snapshots, most: int = 1500) -> None:
    """The individuals of the data as light dots, over time where there is one dimension."""
    rows = np.random.default_rng(0).permutation(len(data.x))[:most]
    x = data.x[rows]
    across, up = (data.times[data.index[rows]], x[:, 0]) if data.dim == 1 else (x[:, 0], x[:, 1])
    ax.scatter(across, up, s=4, color="0.85", linewidths=0, zorder=0)


def _by_time(ax: Any, across: np.ndarray, up: np.ndarray, times: np.ndarray) -> None:
    """Every piece of every path in the colour of its time."""
    from matplotlib.collections import LineCollection

    places = np.stack([across, up], axis=-1)
    pieces = np.stack([places[:-1], places[1:]], axis=2)
    colours = time_colours(times)
    shades = [colours(t) for t in times[:-1] for _ in range(across.shape[1])]
    look = {"linewidths": 0.7, "capstyle": "round", "zorder": 2}
    ax.add_collection(LineCollection(list(pieces.reshape(-1, 2, 2)), colors=shades, **look))
    ax.autoscale_view()


def _by_fate(ax: Any, across: np.ndarray, up: np.ndarray, labels: np.ndarray) -> None:
    if labels.shape != across.shape[1:]:
        raise BadInput(
            f"fate must give one label per path {across.shape[1:]}, got shape {labels.shape}"
        )
    names = np.unique(labels)
    if len(names) > MOST_FATES:
        raise BadInput(f"fate must give at most {MOST_FATES} labels, got {len(names)}")
    for name, colour in zip(names, category_colours(len(names)), strict=True):
        of = labels == name
        lines = ax.plot(across[:, of], up[:, of], color=colour, linewidth=0.7, alpha=0.7)
        ax.scatter(across[-1, of], up[-1, of], s=8, color=colour, zorder=3)
        lines[0].set_label(f"{name} ({of.mean():.0%})")
    legend_beside(ax, title="fate", title_fontsize="x-small")


def _second(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The second coordinate, or jitter for one-dimensional data."""
    return x[:, 1] if x.shape[1] > 1 else rng.uniform(-0.4, 0.4, len(x))
