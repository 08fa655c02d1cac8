"""Line charts as plain geometry, which the template draws as SVG."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._judging.bands import Band, interaction_band, potential_band
from stitchflow._method.contract import Fit
from stitchflow._stitching.ensemble import Ensemble

WIDTH, HEIGHT = 340.0, 170.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 20.0, 10.0, 30.0  # the last tick's name needs its room
MOST_DECADES = 1.3  # a range beyond it is drawn in logarithms

PARTS = {
    "divergence": "Distance from the data (divergence)",
    "residual": "Distance from a gradient flow (residual)",
    "consistency": "Predictions against the data (consistency)",
}


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True)
class Chart:
    """One line in a frame, with ticks; `band` shades a range of x, `area` surrounds the line."""

    title: str
    x_name: str
    alt: str
    points: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    band: tuple[float, float] | None = None
    area: str = ""
    note: str = ""

    @staticmethod
    def of(
        title: str,
        x_name: str,
        x: np.ndarray,
        y: np.ndarray,
        band: tuple[float, float] | None = None,
    ) -> Chart:
        known = np.isfinite(y)
        x, y = np.asarray(x, float)[known], np.asarray(y, float)[known]
        logs = bool((y > 0).all()) and float(np.log10(y.max() / y.min())) > MOST_DECADES
        height = np.log10(y) if logs else y
        across, up = _Scale(x, LEFT, WIDTH - RIGHT), _Scale(height, HEIGHT - BOTTOM, TOP)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across(x), up(height), strict=True))
        values = up.ticks(6)
        named = [f"{10.0**v:.2g}" if logs else f"{v:.4g}" for v in values]
        scale = " on a logarithmic scale" if logs else ""
        return Chart(
            title,
            x_name,
            f"{title} over {x_name}{scale}: from {y[0]:.3g} to {y[-1]:.3g}.",
            points,
            [Tick(float(across(v)), f"{v:.4g}") for v in across.ticks(5)],
            [Tick(float(up(v)), text) for v, text in zip(values, named, strict=True)],
            None if band is None else (float(across(band[0])), float(across(band[1]))),
        )

    @staticmethod
    def with_area(title: str, x_name: str, found: Band, note: str) -> Chart:
        """A function with its 90 % band, on a scale of its own: a wide band leaves the frame."""
        room = 1.5 * max(float(np.ptp(found.value)), 1e-300)
        low, high = found.value.min() - room, found.value.max() + room
        ends = [np.clip(end, low, high) for end in (found.low, found.high)]
        both = np.concatenate([found.value, *ends])
        across, up = _Scale(found.at, LEFT, WIDTH - RIGHT), _Scale(both, HEIGHT - BOTTOM, TOP)
        drawn = lambda x, y: " ".join(
            f"{a:.1f},{b:.1f}" for a, b in zip(across(x), up(y), strict=True)
        )
        there = np.concatenate([found.at, found.at[::-1]])
        seen = np.clip(found.seen, found.at[0], found.at[-1])
        ends_of = f"from {found.value.min():.3g} to {found.value.max():.3g}"
        said = " with a 90 % band" if found.known else ""
        return Chart(
            title,
            x_name,
            f"{title} over {x_name}{said}: {ends_of}.",
            drawn(found.at, found.value),
            [Tick(float(across(v)), f"{v:.4g}") for v in across.ticks(5)],
            [Tick(float(up(v)), f"{v:.4g}") for v in up.ticks(6)],
            (float(across(seen[0])), float(across(seen[1]))),
            drawn(there, np.concatenate([ends[0], ends[1][::-1]])) if found.known else "",
            note,
        )


class _Scale:
    """A range of values as a range of pixels."""

    def __init__(self, values: np.ndarray, start: float, end: float):
        self.low, high = float(values.min()), float(values.max())
        self.span = (high - self.low) or 1.0
        self.start, self.end = start, end

    def __call__(self, value: np.ndarray | float) -> np.ndarray:
        return self.start + (np.asarray(value) - self.low) / self.span * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Round numbers inside the range."""
        rough = self.span / most
        power = 10.0 ** np.floor(np.log10(rough))
        step = power * next(m for m in (1.0, 2.0, 5.0, 10.0) if m * power >= rough)
        first = np.ceil(self.low / step - 1e-9) * step
        found = np.arange(first, self.low + self.span * (1.0 + 1e-9), step)
        return [float(v) for v in np.where(np.abs(found) < 1e-9 * step, 0.0, found)]


def history_charts(fit: Fit) -> list[Chart]:
    """The parts of the objective over all stages of the fit."""
    charts, stages = [], [stage for stage in fit.history if "step" in stage]
    whole = any("residual" in stage for stage in stages)
    parts = PARTS if whole else {"loss": "The loss of the method"}
    begins = [f"{stage.name} after {stage.begins}" for stage in stages[1:]]
    x_name = f"step ({', '.join(begins)})" if begins else "step"
    for name, title in parts.items():
        those = [stage for stage in stages if name in stage]
        values = np.concatenate([stage[name] for stage in those] or [np.empty(0)])
        if np.isfinite(values).sum() > 1:
            steps = np.concatenate([stage.steps for stage in those])
            charts.append(Chart.of(title, x_name, steps, values))
    return charts


def energy_charts(fit: Fit | Ensemble, data: Snapshots | None) -> list[Chart]:
    """V along a line and a radial W, with their bands, as far as the energy has them."""
    first = fit.members[0] if isinstance(fit, Ensemble) else fit
    if first.energy is None or data is None:
        return []
    charts = []
    try:
        x_name = "dimension 1" if data.dim == 1 else "the longest axis of the data"
        when = f" at t = {data.times[len(data) // 2]:g}" if first.energy.time_varying else ""
        found, note = potential_band(fit, data), "98 % of the individuals"
        charts.append(Chart.with_area(f"Potential V{when}", x_name, found, note))
    except ValueError:  # no potential
        pass
    try:
        found, note = interaction_band(first, data), "90 % of the pairs"
        charts.append(Chart.with_area("Interaction W", "distance", found, note))
    except ValueError:  # no radial interaction
        pass
    return charts
