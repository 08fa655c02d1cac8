"""Learned V and W with their 90 % bands over the truth: the pictures of `docs/identify.md`.

`python benchmarks/identify.py --pictures` fits `weak-form` with seed 0 where `results/pictures` has
no arrays yet, and `--draw` only draws what is there. Delete an array to fit it again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import stitchflow as sf
from marked_pages import ROOT
from stitchflow._judging.bands import BEYOND, interaction_band, longest_line, potential_band
from stitchflow.bench import Run

ARRAYS, PICTURE = ROOT / "results" / "pictures", ROOT / "docs" / "figures" / "identify.png"
BLUE, GREY = "#0072B2", "0.92"


class Panel(NamedTuple):
    """One panel of the picture.

    Arguments:
        task: a task of the benchmark.
        term: "V" along the longest axis of the data, or "W".
        title: its heading.
        x_name: the name of its axis.
    """

    task: str
    term: str
    title: str
    x_name: str

    @property
    def path(self) -> Path:
        return ARRAYS / f"identify-{self.task}.npz"


AXIS = "longest axis of the data"
PANELS = (
    Panel("doublewell-dense", "V", "V, double well (20 snapshots)", "x"),
    Panel("three-marginals-oakley_ohagan", "V", "V, three marginals (Oakley-O'Hagan)", AXIS),
    Panel("cis", "V", "V, ring of cis", AXIS),
    Panel("cis", "W", "W, ring of cis", "distance of a pair"),
)


def learn(task: str, path: Path) -> None:
    """Fit a task, and store what was learned of V and W beside the truth."""
    prepared = Run(task, "weak-form", 0).prepare()
    train, truth = prepared.problem.train, prepared.problem.energy
    assert truth is not None
    fit = sf.fit(train, prepared.method, 0, progress=False)
    assert fit.energy is not None
    found: dict[str, np.ndarray] = {"beta": np.array([*fit.uncertainty.beta, truth.beta], float)}
    band = potential_band(fit, train)
    centre = float(np.asarray(truth.potential(train.x)).mean())
    line = longest_line(train, len(band.at), BEYOND)[0]
    found |= _named("V", band, np.asarray(truth.potential(line)) - centre)
    if fit.energy.only(sf.Interaction):
        band = interaction_band(fit, train)
        true = np.asarray(truth.interaction(band.at), np.float64)
        found |= _named("W", band, true - true[-1] + band.value[-1])
    np.savez_compressed(path, allow_pickle=False, **found)


def _named(term: str, band: Any, true: np.ndarray) -> dict[str, np.ndarray]:
    parts = {**band._asdict(), "true": true}
    return {f"{term}_{name}": np.asarray(part, np.float32) for name, part in parts.items()}


def learn_all() -> None:
    """Fit every task of the pictures that has no arrays yet."""
    for path, task in {panel.path: panel.task for panel in PANELS}.items():
        if not path.exists():
            learn(task, path)


def draw() -> str:
    """Draw the panels whose arrays are there, and return the lines of the page."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [panel for panel in PANELS if panel.path.exists()]
    if not shown:
        return "No pictures yet: `python benchmarks/identify.py --pictures`."
    size = (2.9 * len(shown), 2.7)
    figure, axes = plt.subplots(1, len(shown), figsize=size, layout="constrained", squeeze=False)
    for ax, panel in zip(axes[0], shown, strict=True):
        _panel(ax, panel)
    axes[0, 0].legend(fontsize="x-small", loc="best")
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)
    return (
        "![Learned V and W with 90 % bands over the true ones](figures/identify.png)\n\n"
        "*Learned by `weak-form` with its defaults, seed 0 (blue, with its 90 % band), and the "
        "truth (dashed). Shaded: where 98 % of the individuals, or 90 % of the pairs, were seen; "
        "outside, the curves follow from the smoothness assumed. V has mean zero over the "
        "individuals; the true W is shifted by a constant. The band holds the truth at "
        f"{', '.join(f'{100 * covered(panel):.0f}' for panel in shown)} % of the shaded places, "
        "from left to right.*"
    )


def arrays(panel: Panel) -> list[np.ndarray]:
    """Places, what was learned there, both ends of its band, the range seen, and the truth."""
    names = ("at", "value", "low", "high", "seen", "true")
    with np.load(panel.path, allow_pickle=False) as stored:
        return [stored[f"{panel.term}_{name}"] for name in names]


def covered(panel: Panel) -> float:
    """The share of the places seen at which the band holds the truth."""
    at, _, low, high, seen, true = arrays(panel)
    inside = (at >= seen[0]) & (at <= seen[1])
    return float(((low <= true) & (true <= high))[inside].mean())


def _panel(ax: Any, panel: Panel) -> None:
    """The truth over what was learned."""
    at, value, low, high, seen, true = arrays(panel)
    ax.axvspan(*seen, color=GREY, lw=0)
    ax.fill_between(at, low, high, color=BLUE, alpha=0.3, lw=0, label="90 % band")
    ax.plot(at, value, color=BLUE, label="learned")
    ax.plot(at, true, color="black", ls="--", lw=1.2, label="true")
    both = np.concatenate([value, true])
    room = 0.25 * float(np.ptp(both))
    ax.set_ylim(float(both.min()) - room, float(both.max()) + room)
    ax.set_xlim(float(at[0]), float(at[-1]))
    ax.set_title(panel.title, fontsize="small")
    ax.set_xlabel(panel.x_name, fontsize="small")
    ax.tick_params(labelsize="x-small")
