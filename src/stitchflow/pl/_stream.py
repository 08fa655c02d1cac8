"""Streams of velocities on an embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import KDTree

from stitchflow._reading.cells import column, representation
from stitchflow._status import BadInput
from stitchflow._types import as_cloud, check_count
from stitchflow.pl._axes import MARKERS, PALETTE, axes, category_colours, legend_beside

NEIGHBOURS = 30
RIDGE = 1e-3  # of the neighbours' mean variance: directions of little variance are not amplified


def stream(
    embedding: Any,
    velocity: Any = None,
    *,
    basis: str | None = None,
    key: str = "stitchflow",
    use_rep: str | None = None,
    colour: Any = None,
    grid: int = 40,
    arrows: bool = True,
    ax: Any = None,
) -> Any:
    """Draw stream lines of velocities on a two-dimensional embedding, with arrows on top.

    The lines show directions, the arrows also sizes. Velocities of an AnnData belong to the
    representation of the fit and are mapped to the embedding by `project`.

    Arguments:
        embedding: points (n, 2), or an AnnData to which `tl.fit` was applied.
        velocity: the velocities of the points, (n, 2); not used with an AnnData.
        basis: the embedding in `obsm` of an AnnData, with or without its prefix `X_`.
        key: the name under which the fit was stored; the velocities are `obsm[f"{key}_velocity"]`.
        use_rep: the representation that the velocities belong to; None means that of the fit.
        colour: one number or category per point, or the name of a column of `obs`; None is grey.
        grid: the number of points along each axis at which velocities are averaged, at least four.
        arrows: whether arrows are drawn.
        ax: the Matplotlib Axes to draw on; None makes a new figure.

    Returns:
        The Axes.

    Examples:
        >>> sf.pl.stream(adata, basis="umap", colour="day")      # doctest: +SKIP
    """
    if hasattr(embedding, "obsm"):
        points, moves = _of_cells(embedding, basis, key, use_rep)
        colour = column(embedding, colour) if isinstance(colour, str) else colour
    else:
        points = as_cloud(embedding, "embedding", 2).astype(np.float64)
        if velocity is None:
            raise BadInput("velocity is needed: one row of two numbers per point")
        moves = as_cloud(velocity, "velocity", 2).astype(np.float64)
    if len(points) != len(moves):
        raise BadInput(f"velocity must have one row per point ({len(points)}), got {len(moves)}")
    check_count(grid, "grid", 4)
    shades = None if colour is None else np.asarray(colour)
    if shades is not None and shades.shape != (len(points),):
        raise BadInput(f"colour must be one entry per point ({len(points)}), got {shades.shape}")
    ax = axes(ax)
    _scatter(ax, points, shades, getattr(colour, "name", None) or "")
    across, up, field = _on_grid(points, moves, grid)
    ax.streamplot(across, up, field[..., 0], field[..., 1], color="0.15", linewidth=0.8, density=1)
    if arrows:
        _arrows(ax, points, across, up, field)
    name = "embedding" if basis is None else basis.removeprefix("X_")
    ax.set_xlabel(f"{name} 1")
    ax.set_ylabel(f"{name} 2")
    ax.set_title("velocity")
    return ax


def project(x: Any, velocity: Any, embedding: Any) -> np.ndarray:
    r"""Map velocities at points to an embedding of the same points.

    Around every point the embedding is approximated as linear, by least squares over its nearest
    neighbours: $J = \arg\min \sum_j |y_j - \bar y - J(x_j - \bar x)|^2$, and the velocity is $Jv$.

    Arguments:
        x: the points, (n, dim).
        velocity: their velocities, (n, dim).
        embedding: the same points in the embedding, (n, k).

    Returns:
        The velocities in the embedding, (n, k).

    Examples:
        >>> x = np.random.default_rng(0).normal(size=(100, 2))
        >>> moved = sf.pl.project(x, np.ones((100, 2)), 3.0 * x[:, :1])
        >>> moved.shape, round(float(moved.mean()), 1)
        ((100, 1), 3.0)
    """
    x, velocity = as_cloud(x, "x").astype(np.float64), np.asarray(velocity, np.float64)
    y = as_cloud(embedding, "embedding").astype(np.float64)
    if velocity.shape != x.shape or len(y) != len(x):
        raise BadInput(
            f"x, velocity and embedding must have the same rows, got shapes "
            f"{x.shape}, {velocity.shape} and {y.shape}"
        )
    near = KDTree(x).query(x, k=min(max(NEIGHBOURS, 2 * x.shape[1]), len(x)))[1]
    near = near.reshape(len(x), -1)
    moved = np.empty_like(y)
    for rows in np.array_split(np.arange(len(x)), max(1, len(x) // 2000)):
        a = x[near[rows]] - x[near[rows]].mean(axis=1, keepdims=True)
        b = y[near[rows]] - y[near[rows]].mean(axis=1, keepdims=True)
        square = np.einsum("nki,nkj->nij", a, a)
        ridge = RIDGE * np.trace(square, axis1=1, axis2=2) / x.shape[1] + 1e-300
        square += ridge[:, None, None] * np.eye(x.shape[1])
        part = np.linalg.solve(square, velocity[rows][..., None])
        moved[rows] = np.einsum("nki,nkj,njo->ni", b, a, part)
    return moved


def _of_cells(
    adata: Any, basis: str | None, key: str, use_rep: str | None
) -> tuple[np.ndarray, np.ndarray]:
    """Embedding and projected velocities of an AnnData."""
    if basis is None:
        raise BadInput(f"basis is needed: one of {', '.join(adata.obsm)}")
    y = representation(adata, basis, "basis").astype(np.float64)[:, :2]
    if y.shape[1] < 2:
        raise BadInput(f"basis={basis!r} has one dimension, a stream needs two")
    velocity = representation(adata, f"{key}_velocity", "key").astype(np.float64)
    if use_rep is None:
        stored = adata.uns.get(key, {})
        use_rep = str(stored.get("params", {}).get("use_rep", "X_pca"))
    x = representation(adata, use_rep)
    if x.shape != velocity.shape:
        raise BadInput(
            f"use_rep={use_rep!r} has shape {x.shape}, but obsm['{key}_velocity'] "
            f"{velocity.shape}: name the representation of the fit"
        )
    return y, project(x, velocity, y)


def _scatter(ax: Any, points: np.ndarray, values: np.ndarray | None, name: str) -> None:
    size = float(np.clip(6000.0 / len(points), 2.0, 14.0))
    look = {"s": size, "linewidths": 0, "alpha": 0.8}
    if values is None:
        ax.scatter(points[:, 0], points[:, 1], color="0.7", **look)
    elif values.dtype.kind in "fiu":
        shown = ax.scatter(points[:, 0], points[:, 1], c=values, cmap="viridis", **look)
        ax.figure.colorbar(shown, ax=ax, label=name)
    else:
        words = values.astype(str)
        names = np.unique(words)
        for i, (word, colour) in enumerate(zip(names, category_colours(len(names)), strict=True)):
            # With more categories than distinguishable colours, other markers are used.
            marker, of = MARKERS[i // 20 % len(MARKERS)], words == word
            ax.scatter(*points[of].T, color=colour, marker=marker, label=word, **look)
        legend_beside(ax, markerscale=2.0)


def _arrows(
    ax: Any, points: np.ndarray, across: np.ndarray, up: np.ndarray, field: np.ndarray
) -> None:
    """Arrows where individuals are, the usual one as long as half the distance to the next."""
    grid = len(across)
    every = slice(grid // 20, None, max(1, grid // 10))
    x, y = np.meshgrid(across[every], up[every])
    cell = np.array([across[1] - across[0], up[1] - up[0]])
    nodes = np.stack([x.ravel(), y.ravel()], axis=1) / cell
    few = min(3, len(points))
    near = KDTree(points / cell).query(nodes, k=few)[0].reshape(len(nodes), few)[:, -1] < 1.0
    inside = np.isfinite(field[every, every, 0]) & near.reshape(x.shape)
    if not inside.any():
        return
    tips = field[every, every][inside]
    # Sizes as they look: both axes in units of their range.
    size = np.hypot(*(tips / (cell * grid)).T)
    usual = float(np.median(size[size > 0])) if (size > 0).any() else 1.0
    scale = usual / (0.5 * max(1, grid // 10) / grid)
    look = {"color": PALETTE[1], "angles": "xy", "width": 0.006, "zorder": 4}
    # Beyond three times the usual size arrows would leave the picture.
    tips = tips * np.minimum(1.0, 3.0 * usual / np.maximum(size, 1e-300))[:, None]
    ax.quiver(x[inside], y[inside], *tips.T, scale_units="xy", scale=scale, **look)


def _on_grid(
    points: np.ndarray, moves: np.ndarray, grid: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kernel means of the velocities on a grid, NaN where no points are near."""
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.02 * (high - low) + 1e-12
    across, up = (np.linspace(a, b, grid) for a, b in zip(low - pad, high + pad, strict=True))
    width = np.array([across[1] - across[0], up[1] - up[0]])
    nodes = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2) / width
    k = min(50, len(points))
    distance, near = KDTree(points / width).query(nodes, k=k)
    distance, near = distance.reshape(-1, k), near.reshape(-1, k)
    weights = np.exp(-0.5 * distance**2)
    total = weights.sum(axis=1, keepdims=True)
    field = (weights[..., None] * moves[near]).sum(axis=1) / np.maximum(total, 1e-300)
    alone = distance[:, min(4, k - 1)] > 3.0  # too few points for a stream line
    field[(distance[:, 0] > 1.5) | alone] = np.nan
    return across, up, field.reshape(grid, grid, 2)
