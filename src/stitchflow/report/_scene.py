"""What the page plays: data, samples and trajectories in a plane, with the landscape below."""

from __future__ import annotations

from typing import Any

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._judging.judge import Sample
from stitchflow._method.contract import Fit
from stitchflow._method.flow import Flow
from stitchflow._status import NotAvailable
from stitchflow._types import near_times
from stitchflow.report._plane import TICKS, Line, Plane, quantised

FRAMES = 41
MOST_POINTS = 2400  # of the data, in all
SAMPLES, PATHS = 200, 60
CLOUD = 256  # individuals simulated together, of whom some are shown
MOST_GROUPS = 7  # that have a colour of their own


def scene(fit: Fit, test: Snapshots | None) -> dict[str, Any]:
    """Everything the page's script needs, as plain JSON."""
    seen = fit.times if test is None else np.union1d(fit.times, test.times)
    frames = frames_of(seen[seen >= fit.times[0]])
    shown = _shown(fit.data, test)
    samples = _samples(fit, frames)
    paths, starts = _paths(fit.flow, frames, test if _begins(test, fit) else fit.data)
    x, t = _table(shown)
    base = x if len(x) else samples.reshape(-1, fit.flow.dim)
    base = base if len(base) else np.zeros((2, fit.flow.dim))  # nothing to show, said elsewhere
    plane = _plane(fit, base, frames, samples)
    placed = plane.at(x, t) if len(x) else np.empty((0, 2))
    drawn = [plane.at(c, when) for c, when in zip(samples, frames, strict=False)]
    moved = [plane.at(c, when) for c, when in zip(paths, frames, strict=False)]
    box = _box(np.concatenate([placed, *drawn]))
    land = None
    if fit.energy is not None and len(samples):
        land = plane.landscape(fit.energy, box, frames, samples, base)
    return {
        "names": plane.names,
        "note": plane.note,
        "box": box.tolist(),
        "ticks": TICKS,
        "frames": frames.tolist(),
        "times": np.unique(t).tolist() or fit.times.tolist(),
        "data": _individuals(shown) | {"at": quantised(placed, box)},
        "samples": [quantised(cloud, box) for cloud in drawn],
        "paths": [quantised(cloud, box) for cloud in moved],
        "starts": starts,
        "landscape": land,
    }


def frames_of(times: np.ndarray) -> np.ndarray:
    """Times to play: even steps through the observed ones, with every one of them if few."""
    if len(times) > FRAMES:
        return times[np.unique(np.linspace(0, len(times) - 1, FRAMES).round().astype(int))]
    even = np.linspace(times[0], times[-1], FRAMES)
    gap = np.abs(even[:, None] - times[None, :]).min(axis=1)
    return np.sort(np.concatenate([times, even[gap > 0.3 * (even[1] - even[0])]]))


def _shown(train: Snapshots | None, test: Snapshots | None) -> list[tuple[Snapshots, bool]]:
    """Some individuals of both sides, and whether they were held out."""
    sides = [(side, held) for side, held in ((train, False), (test, True)) if side is not None]
    most = MOST_POINTS // max(1, sum(len(side) for side, _ in sides))
    return [(side.subsample(max(10, most)), held) for side, held in sides]


def _table(shown: list[tuple[Snapshots, bool]]) -> tuple[np.ndarray, np.ndarray]:
    if not shown:
        return np.empty((0, 0)), np.empty(0)
    x = np.concatenate([side.x for side, _ in shown]).astype(np.float64)
    return x, np.concatenate([side.times[side.index] for side, _ in shown])


def _individuals(shown: list[tuple[Snapshots, bool]]) -> dict[str, Any]:
    """Time, side, condition or else group, and label of each individual."""
    _, t = _table(shown)
    told = [side.groups if side.conditions is None else side.conditions for side, _ in shown]
    groups = [
        g
        for column, (side, _) in zip(told, shown, strict=True)
        for g in _words(column, len(side.x))
    ]
    names = sorted(set(groups) - {""})
    return {
        "time": np.searchsorted(np.unique(t), t).tolist(),
        "held": [int(held) for side, held in shown for _ in range(len(side.x))],
        "label": [name for side, _ in shown for name in labels(side)],
        "group": [names.index(g) if g else -1 for g in groups],
        "groups": names,
        "coloured": 1 < len(names) <= MOST_GROUPS,
    }


def labels(side: Snapshots) -> list[str]:
    """The id of each individual, or else its name or its row in the table."""
    if side.ids is not None:
        return _words(side.ids, len(side.x))
    if side.names is not None and side.rows is not None:
        return _words(side.names[side.rows], len(side.x))
    rows = np.arange(len(side.x)) if side.rows is None else side.rows
    return [f"row {int(row)}" for row in rows]


def _words(column: np.ndarray | None, n: int) -> list[str]:
    return [""] * n if column is None else [str(entry) for entry in column]


def _begins(test: Snapshots | None, fit: Fit) -> bool:
    return test is not None and bool(near_times(test.times[0], fit.times)[0, 0])


def _samples(fit: Fit, frames: np.ndarray) -> np.ndarray:
    """(frame, n, dim): one draw carried along, since every frame has the same key.

    After the last trained time the draw is simulated, which is what an extrapolation is.
    """
    inside, beyond = frames[frames <= fit.times[-1]], frames[frames > fit.times[-1]]
    try:
        clouds = [np.asarray(fit.flow.sample([t], SAMPLES, key=0)[0]) for t in inside]
        if len(beyond):
            clouds.extend(np.asarray(fit.flow.simulate(clouds[-1], [inside[-1], *beyond]))[1:])
    except NotAvailable:
        return np.empty((0, 0, fit.flow.dim))
    return np.stack(clouds)


def _paths(flow: Flow, frames: np.ndarray, start: Snapshots | None) -> tuple[np.ndarray, list[str]]:
    """(frame, n, dim) of individuals driven by the dynamics alone, and who they are."""
    if start is None:
        return np.empty((0, 0, flow.dim)), []
    some = start.keep_times([start.times[0]]).subsample(CLOUD)
    try:
        path = Sample(some.x, some.uneven_weights(0), some.groups).carried(flow, frames, 0)
    except NotAvailable:
        return np.empty((0, 0, flow.dim)), []
    return path[:, :PATHS], labels(some)[:PATHS]


def _plane(fit: Fit, x: np.ndarray, frames: np.ndarray, samples: np.ndarray) -> Plane | Line:
    features = fit.source.get("columns", {}).get("features")
    if fit.flow.dim == 1:
        name = "dimension 1" if features is None else features[0]
        return Line.of(fit.energy if len(samples) else None, x, frames, samples, name)
    return Plane.of(x, None if features is None else tuple(features))


def _box(points: np.ndarray) -> np.ndarray:
    """Nearly everybody, with a margin; who escaped to infinity has no say."""
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return np.array([[0.0, 1.0], [0.0, 1.0]])
    low, high = np.percentile(points, [0.1, 99.9], axis=0)
    pad = 0.06 * np.where(high > low, high - low, 1.0)
    return np.stack([low - pad, high + pad], axis=1)
