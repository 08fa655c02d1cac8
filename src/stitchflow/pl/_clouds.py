"""Points in the plane: snapshots with samples of the fit, and the paths of individuals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._method.contract import Fit
from stitchflow._status import BadInput
from stitchflow._types import KeyLike
from stitchflow.pl._axes import PALETTE, axes, name_axes, time_colours


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
    if len(data) <= 8:
        ax.legend(fontsize="x-small", markerscale=1.5)
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
    """Draw paths of individuals that the energy alone drives, coloured from start to end.

    The first two dimensions are shown; a single dimension is drawn over time.

    Arguments:
        fit: a fit that can simulate.
        x0: where individuals start at `times[0]`, (m, dim).
        times: the times of the path, increasing.
        fate: a function of the end points (n, dim) that returns one label for each; paths are then
            coloured by their label, of which at most seven may differ.
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
    path, times = np.asarray(fit.flow.simulate(x0, times, key=key)), np.asarray(times)
    flat = path.shape[2] == 1
    across = np.broadcast_to(times[:, None], path.shape[:2]) if flat else path[:, :, 0]
    up = path[:, :, 0] if flat else path[:, :, 1]
    if fate is None:
        colours = time_colours(times)
        for k in range(len(times) - 1):
            step = across[k : k + 2], up[k : k + 2]
            ax.plot(*step, color=colours(times[k]), linewidth=0.7, alpha=0.8)
    else:
        _by_fate(ax, across, up, np.asarray(fate(path[-1])))
    name_axes(ax, path.shape[2])
    if flat:
        ax.set_xlabel("time")
        ax.set_ylabel("dimension 1")
    ax.set_title("simulated trajectories" + ("" if fate is None else " by fate"))
    return ax


def _by_fate(ax: Any, across: np.ndarray, up: np.ndarray, labels: np.ndarray) -> None:
    if labels.shape != across.shape[1:]:
        raise BadInput(
            f"fate must give one label per path {across.shape[1:]}, got shape {labels.shape}"
        )
    names = np.unique(labels)
    if len(names) > len(PALETTE):
        raise BadInput(f"fate must give at most {len(PALETTE)} labels, got {len(names)}")
    for name, colour in zip(names, PALETTE, strict=False):
        of = labels == name
        lines = ax.plot(across[:, of], up[:, of], color=colour, linewidth=0.7, alpha=0.7)
        ax.scatter(across[-1, of], up[-1, of], s=8, color=colour, zorder=3)
        lines[0].set_label(f"{name} ({of.mean():.0%})")
    ax.legend(fontsize="x-small", title="fate", title_fontsize="x-small")


def _second(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The second coordinate, or jitter for one-dimensional data."""
    return x[:, 1] if x.shape[1] > 1 else rng.uniform(-0.4, 0.4, len(x))
