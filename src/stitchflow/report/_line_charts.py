"""Line charts as plain geometry, which the template draws as SVG."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._method.contract import Fit
from stitchflow.metrics import pair_band

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
    """One line in a frame, with ticks; `band` shades a range of x."""

    title: str
    x_name: str
    alt: str
    points: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    band: tuple[float, float] | None = None

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
    charts, stages = [], [stage for stage in fit.stages if "step" in stage]
    parts = PARTS if "residual" in fit.history else {"loss": "The loss of the method"}
    begins = [f"{k} after {before['step'][-1]:g}" for k, before in enumerate(stages[:-1], 2)]
    x_name = f"step (stage {', '.join(begins)})" if begins else "step"
    for name, title in parts.items():
        those = [stage for stage in stages if name in stage]
        values = np.concatenate([stage[name] for stage in those] or [np.empty(0)])
        if np.isfinite(values).sum() > 1:
            steps = np.concatenate([stage["step"] for stage in those])
            charts.append(Chart.of(title, x_name, steps, values))
    return charts


def interaction_chart(fit: Fit, data: Snapshots | None) -> Chart | None:
    """W over distance with the band of the pair distances, where there is a radial W."""
    if fit.energy is None or data is None:
        return None
    low, high = pair_band(data.cloud(len(data) // 2))
    r = np.linspace(0.0, 1.3 * high, 120)
    try:
        w = np.asarray(fit.energy.interaction(r))
    except ValueError:  # no radial interaction
        return None
    return Chart.of("Interaction W", "distance", r, w - w[-1], (low, high))
