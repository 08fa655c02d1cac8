"""The four pictures of docs/concepts.md, drawn from one small fit on a line."""

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np

import stitchflow as sf

IMAGES = Path(__file__).parents[1] / "docs" / "images"
TIMES = (0.0, 0.2, 0.5, 1.0)
LATER = 1.6
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.6"
LINE = np.linspace(-1.7, 1.7, 200)


def method(steps: int) -> sf.Stitching:
    return sf.Stitching(particles=100, nodes=25, optimiser=sf.Optimiser(steps=steps))


def panels(*titles: str):
    size = {"figsize": (3.6 * len(titles), 2.9), "layout": "constrained"}
    fig, axes = plt.subplots(1, len(titles), squeeze=False, **size)
    for ax, title in zip(axes[0], titles, strict=True):
        ax.set_title(title, fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    return fig, axes[0]


def in_time(ax, last: float = 1.0) -> None:
    ax.set(xlabel="time", ylabel="x", xlim=(-0.08, last + 0.08), ylim=(-1.7, 1.7))


def dots(ax, data: sf.Snapshots) -> None:
    rng = np.random.default_rng(0)
    for t, cloud in zip(data.times, data.clouds, strict=True):
        at = t + 0.012 * rng.normal(size=len(cloud))
        ax.scatter(at, cloud[:, 0], s=3, color="black", alpha=0.35, linewidths=0, zorder=3)


def density(ax, fit: sf.Fit, times: np.ndarray) -> None:
    columns = [np.exp(fit.flow.log_density(LINE[:, None], float(t))) for t in times]
    shade = {"cmap": "Blues", "vmin": 0.0, "vmax": 1.3 * np.max(columns), "shading": "gouraud"}
    ax.pcolormesh(times, LINE, np.stack(columns, axis=1), **shade)


def snapshots(data: sf.Snapshots):
    fig, (ax,) = panels("four snapshots, nobody seen twice")
    dots(ax, data)
    in_time(ax)
    return fig


def curve_and_energy(data: sf.Snapshots, fit: sf.Fit, truth: sf.Energy):
    fig, (left, right) = panels("the curve: a density that moves", "the energy: what moves it")
    curve, units = fit.flow.curve, fit.flow.units
    density(left, fit, np.linspace(0.0, 1.0, 60))
    paths = np.asarray(units.space_out(curve.positions))[:, ::4, 0]
    left.plot(units.time_out(np.asarray(curve.times)), paths, color=BLUE, linewidth=0.6)
    dots(left, data)
    in_time(left)
    inside = LINE[np.abs(LINE) < 1.4][:, None]
    for energy, look in (
        (truth, {"color": GREY, "linestyle": "--"}),
        (fit.energy, {"color": BLUE}),
    ):
        v = np.asarray(energy.potential(inside))
        name = "truth" if energy is truth else "learned V"
        right.plot(inside[:, 0], v - v.min(), label=name, **look)
    right.set(xlabel="x", ylabel="V")
    right.legend(frameon=False)
    return fig


def residual(early: sf.Fit, late: sf.Fit, t: float = 0.3):
    names = (f"after {early.steps} steps", f"after {late.steps} steps")
    fig, axes = panels(*names)
    for ax, fit in zip(axes, (early, late), strict=True):
        cloud = np.asarray(fit.flow.sample([t], 2000)[0])
        low, high = np.quantile(cloud, [0.03, 0.97])
        x = np.linspace(low, high, 100)[:, None]
        rho, units = fit.flow.marginal(t), fit.flow.units
        rho = sf.KDE(units.space_out(rho.centres), rho.bandwidth * units.length, rho.log_weights)
        curve = np.asarray(fit.flow.velocity(x, t))[:, 0]
        energy = np.asarray(fit.energy.velocity(x, t, rho))[:, 0]
        ax.fill_between(x[:, 0], curve, energy, color=ORANGE, alpha=0.3, label="residual")
        ax.plot(x[:, 0], curve, color="black", label="curve moves")
        ax.plot(x[:, 0], energy, color=BLUE, label="energy says")
        ax.set(xlabel="x", ylabel=f"velocity at t = {t:g}")
    axes[0].sharey(axes[1])
    axes[1].legend(frameon=False, fontsize=8)
    return fig


def questions(data: sf.Snapshots, fit: sf.Fit):
    titles = (
        "sample: between snapshots",
        "simulate: from a start of yours",
        "forecast: beyond the data",
    )
    fig, (between, own, beyond) = panels(*titles)
    density(between, fit, np.linspace(0.0, 1.0, 60))
    dots(between, data)
    between.axvline(0.7, color=ORANGE)
    in_time(between)
    dense = np.linspace(0.3, 1.0, 60)
    start = np.array([[0.0]] * 12)
    paths = np.asarray(fit.flow.simulate(start, dense, key=3))[:, :, 0]
    own.plot(dense, paths, color=ORANGE, linewidth=0.8)
    own.plot(0.3, 0.0, "o", color="black")
    in_time(own)
    later = np.linspace(1.0, LATER, 40)
    paths = np.asarray(fit.flow.simulate(data.cloud(3)[:40], later, key=0))[:, :, 0]
    dots(beyond, data)
    beyond.plot(later, paths, color=ORANGE, linewidth=0.6)
    in_time(beyond, LATER)
    return fig


def main() -> None:
    data, truth = sf.datasets.double_well(dim=1, n=250, times=TIMES, key=0)
    early = sf.fit(data, method(40))
    late = sf.fit(data, method(1500))
    pictures = {
        "snapshots": snapshots(data),
        "curve-and-energy": curve_and_energy(data, late, truth),
        "residual": residual(early, late),
        "questions": questions(data, late),
    }
    for name, fig in pictures.items():
        fig.savefig(IMAGES / f"concepts-{name}.png", dpi=110)


if __name__ == "__main__":
    main()
