"""The paper's figures, drawn from the arrays and lines that runs left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from paper.pictures import Arrays, picture_path, read_picture
from paper.tables import Results
from stitchflow import datasets
from stitchflow.bench._runs import Run

COMPACT = ("flowers", "zigzag_ridge", "watershed", "ishigami", "friedman", "wavy_plateau")
SEQUENTIAL, DIVERGING = "viridis", "RdBu_r"
OBSERVED, MODEL = "#222222", "#d55e00"
OURS, PUBLISHED = "stitching", "stitching-paper"


class Studio:
    """Where pictures come from and figures go."""

    def __init__(self, pictures: Path, figures: Path, results: Results):
        self.pictures, self.figures, self.results = pictures, figures, results

    def arrays(self, task: str, method: str = OURS) -> Arrays | None:
        return read_picture(picture_path(self.pictures, Run(task, method)))

    def save(self, figure: Any, name: str) -> None:
        import matplotlib.pyplot as plt

        self.figures.mkdir(parents=True, exist_ok=True)
        figure.savefig(self.figures / f"{name}.png", dpi=110)
        figure.savefig(self.figures / f"{name}.pdf")
        plt.close(figure)


def draw_all(studio: Studio) -> list[str]:
    """Every figure whose runs are there; returns their names."""
    return [name for name, draw in FIGURES.items() if draw(studio, name)]


def _axes(rows: int, columns: int, width: float, height: float, **options: Any) -> Any:
    import matplotlib.pyplot as plt

    return plt.subplots(
        rows, columns, figsize=(width, height), layout="constrained", squeeze=False, **options
    )


def _levels(truth: np.ndarray) -> np.ndarray:
    """Contour levels of a centred truth; learned potentials are drawn on the same scale."""
    low, high = np.percentile(truth, [1, 99])
    return np.linspace(low, high if high > low else low + 1.0, 21)


def _landscape(ax: Any, arrays: Arrays, v: np.ndarray, levels: np.ndarray) -> Any:
    v = np.clip(v - v.mean(), levels[0], levels[-1])
    ax.set_aspect("equal")
    return ax.contourf(arrays["first"], arrays["second"], v, levels=levels, cmap=SEQUENTIAL)


def _bare(ax: Any) -> None:
    ax.set_xticks([])
    ax.set_yticks([])


def wavy_valley(studio: Studio, name: str) -> bool:
    """The truth, the curve stitching finds, and the chords of straight optimal transport."""
    arrays = studio.arrays("wavy-valley")
    if arrays is None:
        return False
    from matplotlib.collections import LineCollection

    figure, axes = _axes(1, 3, 10.5, 3.0, sharex=True, sharey=True)
    true, learned = arrays["true"], arrays["learned"]
    levels = _levels(true - true.mean())
    r2 = studio.results.rows("wavy-valley", "energy", "raw_r2")
    seed0 = next((row["value"] for row in r2 if row["seed"] == 0), float("nan"))
    titles = ("(a) true potential", f"(b) stitching, raw R2 {seed0:.2f}", "(c) chords")
    for ax, v, title in zip(axes[0], (true, learned, true), titles, strict=True):
        filled = _landscape(ax, arrays, v, levels)
        ax.set_title(title, fontsize=10)
        ax.set_xlabel("$x_1$")
    axes[0, 0].set_ylabel("$x_2$")
    paths = {1: arrays["paths"], 2: arrays["clouds"]}
    for k, path in paths.items():
        lines = LineCollection(list(path.transpose(1, 0, 2)), colors="white", linewidths=0.7)
        axes[0, k].add_collection(lines)
    colours = ["#000000", "#444444", "#888888", "#bbbbbb", "#ffffff"]
    for ax in axes[0]:
        for cloud, t, colour in zip(arrays["clouds"], arrays["times"], colours, strict=True):
            ax.scatter(*cloud.T, s=10, color=colour, edgecolors="k", lw=0.3, label=f"t = {t:g}")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.colorbar(filled, ax=axes[0, :].tolist(), label="V (centred)", shrink=0.9)
    studio.save(figure, name)
    return True


def gallery(kind: str) -> Callable[[Studio, str], bool]:
    def draw(studio: Studio, name: str) -> bool:
        found = {p: studio.arrays(f"synthetic-{p}-{kind}") for p in datasets.POTENTIALS}
        shown = {p: arrays for p, arrays in found.items() if arrays is not None}
        if not shown:
            return False
        rows = -(-len(shown) // 3)
        figure, axes = _axes(rows, 6, 11.0, 2.05 * rows)
        for ax in axes.ravel()[2 * len(shown) :]:
            ax.set_axis_off()
        for i, (potential, arrays) in enumerate(shown.items()):
            pair = axes.ravel()[2 * i : 2 * i + 2]
            levels = _levels(arrays["true"] - arrays["true"].mean())
            for ax, v in zip(pair, (arrays["true"], arrays["learned"]), strict=True):
                _landscape(ax, arrays, v, levels)
                _bare(ax)
            task = f"synthetic-{potential}-{kind}"
            scores = [
                studio.results.cell(task, "energy", m, digits=2) for m in ("pattern_r2", "raw_r2")
            ]
            pair[0].set_title(potential, fontsize=8)
            pair[1].set_title(f"pattern {scores[0]}, raw {scores[1]}", fontsize=8)
        figure.suptitle(
            f"{kind}: true V (left) and learned V (right) on [-4, 4]$^2$, one colour scale a pair; "
            "R2 on the support",
            fontsize=9,
        )
        studio.save(figure, name)
        return True

    return draw


def compact(studio: Studio, name: str) -> bool:
    """Six potentials: truth, learned from paired, learned from unpaired snapshots."""
    kinds = ("paired", "unpaired")
    found = {(p, kind): studio.arrays(f"synthetic-{p}-{kind}") for p in COMPACT for kind in kinds}
    if any(arrays is None for arrays in found.values()):
        return False
    figure, axes = _axes(3, len(COMPACT), 11.0, 5.6)
    for i, potential in enumerate(COMPACT):
        true = found[potential, "paired"]
        assert true is not None
        levels = _levels(true["true"] - true["true"].mean())
        _landscape(axes[0, i], true, true["true"], levels)
        axes[0, i].set_title(potential, fontsize=9)
        for j, kind in enumerate(kinds, start=1):
            arrays = found[potential, kind]
            assert arrays is not None
            _landscape(axes[j, i], arrays, arrays["learned"], levels)
            task = f"synthetic-{potential}-{kind}"
            r2 = studio.results.cell(task, "energy", "pattern_r2", digits=2)
            axes[j, i].set_title(f"pattern R2 {r2}", fontsize=8)
    for ax, label in zip(axes[:, 0], ("true", *kinds), strict=True):
        ax.set_ylabel(label)
    for ax in axes.ravel():
        _bare(ax)
    studio.save(figure, name)
    return True


def evolution(studio: Studio, name: str) -> bool:
    """What a learner sees: the same individuals throughout, or others at every time."""
    potential = "styblinski_tang"
    kinds = ("paired", "unpaired")
    found = [studio.arrays(f"synthetic-{potential}-{kind}") for kind in kinds]
    if any(arrays is None for arrays in found):
        return False
    figure, axes = _axes(2, 6, 11.0, 4.0, sharex=True, sharey=True)
    for row, (kind, arrays) in enumerate(zip(kinds, found, strict=True)):
        assert arrays is not None
        clouds = arrays["clouds"]
        for k in range(6):
            ax = axes[row, k]
            if kind == "paired" and k:
                for path in clouds[: k + 1].transpose(1, 0, 2):
                    ax.plot(*path.T, color="0.7", lw=0.5, zorder=0)
            ax.scatter(*clouds[k].T, s=4, c=np.arctan2(*clouds[0].T), cmap="twilight")
            ax.set_aspect("equal")
            if row == 0:
                ax.set_title(f"t = {0.01 * k:.2f}", fontsize=9)
        axes[row, 0].set_ylabel(f"{kind}\n$x_2$")
    for ax in axes[1]:
        ax.set_xlabel("$x_1$")
    figure.suptitle(f"{potential}: snapshots of the same and of other individuals", fontsize=9)
    studio.save(figure, name)
    return True


def embryoid(studio: Studio, name: str) -> bool:
    """V over (PC1, PC2) with samples of the curve; half-integer times were never seen."""
    static, varying = studio.arrays("eb-full"), studio.arrays("eb-full-varying")
    if static is None or varying is None:
        return False
    times = varying["times"]
    figure, axes = _axes(2, len(times), 1.75 * len(times), 4.3, sharex=True, sharey=True)
    for row, (arrays, label) in enumerate(((static, "V(x)"), (varying, "V(x, t)"))):
        fields = [v - np.median(v) for v in arrays["learned"]]
        stacked = np.stack(fields)
        low, high = np.percentile(stacked, [1, 90])
        levels = np.linspace(low, high, 21)
        for k, t in enumerate(times):
            ax = axes[row, k]
            v = np.clip(fields[min(k, len(fields) - 1)], levels[0], levels[-1])
            filled = ax.contourf(
                arrays["first"], arrays["second"], v, levels=levels, cmap=SEQUENTIAL
            )
            seen = np.flatnonzero(np.isclose(arrays["observed_times"], t))
            if len(seen):
                cells = arrays["observed"][seen[0]]
                ax.scatter(*cells.T, s=2, color="white", alpha=0.6, label="held-out cells")
            ax.scatter(*arrays["sampled"][k].T, s=2, color=MODEL, alpha=0.6, label="model")
            ax.set_xlim(arrays["first"][0], arrays["first"][-1])
            ax.set_ylim(arrays["second"][0], arrays["second"][-1])
            if row == 0:
                ax.set_title(f"t = {t:g}" + ("" if len(seen) else "\n(unseen)"), fontsize=9)
            else:
                ax.set_xlabel("PC1")
        axes[row, 0].set_ylabel(f"{label}\nPC2")
        bar = figure.colorbar(filled, ax=axes[row].tolist(), label=f"{label}, median 0")
        bar.ax.tick_params(labelsize=7)
    axes[0, 0].legend(fontsize=6, loc="upper left", markerscale=3)
    studio.save(figure, name)
    return True


def cis(studio: Studio, name: str) -> bool:
    arrays = studio.arrays("cis")
    if arrays is None:
        return False
    figure, axes = _axes(2, 9, 15.5, 3.9)
    limits = (arrays["first"][0], arrays["first"][-1]), (arrays["second"][0], arrays["second"][-1])
    for row, (key, label, colour) in enumerate(
        (("observed", "held-out", OBSERVED), ("sampled", OURS, MODEL))
    ):
        for k, t in enumerate(arrays["times"]):
            ax = axes[row, k]
            ax.scatter(*arrays[key][k].T, s=3, color=colour)
            ax.set_xlim(*limits[0])
            ax.set_ylim(*limits[1])
            ax.set_aspect("equal")
            _bare(ax)
            if row == 0:
                ax.set_title(f"t = {t:g}", fontsize=9)
        axes[row, 0].set_ylabel(label)
    top, bottom = axes[0, 8], axes[1, 8]
    true = arrays["true"] - arrays["true"].mean()
    scale = np.linalg.lstsq(
        (arrays["learned"] - arrays["learned"].mean()).reshape(-1, 1), true.ravel(), rcond=None
    )[0]
    low, high = np.percentile(true, [1, 80])
    levels = np.linspace(low, high, 15)
    _landscape(top, arrays, arrays["learned"] * float(scale[0]), levels)
    top.contour(
        arrays["first"], arrays["second"], true, levels=levels[::3], colors="w", linestyles="--"
    )
    top.set_title("V learned (filled, rescaled)\nand true (dashed)", fontsize=8)
    _bare(top)
    r, low_high = arrays["r"], arrays["band"]
    inside = (r >= low_high[0]) & (r <= low_high[1])
    for key, style, label in (("learned_w", "-", "learned"), ("true_w", "--", "true")):
        w = arrays[key] - arrays[key][inside].mean()
        bottom.plot(r, w, style, color=MODEL if key == "learned_w" else OBSERVED, label=label)
    bottom.axvspan(*low_high, color="0.9", zorder=0)
    bottom.set_xlabel("r")
    bottom.set_title("W(r), centred on the\nband of pair distances", fontsize=8)
    bottom.legend(fontsize=7)
    studio.save(figure, name)
    return True


def chiral(task: str, method: str = OURS) -> Callable[[Studio, str], bool]:
    def draw(studio: Studio, name: str) -> bool:
        arrays = studio.arrays(task, method)
        if arrays is None:
            return False
        times = arrays["times"]
        figure, axes = _axes(2, len(times) + 2, 15.5, 3.9)
        reach = 1.05 * np.abs(arrays["observed"]).max()
        for row, (key, label, colour) in enumerate(
            (("observed", "held-out", OBSERVED), ("sampled", method, MODEL))
        ):
            for k, t in enumerate(times):
                ax = axes[row, k]
                ax.scatter(*arrays[key][k].T, s=2, color=colour)
                ax.set_xlim(-reach, reach)
                ax.set_ylim(-reach, reach)
                ax.set_aspect("equal")
                _bare(ax)
                if row == 0:
                    ax.set_title(f"t = {t:g}", fontsize=9)
            axes[row, 0].set_ylabel(label)
        axis, thin = arrays["axis"], slice(None, None, 3)
        top = np.percentile(np.abs(arrays["true_curl"]), 98)
        for row, kind in enumerate(("true", "learned")):
            kernel = arrays[f"{kind}_kernel"]
            size = np.linalg.norm(kernel, axis=-1, keepdims=True)
            arrows = (kernel / np.maximum(size, 1e-9))[thin, thin]
            ax = axes[row, -2]
            ax.pcolormesh(axis, axis, size[..., 0], cmap=SEQUENTIAL, vmin=0, vmax=0.4)
            ax.quiver(axis[thin], axis[thin], arrows[..., 0], arrows[..., 1], color="w", scale=22)
            ax.set_title(f"K {kind}", fontsize=9)
            ax.set_aspect("equal")
            ax = axes[row, -1]
            mesh = ax.pcolormesh(
                axis, axis, arrays[f"{kind}_curl"], cmap=DIVERGING, vmin=-top, vmax=top
            )
            ax.set_title(f"curl K {kind}", fontsize=9)
            ax.set_aspect("equal")
        figure.colorbar(mesh, ax=axes[:, -1].tolist(), shrink=0.8)
        studio.save(figure, name)
        return True

    return draw


def double_well(method: str) -> Callable[[Studio, str], bool]:
    return lambda studio, name: _double_well(studio, name, method)


def _double_well(studio: Studio, name: str, method: str) -> bool:
    regimes = {"dense": "20 snapshots", "terminal": "first and last", "trickle": "1,000 x 10"}
    found = {regime: studio.arrays(f"doublewell-{regime}", method) for regime in regimes}
    if any(arrays is None for arrays in found.values()):
        return False
    figure, axes = _axes(2, 3, 10.0, 5.2)
    figure.suptitle("our default" if method == OURS else "the published method", fontsize=11)
    for column, (regime, arrays) in enumerate(found.items()):
        assert arrays is not None
        ax = axes[0, column]
        mesh = ax.pcolormesh(
            arrays["times"],
            0.5 * (arrays["bins"][1:] + arrays["bins"][:-1]),
            arrays["density"].T,
            cmap=SEQUENTIAL,
            vmin=0.0,
            vmax=0.4,
        )
        ax.scatter(arrays["observed_t"], arrays["observed_x"], s=1, color="w", alpha=0.5)
        ax.set_title(f"{regime}: {regimes[regime]}", fontsize=10)
        ax.set_xlabel("t")
        ax = axes[1, column]
        x, (low, high) = arrays["x"], arrays["support"]
        inside = (x >= low) & (x <= high)
        for key, style, colour in (("true", "--", OBSERVED), ("learned", "-", MODEL)):
            v = arrays[key] - arrays[key][inside].mean()
            ax.plot(x, v, style, color=colour, label=key)
        ax.axvspan(low, high, color="0.93", zorder=0)
        ax.set_ylim(-14, 26)
        ax.set_xlabel("x")
        place = (f"doublewell-{regime}", "energy", "pattern_r2")
        r2 = studio.results.cell(*place, method=method, digits=2)
        ax.set_title(f"pattern R2 {r2}", fontsize=9)
    axes[0, 0].set_ylabel("x")
    axes[1, 0].set_ylabel("V (centred on the data's range)")
    axes[1, 0].legend(fontsize=8)
    figure.colorbar(mesh, ax=axes[0, :].tolist(), label="density of the curve")
    studio.save(figure, name)
    return True


FIGURES: dict[str, Callable[[Studio, str], bool]] = {
    "wavy-valley": wavy_valley,
    "synthetic-compact": compact,
    "synthetic-paired": gallery("paired"),
    "synthetic-unpaired": gallery("unpaired"),
    "synthetic-evolution": evolution,
    "embryoid": embryoid,
    "cis": cis,
    "chiral": chiral("chiral"),
    "chiral-dense": chiral("chiral-dense"),
    "chiral-published": chiral("chiral", PUBLISHED),
    "doublewell": double_well(OURS),
    "doublewell-published": double_well(PUBLISHED),
}
