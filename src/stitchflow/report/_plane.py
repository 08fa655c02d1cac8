"""The plane of the page: where individuals are drawn in it, and the landscape behind them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from stitchflow._energy.energy import Energy

GRID = 64
TICKS = 4095  # steps of a coordinate across the box
# The first two coordinates are kept where they show this share of what components would.
AS_MUCH = 0.9
NEAR = 0.05  # of the box: how far the landscape reaches beyond individuals


@dataclass(frozen=True)
class Plane:
    """Two coordinates of points (n, d), with what they are called and a word on why these."""

    centre: np.ndarray
    directions: np.ndarray
    names: tuple[str, str]
    note: str

    @staticmethod
    def of(x: np.ndarray, features: tuple[str, ...] | None) -> Plane:
        """The first two coordinates, or two components where these show clearly more."""
        dim = x.shape[1]
        centre = x.mean(axis=0)
        called = [f"dimension {i + 1}" for i in range(dim)] if features is None else features
        variances = x.var(axis=0)
        values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(x.T)))
        first, best = float(variances[:2].sum()), float(values[-2:].sum())
        total = float(variances.sum()) or 1.0
        if dim <= 2 or first >= AS_MUCH * best:
            share = f" ({100.0 * first / total:.0f} % of the variance)"
            note = f"The first two of {dim} dimensions are shown{share}." if dim > 2 else ""
            return Plane(0.0 * centre, np.eye(dim)[:, :2], (called[0], called[1]), note)
        note = (
            f"The first two principal components of {dim} dimensions are shown "
            f"({100.0 * best / total:.0f} % of the variance)."
        )
        return Plane(centre, vectors[:, ::-1][:, :2], ("PC 1", "PC 2"), note)

    def at(self, x: np.ndarray, t: float | np.ndarray) -> np.ndarray:
        return (x - self.centre) @ self.directions

    def landscape(
        self, energy: Energy, box: np.ndarray, frames: np.ndarray, clouds: np.ndarray, x: np.ndarray
    ) -> dict[str, Any] | None:
        """V as a picture for each frame (one where it does not change), and where it is known.

        In two dimensions V itself; beyond, its mean over the individuals x near each place.
        """
        across = [np.linspace(a, b, GRID) for a, b in box]
        nodes = np.stack(np.meshgrid(*across), axis=-1).reshape(-1, 2)
        scale = box[:, 1] - box[:, 0]
        here = self.at(x, 0.0) / scale
        distance, _ = KDTree(here).query(nodes / scale)
        known = np.exp(-((np.maximum(distance - NEAR, 0.0) / NEAR) ** 2))
        if x.shape[1] == 2:
            at = lambda t: np.asarray(energy.potential(nodes, t))
        else:
            squares = ((nodes[:, None] / scale - here[None]) ** 2).sum(axis=2)
            weights = np.exp(-0.5 * (squares - squares.min(axis=1, keepdims=True)) / 0.03**2)
            weights /= weights.sum(axis=1, keepdims=True)
            at = lambda t: weights @ np.asarray(energy.potential(x, t))
        v = np.stack([at(t) - gauge for t, gauge in gauges(energy, frames, clouds)])
        v = np.nan_to_num(v, posinf=0.0, neginf=0.0)
        inside = v[:, known > 0.5]
        if inside.size == 0 or np.ptp(inside) == 0.0:
            return None
        low, high = np.percentile(inside, [0.0, 98.0])
        # The root gives the valleys, where individuals are, more of the colours than the slopes.
        share = np.sqrt(np.clip((v - low) / max(high - low, 1e-300), 0.0, 1.0))
        words = [f"{low:.3g}", f"{high:.3g}"]
        pictures = [packed(picture) for picture in share]
        return {"grid": GRID, "v": pictures, "known": packed(known), "ends": words}


@dataclass(frozen=True)
class Line:
    """One dimension: individuals lie on the potential, like marbles (or side by side without)."""

    energy: Energy | None
    lift: float  # of the points above the line, at most
    gauge: dict[float, float]
    names: tuple[str, str]
    note: str

    @staticmethod
    def of(
        energy: Energy | None, x: np.ndarray, frames: np.ndarray, clouds: np.ndarray, name: str
    ) -> Line:
        if energy is None:
            return Line(None, 1.0, {}, (name, "(spread at random)"), "")
        found = list(gauges(energy, frames, clouds))
        gauge = {float(f): c for f, (_, c) in zip(frames, found, strict=False)}
        height = float(np.ptp(np.asarray(energy.potential(x, found[0][0]))))
        note = "Individuals are drawn on the potential, lifted a little so that they can be seen."
        return Line(energy, 0.12 * height, gauge, (name, "potential V"), note)

    def at(self, x: np.ndarray, t: float | np.ndarray) -> np.ndarray:
        lift = self.lift * np.random.default_rng(0).uniform(0.0, 1.0, len(x))
        height = np.zeros(len(x))
        if self.energy is not None:
            when = np.broadcast_to(t, len(x))
            for moment in np.unique(when):
                of = when == moment
                height[of] = self._v(x[of], float(moment))
        return np.stack([x[:, 0], height + lift], axis=1)

    def _v(self, x: np.ndarray, t: float) -> np.ndarray:
        assert self.energy is not None
        nearest = min(self.gauge, key=lambda f: abs(f - t))
        v = np.asarray(self.energy.potential(x, t if self.energy.time_varying else None))
        return v - self.gauge[nearest]

    def landscape(
        self, energy: Energy, box: np.ndarray, frames: np.ndarray, clouds: np.ndarray, x: np.ndarray
    ) -> dict[str, Any] | None:
        """V as a line for each frame."""
        across = np.linspace(box[0, 0], box[0, 1], 2 * GRID)
        times = frames if energy.time_varying else frames[:1]
        heights = [self._v(across[:, None], float(t)) for t in times]
        lines = [quantised(np.stack([across, height], axis=1), box) for height in heights]
        return {"lines": lines}


def gauges(energy: Energy, frames: np.ndarray, clouds: np.ndarray):
    """(time, mean of V over the population): V(x, t) is free up to such a constant."""
    if not energy.time_varying:
        return [(None, float(np.asarray(energy.potential(clouds[0])).mean()))]
    found = []
    for t, cloud in zip(frames, clouds, strict=True):
        here = cloud[np.isfinite(cloud).all(axis=1)]
        mean = np.asarray(energy.potential(here, float(t))).mean() if len(here) else 0.0
        found.append((float(t), float(mean)))
    return found


def quantised(points: np.ndarray, box: np.ndarray) -> list[int]:
    """x0, y0, x1, y1, ... as whole steps across the box; who left it far stays at its rim."""
    share = (points - box[:, 0]) / (box[:, 1] - box[:, 0])
    whole = np.clip(np.nan_to_num(share, nan=-0.5), -0.5, 1.5)
    return np.round(whole * TICKS).astype(int).ravel().tolist()


def packed(values: np.ndarray) -> str:
    """Numbers between 0 and 1 as one byte each, in base64."""
    whole = np.round(np.clip(values, 0.0, 1.0) * 255.0).astype(np.uint8)
    return base64.b64encode(whole.tobytes()).decode()
